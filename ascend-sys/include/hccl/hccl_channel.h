/* HCCL: channels between the ranks of a communicator. */
#ifndef HCCL_HCCL_CHANNEL_H
#define HCCL_HCCL_CHANNEL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "hccl/hccl_types.h"
#include "hcomm/hcomm_res_defs.h"

#ifndef LIKELY
#define LIKELY(x) __builtin_expect(!!(x), 1)
#endif
#ifndef UNLIKELY
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#endif

/* These bound arrays. In C a const object is no constant expression, so there they are macros. */
#ifdef __cplusplus
static const uint32_t HCCL_CHANNEL_DESC_RAW_MAX_LEN = 128U;
static const uint32_t HCCL_CHANNEL_CONFIG_SHARED_QUEUE_TAG_MAX_LEN = 255U;
#else
#define HCCL_CHANNEL_DESC_RAW_MAX_LEN 128U
#define HCCL_CHANNEL_CONFIG_SHARED_QUEUE_TAG_MAX_LEN 255U
#endif

static const uint32_t HCCL_CHANNEL_MAGIC_WORD = 0x0f0f0f0fU;
static const uint32_t HCCL_CHANNEL_VERSION = 1U;

#ifdef __cplusplus
extern "C" {
#endif

/** Registered memory of a communicator. */
typedef void *HcclMemHandle;
/** A configuration for HCCL channels. */
typedef void *HcclChannelConfig;

/** The keys of an HCCL channel configuration. Since 9.2.0. */
typedef enum {
    HCCL_CHANNEL_CONFIG_TYPE_INVALID = -1,
    HCCL_CHANNEL_CONFIG_TYPE_IS_SHARED_QUEUE = 0,
    HCCL_CHANNEL_CONFIG_TYPE_SHARED_QUEUE_TAG = 1
} HcclChannelConfigType;

/** The description of a channel between two ranks; see HcclChannelDescInit. */
typedef struct {
    CommAbiHeader header;
    uint32_t remoteRank;
    CommProtocol channelProtocol;
    EndpointDesc localEndpoint;
    EndpointDesc remoteEndpoint;
    uint32_t notifyNum;
    HcclMemHandle *memHandles;
    uint32_t memHandleNum;
    union {
        uint8_t raws[HCCL_CHANNEL_DESC_RAW_MAX_LEN];
        struct {
            uint32_t queueNum;
            uint32_t retryCnt;
            uint32_t retryInterval;
            uint8_t tc;
            uint8_t sl;
        } roceAttr;
        struct {
            uint8_t pathMode;
        } ubMemAttr;
    };
} HcclChannelDesc;

/* Channels */

/** Acquires channels to peers, as the descriptions say. */
HcclResult HcclChannelAcquire(
    HcclComm comm, CommEngine engine, const HcclChannelDesc *channelDescs, uint32_t channelNum,
    ChannelHandle *channels);

/** Creates a configuration for channels. Since 9.2.0. */
HcclResult HcclChannelConfigCreate(HcclChannelConfig *config);

/** Destroys a configuration for channels. Since 9.2.0. */
HcclResult HcclChannelConfigDestroy(HcclChannelConfig config);

/** Sets an integer option of a channel configuration. Since 9.2.0. */
HcclResult HcclChannelConfigSetInt(
    HcclChannelConfig config, HcclChannelConfigType type, uint32_t value);

/** Sets a text option of a channel configuration. Since 9.2.0. */
HcclResult HcclChannelConfigSetStr(
    HcclChannelConfig config, HcclChannelConfigType type, const char *value);

/** Acquires channels with a configuration, for instance with shared queues. Since 9.2.0. */
HcclResult HcclChannelAcquireWithConfig(
    HcclComm comm, CommEngine engine, const HcclChannelDesc *channelDescs, uint32_t channelNum,
    HcclChannelConfig config, ChannelHandle *channels);

/** Gets the handles of existing channels, and 0 for channels that do not exist. Since
 * 9.2.0. */
HcclResult HcclChannelQuery(
    HcclComm comm, CommEngine engine, const HcclChannelDesc *channelDescs, uint32_t channelNum,
    ChannelHandle *channels);

/** Destroys channels. So far this is only possible for the CCU engine. Since 9.2.0. */
HcclResult HcclChannelDestroy(HcclComm comm, const ChannelHandle *channels, uint32_t channelNum);

/** Gets the internal buffer of the peer that can be reached over a channel. */
HcclResult HcclChannelGetHcclBuffer(
    HcclComm comm, ChannelHandle channel, void **buffer, uint64_t *size);

/** Lists the memory of the peer that was exchanged on a channel, with the tags. Since
 * 9.0.0. */
HcclResult HcclChannelGetRemoteMems(
    HcclComm comm, ChannelHandle channel, uint32_t *memNum, CommMem **remoteMems, char ***memTags);

/** Prepares channel descriptions. Fields that are not reset here mean "not set", which is
 * all ones. */
static inline HcclResult HcclChannelDescInit(HcclChannelDesc *channelDesc, uint32_t descNum)
{
    if (channelDesc == NULL) {
        return HCCL_E_PTR;
    }
    for (uint32_t i = 0; i < descNum; ++i) {
        memset(&channelDesc[i], 0xff, sizeof(HcclChannelDesc));
        channelDesc[i].header.version = HCCL_CHANNEL_VERSION;
        channelDesc[i].header.magicWord = HCCL_CHANNEL_MAGIC_WORD;
        channelDesc[i].header.size = (uint32_t)sizeof(HcclChannelDesc);
        channelDesc[i].header.reserved = 0;
        channelDesc[i].remoteRank = ~0U;
        channelDesc[i].channelProtocol = COMM_PROTOCOL_RESERVED;
        channelDesc[i].notifyNum = 0;
        channelDesc[i].memHandles = NULL;
        channelDesc[i].memHandleNum = 0;
    }
    return HCCL_SUCCESS;
}

#ifdef __cplusplus
}
#endif

#endif /* HCCL_HCCL_CHANNEL_H */
