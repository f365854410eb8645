/* HCOMM: the types of endpoints, memory, threads and protocols. */
#ifndef HCOMM_HCOMM_RES_DEFS_H
#define HCOMM_HCOMM_RES_DEFS_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define CHANNEL_HANDLE_DEFINED
#define THREAD_HANDLE_DEFINED

/* These bound arrays. In C a const object is no constant expression, so there they are macros. */
#ifdef __cplusplus
static const uint32_t COMM_ADDR_EID_LEN = 16U;
#else
#define COMM_ADDR_EID_LEN 16U
#endif

static const uint32_t HCOMM_THREAD_CONFIG_MAGIC_WORD = 0x0f0f0f2fU;
static const uint32_t HCOMM_THREAD_CONFIG_VERSION = 1U;

#ifdef __cplusplus
extern "C" {
#endif

/** The result of an HCOMM function, which is a value of HcclResult. */
typedef int32_t HcommResult;
/** An endpoint. */
typedef void *EndpointHandle;
/** Registered memory of an endpoint. */
typedef void *HcommMemHandle;
/** A socket. */
typedef void *HcommSocket;
/** A channel: a number, or an address on the device for vector cores. 0 is no channel. */
typedef uint64_t ChannelHandle;
/** A thread, which runs transfers in order. */
typedef uint64_t ThreadHandle;

/** The kinds of threads. Since 9.2.0. */
typedef enum {
    THREAD_TYPE_INVALID = -1,
    THREAD_TYPE_TS = 0
} ThreadType;

/** The engine that runs a thread or uses a channel: the CPU of the host, the CPU of the
 * device, vector cores or the collective unit. The engines with _TS have threads that
 * are streams. */
typedef enum {
    COMM_ENGINE_RESERVED = -1,
    COMM_ENGINE_CPU = 0,
    COMM_ENGINE_CPU_TS = 1,
    COMM_ENGINE_AICPU = 2,
    COMM_ENGINE_AICPU_TS = 3,
    COMM_ENGINE_AIV = 4,
    COMM_ENGINE_CCU = 5
} CommEngine;

/** The kind of link between two endpoints. Two values have two names each. */
typedef enum {
    COMM_PROTOCOL_RESERVED = -1,
    COMM_PROTOCOL_HCCS = 0,
    COMM_PROTOCOL_ROCE = 1,
    COMM_PROTOCOL_PCIE = 2,
    COMM_PROTOCOL_SIO = 3,
    COMM_PROTOCOL_UB_CTP = 4,
    COMM_PROTOCOL_UBC_CTP = 4,
    COMM_PROTOCOL_UBC_TP = 5,
    COMM_PROTOCOL_UB_MEM = 6,
    COMM_PROTOCOL_UBOE = 7,
    COMM_PROTOCOL_HCCS_ONLY = 8,
    COMM_PROTOCOL_UB_RTP = 9,
    COMM_PROTOCOL_UBG = 9
} CommProtocol;

/** The member of CommAddr that contains the address. */
typedef enum {
    COMM_ADDR_TYPE_RESERVED = -1,
    COMM_ADDR_TYPE_IP_V4 = 0,
    COMM_ADDR_TYPE_IP_V6 = 1,
    COMM_ADDR_TYPE_ID = 2,
    COMM_ADDR_TYPE_EID = 3
} CommAddrType;

/** The member of EndpointLoc that contains the place. */
typedef enum {
    ENDPOINT_LOC_TYPE_RESERVED = -1,
    ENDPOINT_LOC_TYPE_DEVICE = 0,
    ENDPOINT_LOC_TYPE_HOST = 1
} EndpointLocType;

/** The kind of place where memory is. Since 9.0.0. */
typedef enum {
    COMM_MEM_TYPE_INVALID = -1,
    COMM_MEM_TYPE_DEVICE = 0,
    COMM_MEM_TYPE_HOST = 1
} CommMemType;

/** The side of a socket. Since 9.0.0. */
typedef enum {
    HCOMM_SOCKET_ROLE_RESERVED = -1,
    HCOMM_SOCKET_ROLE_CLIENT = 0,
    HCOMM_SOCKET_ROLE_SERVER = 1
} HcommSocketRole;

/** The features that an endpoint may have. Since 9.2.0. */
typedef enum {
    HCOMM_ENDPOINT_FEATURE_INVALID = -1,
    HCOMM_ENDPOINT_FEATURE_NDA = 0
} HcommEndpointFeatureType;

/** The resources of a thread that can be queried. Since 9.1.0. */
typedef enum {
    THREAD_RES_TYPE_INVALID = -1,
    THREAD_RES_TYPE_STREAM = 0
} ThreadResType;

/** The header of structs that have grown over time: the version, magic number and size
 * with which the caller was compiled. */
typedef struct {
    uint32_t version;
    uint32_t magicWord;
    uint32_t size;
    uint32_t reserved;
} CommAbiHeader;

/** The options of one thread; see ThreadConfigInit. Since 9.2.0. */
typedef struct {
    CommAbiHeader header;
    uint16_t notifyNumPerThread;
    uint8_t reserved[14];
} ThreadConfig;

/** The address of an endpoint. */
typedef struct {
    CommAddrType type;
    union {
        uint8_t raws[36];
        struct in_addr addr;
        struct in6_addr addr6;
        uint32_t id;
        uint8_t eid[COMM_ADDR_EID_LEN];
    };
} CommAddr;

/** The place of an endpoint: a device or a host. */
typedef struct {
    EndpointLocType locType;
    union {
        uint8_t raws[60];
        struct {
            uint32_t devPhyId;
            uint32_t superDevId;
            uint32_t serverIdx;
            uint32_t superPodIdx;
        } device;
        struct {
            uint32_t id;
        } host;
    };
} EndpointLoc;

/** An endpoint, given by its protocol, address and place; see EndpointDescInit. */
typedef struct {
    CommProtocol protocol;
    CommAddr commAddr;
    EndpointLoc loc;
    union {
        uint8_t raws[52];
    };
} EndpointDesc;

/** A range of memory. Since 9.0.0. */
typedef struct {
    CommMemType type;
    void *addr;
    uint64_t size;
} CommMem;

/** Fills thread configurations with zeros and valid headers. Since 9.2.0. */
static inline HcommResult ThreadConfigInit(ThreadConfig *config, uint32_t num)
{
    if (config == NULL) {
        return 2 /* HCCL_E_PTR */;
    }
    for (uint32_t i = 0; i < num; ++i) {
        memset(&config[i], 0, sizeof(ThreadConfig));
        config[i].header.version = HCOMM_THREAD_CONFIG_VERSION;
        config[i].header.magicWord = HCOMM_THREAD_CONFIG_MAGIC_WORD;
        config[i].header.size = (uint32_t)sizeof(ThreadConfig);
        config[i].header.reserved = 0;
    }
    return 0;
}

/** Fills endpoint descriptions with "not set", which is all ones. */
static inline HcommResult EndpointDescInit(EndpointDesc *endpoint, uint32_t num)
{
    if (endpoint == NULL) {
        return 2 /* HCCL_E_PTR */;
    }
    for (uint32_t i = 0; i < num; ++i) {
        memset(&endpoint[i], 0xff, sizeof(EndpointDesc));
    }
    return 0;
}

#ifdef __cplusplus
}
#endif

#endif /* HCOMM_HCOMM_RES_DEFS_H */
