/* The inline initialisers of the headers give the same values as CANN's. This program links with
 * no library. */
#include <stdio.h>
#include <string.h>

#include <hccl/hccl.h>
#include <hccl/hccl_channel.h>
#include <hccl/hccl_launch.h>
#include <hccl/hccl_rank_graph.h>
#include <hccl/hccl_team.h>
#include <hcomm/hcomm_channel.h>

#define CHECK(condition)                                              \
    do {                                                              \
        if (!(condition)) {                                           \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);   \
            return 1;                                                 \
        }                                                             \
    } while (0)

static int is_header(const CommAbiHeader *header, uint32_t version, uint32_t magic, uint32_t size)
{
    return header->version == version && header->magicWord == magic && header->size == size &&
        header->reserved == 0;
}

int main(void)
{
    HcclCommConfig config;
    memset(&config, 0x5a, sizeof(config));
    HcclCommConfigInit(&config);
    const uint32_t magic = 0xf0f0f0f0U;
    const uint32_t version = 11;
    const uint64_t size = 2248;
    CHECK(memcmp(config.reserved, &size, 8) == 0);
    CHECK(memcmp(config.reserved + 8, &magic, 4) == 0);
    CHECK(memcmp(config.reserved + 12, &version, 4) == 0);
    CHECK(memcmp(config.reserved + 16, "\0\0\0\0\0\0\0", 8) == 0);
    CHECK(config.hcclBufferSize == 0xffffffffU && config.hcclDeterministic == 0xffffffffU);
    CHECK(config.hcclCommName[0] == 0 && config.hcclUdi[0] == 0 && config.hcclBufferName[0] == 0);
    CHECK(config.hcclRetryEnable[0] == 0 && config.hcclRetryParams[0] == 0 && config.hcclAlgo[0] == 0);
    CHECK(config.hcclExecTimeOut == -1 && config.hcclQos == 0xffffffffU);
    CHECK(config.hcclRdmaTrafficClass == 0xffffffffU && config.hcclRdmaServiceLevel == 0xffffffffU);
    CHECK(config.hcclOpExpansionMode == 0 && config.aclGraphZeroCopyEnable == 0);
    CHECK(config.hcclWorldRankID == 0 && config.hcclJobID == 0);
    CHECK(config.hcclSymWinMaxMemSizePerRank == 16 && config.hcclChannelSqDepth == 0xffffffffU);

    HcclChannelDesc channels[2];
    CHECK(HcclChannelDescInit(channels, 2) == HCCL_SUCCESS);
    CHECK(is_header(&channels[1].header, 1, 0x0f0f0f0fU, 496));
    CHECK(channels[1].remoteRank == 0xffffffffU && channels[1].channelProtocol == -1);
    CHECK(channels[1].notifyNum == 0 && channels[1].memHandles == NULL && channels[1].memHandleNum == 0);
    CHECK(channels[1].roceAttr.queueNum == 0xffffffffU && channels[1].roceAttr.tc == 0xff);
    CHECK(channels[1].remoteEndpoint.commAddr.id == 0xffffffffU);
    CHECK(HcclChannelDescInit(NULL, 1) == HCCL_E_PTR);

    HcommChannelDesc channel;
    CHECK(HcommChannelDescInit(&channel, 1) == 0);
    CHECK(is_header(&channel.header, 4, 0x0fcf0f0fU, 360));
    CHECK(channel.notifyNum == 0 && !channel.exchangeAllMems && channel.memHandles == NULL);
    CHECK(channel.memHandleNum == 0 && channel.socket == NULL && channel.port == 0);
    CHECK(channel.roceAttr.srcPortList == NULL && channel.channelName == NULL && channel.role == -1);
    CHECK(channel.roceAttr.queueNum == 0xffffffffU && channel.qos == 0xffffffffU);

    CommLink link;
    CHECK(CommLinkInit(&link, 1) == HCCL_SUCCESS);
    CHECK(is_header(&link.header, 1, 0x0f0e0f0fU, 464) && link.linkAttr.hop == 1);
    CHECK(link.linkAttr.linkProtocol == -1);

    ThreadConfig thread;
    CHECK(ThreadConfigInit(&thread, 1) == 0);
    CHECK(is_header(&thread.header, 1, 0x0f0f0f2fU, 32) && thread.notifyNumPerThread == 0);

    EndpointDesc endpoint;
    CHECK(EndpointDescInit(&endpoint, 1) == 0 && endpoint.protocol == -1 && endpoint.loc.locType == -1);

    HcclOpDesc op;
    CHECK(HcclOpDescInit(&op) == HCCL_SUCCESS);
    CHECK(is_header(&op.header, 1, 0x0f0f0f0fU, 360) && op.p2p.count == ~(uint64_t)0);

    HcclKernelLaunchCfg launch;
    CHECK(HcclKernelLaunchCfgInit(&launch) == HCCL_SUCCESS);
    CHECK(is_header(&launch.header, 1, 0x0f0f0f0fU, 128) && launch.timeOut == ~(uint64_t)0);

    HcclTeamCreateDesc team;
    CHECK(HcclTeamCreateDescInit(&team) == HCCL_SUCCESS);
    CHECK(is_header(&team.header, 1, 0x0fcf0f14U, 88) && team.rankNum == 0 && team.reserved[3] == 0);

    HcclTeamCreateChannelsDesc links;
    CHECK(HcclTeamCreateChannelsDescInit(&links) == HCCL_SUCCESS);
    CHECK(is_header(&links.header, 1, 0x0fcf0f15U, 48) && links.channelCnt == 0 && links.notifyNum == 0);
    return 0;
}
