/* HCCL: the topology as a graph of ranks, endpoints and links. */
#ifndef HCCL_HCCL_RANK_GRAPH_H
#define HCCL_HCCL_RANK_GRAPH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "hccl/hccl_types.h"
#include "hcomm/hcomm_res_defs.h"

static const uint32_t COMM_LINK_MAGIC_WORD = 0x0f0e0f0fU;
static const uint32_t COMM_LINK_VERSION = 1U;

#ifdef __cplusplus
extern "C" {
#endif

/** The type of the value of ENDPOINT_ATTR_BW_COEFF. */
typedef uint32_t EndpointAttrBwCoeff;
/** The type of the value of ENDPOINT_ATTR_DIE_ID. */
typedef uint32_t EndpointAttrDieId;
/** The type of the value of ENDPOINT_ATTR_LOCATION. */
typedef uint32_t EndpointAttrLocation;

/** The properties of an endpoint that HcclRankGraphGetEndpointInfo can get. Since 9.0.0. */
typedef enum {
    ENDPOINT_ATTR_INVALID = -1,
    ENDPOINT_ATTR_BW_COEFF = 0,
    ENDPOINT_ATTR_DIE_ID = 1,
    ENDPOINT_ATTR_LOCATION = 2
} EndpointAttr;

/** The shapes of a network. */
typedef enum {
    COMM_TOPO_RESERVED = -1,
    COMM_TOPO_CLOS = 0,
    COMM_TOPO_1DMESH = 1,
    COMM_TOPO_910_93 = 2,
    COMM_TOPO_310P = 3,
    COMM_TOPO_A2AXSERVER = 4,
    COMM_TOPO_CUSTOM = 5
} CommTopo;

/** The mix of products in a communicator: one product, or several. */
typedef enum {
    HCCL_HETEROG_MODE_INVALID = -1,
    HCCL_HETEROG_MODE_HOMOGENEOUS = 0,
    HCCL_HETEROG_MODE_MIX_A2_A3 = 1
} HcclHeterogMode;

/** A link between two endpoints, which the library fills in. In an array, the distance
 * between links is header.size. */
typedef struct {
    CommAbiHeader header;
    EndpointDesc srcEndpointDesc;
    EndpointDesc dstEndpointDesc;
    union {
        uint8_t raws[128];
        __extension__ struct {
            CommProtocol linkProtocol;
            uint8_t hop;
        };
    } linkAttr;
} CommLink;

/* Rank graph */

/** Gets the network layers to which this rank belongs. */
HcclResult HcclRankGraphGetLayers(HcclComm comm, uint32_t **netLayers, uint32_t *netLayerNum);

/** Gets the ranks that share this rank's instance of a layer. */
HcclResult HcclRankGraphGetRanksByLayer(
    HcclComm comm, uint32_t netLayer, uint32_t **ranks, uint32_t *rankNum);

/** Gets the number of ranks that share this rank's instance of a layer. */
HcclResult HcclRankGraphGetRankSizeByLayer(HcclComm comm, uint32_t netLayer, uint32_t *rankNum);

/** Gets the shape of a layer, such as mesh or Clos. */
HcclResult HcclRankGraphGetTopoTypeByLayer(HcclComm comm, uint32_t netLayer, CommTopo *topoType);

/** Gets the sizes of all instances of a layer. */
HcclResult HcclRankGraphGetInstSizeListByLayer(
    HcclComm comm, uint32_t netLayer, uint32_t **instSizeList, uint32_t *listSize);

/** Gets the links between two ranks on a layer. */
HcclResult HcclRankGraphGetLinks(
    HcclComm comm, uint32_t netLayer, uint32_t srcRank, uint32_t dstRank, CommLink **links,
    uint32_t *linkNum);

/** Gets the ids of the topology instances of a layer that contain this rank. Since 9.0.0. */
HcclResult HcclRankGraphGetTopoInstsByLayer(
    HcclComm comm, uint32_t netLayer, uint32_t **topoInsts, uint32_t *topoInstNum);

/** Gets the shape of a topology instance. Since 9.0.0. */
HcclResult HcclRankGraphGetTopoType(
    HcclComm comm, uint32_t netLayer, uint32_t topoInstId, CommTopo *topoType);

/** Gets the ranks of a topology instance. Since 9.0.0. */
HcclResult HcclRankGraphGetRanksByTopoInst(
    HcclComm comm, uint32_t netLayer, uint32_t topoInstId, uint32_t **ranks, uint32_t *rankNum);

/** Gets the mix of products in the communicator. */
HcclResult HcclGetHeterogMode(HcclComm comm, HcclHeterogMode *mode);

/** Gets the number of endpoints in a topology instance. Since 9.0.0. */
HcclResult HcclRankGraphGetEndpointNum(
    HcclComm comm, uint32_t layer, uint32_t topoInstId, uint32_t *num);

/** Fills an array of the caller with the descriptions of endpoints. Since 9.0.0. */
HcclResult HcclRankGraphGetEndpointDesc(
    HcclComm comm, uint32_t layer, uint32_t topoInstId, uint32_t *descNum,
    EndpointDesc *endpointDesc);

/** Gets one property of an endpoint: its bandwidth, die or location. Since 9.0.0. */
HcclResult HcclRankGraphGetEndpointInfo(
    HcclComm comm, uint32_t rankId, const EndpointDesc *endpointDesc, EndpointAttr endpointAttr,
    uint32_t infoLen, void *info);

/** Prepares links with one hop and all other fields "not set". */
static inline HcclResult CommLinkInit(CommLink *commLink, uint32_t linkNum)
{
    if (commLink == NULL) {
        return HCCL_E_PTR;
    }
    for (uint32_t i = 0; i < linkNum; ++i) {
        memset(&commLink[i], 0xff, sizeof(CommLink));
        commLink[i].header.version = COMM_LINK_VERSION;
        commLink[i].header.magicWord = COMM_LINK_MAGIC_WORD;
        commLink[i].header.size = (uint32_t)sizeof(CommLink);
        commLink[i].header.reserved = 0;
        commLink[i].linkAttr.hop = 1;
    }
    return HCCL_SUCCESS;
}

#ifdef __cplusplus
}
#endif

#endif /* HCCL_HCCL_RANK_GRAPH_H */
