/* HCOMM: channels between endpoints. */
#ifndef HCOMM_HCOMM_CHANNEL_H
#define HCOMM_HCOMM_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "hcomm/hcomm_res_defs.h"

#define HCOMM_CHANNEL_DESC_ABI_V1_SIZE 344UL

/* These bound arrays. In C a const object is no constant expression, so there they are macros. */
#ifdef __cplusplus
static const uint32_t HCOMM_CHANNEL_NAME_MAX_LEN = 191U;
static const uint32_t HCOMM_CHANNEL_DESC_RAW_MAX_LEN = 128U;
#else
#define HCOMM_CHANNEL_NAME_MAX_LEN 191U
#define HCOMM_CHANNEL_DESC_RAW_MAX_LEN 128U
#endif

static const uint32_t HCOMM_CHANNEL_MAGIC_WORD = 0x0fcf0f0fU;
static const uint32_t HCOMM_CHANNEL_VERSION_ONE = 1U;
static const uint32_t HCOMM_CHANNEL_VERSION = 4U;

#ifdef __cplusplus
extern "C" {
#endif

/** A configuration for HCOMM channels. */
typedef void *HcommChannelConfig;

/** The keys of an HCOMM channel configuration. Since 9.2.0. */
typedef enum {
    HCOMM_CHANNEL_CONFIG_TYPE_INVALID = -1,
    HCOMM_CHANNEL_CONFIG_TYPE_IS_SHARED_QUEUE = 0
} HcommChannelConfigType;

/** The description of an HCOMM channel; see HcommChannelDescInit. It is not
 * interchangeable with HcclChannelDesc. Since 9.0.0. */
typedef struct {
    CommAbiHeader header;
    EndpointDesc remoteEndpoint;
    uint32_t notifyNum;
    bool exchangeAllMems;
    HcommMemHandle *memHandles;
    uint32_t memHandleNum;
    HcommSocket socket;
    HcommSocketRole role;
    uint16_t port;
    union {
        uint8_t raws[HCOMM_CHANNEL_DESC_RAW_MAX_LEN];
        struct {
            uint32_t queueNum;
            uint32_t retryCnt;
            uint32_t retryInterval;
            uint8_t tc;
            uint8_t sl;
            uint32_t qpThreshold;
            uint32_t cqAttrFlags;
            uint16_t *srcPortList;
        } roceAttr;
        struct {
            uint32_t qos;
        } hccsAttr;
        struct {
            uint32_t sqDepth;
        } ubAttr;
        struct {
            uint8_t pathMode;
        } ubMemAttr;
    };
    uint32_t qos;
    const char *channelName;
} HcommChannelDesc;

/* Endpoints, memory, threads, channels */

/** Creates channels on an endpoint. Since 9.0.0. */
HcommResult HcommChannelCreate(
    EndpointHandle endpointHandle, CommEngine engine, HcommChannelDesc *channelDescs,
    uint32_t channelNum, ChannelHandle *channels);

/** Creates a configuration for channels. Since 9.2.0. */
HcommResult HcommChannelConfigCreate(HcommChannelConfig *config);

/** Destroys a configuration for channels. Since 9.2.0. */
HcommResult HcommChannelConfigDestroy(HcommChannelConfig config);

/** Sets an integer option of a configuration for channels. Since 9.2.0. */
HcommResult HcommChannelConfigSetInt(
    HcommChannelConfig config, HcommChannelConfigType type, uint32_t value);

/** Creates channels on an endpoint with a configuration. Since 9.2.0. */
HcommResult HcommChannelCreateWithConfig(
    EndpointHandle endpointHandle, CommEngine engine, HcommChannelDesc *channelDescs,
    uint32_t channelNum, HcommChannelConfig config, ChannelHandle *channels);

/** Gets whether channels are connected. Since 9.0.0. */
HcommResult HcommChannelGetStatus(
    const ChannelHandle *channelList, uint32_t listNum, int32_t *statusList);

/** Destroys channels. Since 9.0.0. */
HcommResult HcommChannelDestroy(const ChannelHandle *channels, uint32_t channelNum);

/** Prepares channel descriptions. Fields that are not reset here mean "not set", which is
 * all ones. Since 9.0.0. */
static inline HcommResult HcommChannelDescInit(HcommChannelDesc *channelDesc, uint32_t descNum)
{
    if (channelDesc == NULL) {
        return 2 /* HCCL_E_PTR */;
    }
    for (uint32_t i = 0; i < descNum; ++i) {
        memset(&channelDesc[i], 0xff, sizeof(HcommChannelDesc));
        channelDesc[i].header.version = HCOMM_CHANNEL_VERSION;
        channelDesc[i].header.magicWord = HCOMM_CHANNEL_MAGIC_WORD;
        channelDesc[i].header.size = (uint32_t)sizeof(HcommChannelDesc);
        channelDesc[i].header.reserved = 0;
        channelDesc[i].notifyNum = 0;
        channelDesc[i].exchangeAllMems = false;
        channelDesc[i].memHandles = NULL;
        channelDesc[i].memHandleNum = 0;
        channelDesc[i].socket = NULL;
        channelDesc[i].role = HCOMM_SOCKET_ROLE_RESERVED;
        channelDesc[i].port = 0;
        channelDesc[i].roceAttr.srcPortList = NULL;
        channelDesc[i].channelName = NULL;
    }
    return 0;
}

#ifdef __cplusplus
}
#endif

#endif /* HCOMM_HCOMM_CHANNEL_H */
