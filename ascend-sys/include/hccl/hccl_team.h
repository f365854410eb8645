/* HCCL: teams, groups of ranks that share windows and channels inside kernels. */
#ifndef HCCL_HCCL_TEAM_H
#define HCCL_HCCL_TEAM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "hccl/hccl_types.h"
#include "hcomm/hcomm_res_defs.h"
#include "hcomm/hcomm_team_defs.h"

static const uint32_t HCCL_TEAM_CREATE_DESC_MAGIC_WORD = 0x0fcf0f14U;
static const uint32_t HCCL_TEAM_CREATE_DESC_VERSION = 1U;
static const uint32_t HCCL_TEAM_CREATE_CHANNELS_DESC_MAGIC_WORD = 0x0fcf0f15U;
static const uint32_t HCCL_TEAM_CREATE_CHANNELS_DESC_VERSION = 1U;

#ifdef __cplusplus
extern "C" {
#endif

/** The description of a team; see HcclTeamCreateDescInit. Since 9.2.0. */
typedef struct {
    CommAbiHeader header;
    const uint32_t *rankIds;
    uint32_t rankNum;
    uint32_t selfRankId;
    uint32_t netLayer;
    CommProtocol protocol;
    HcommTeamSyncMemRequirement requirement;
    uint32_t reserved[4];
} HcclTeamCreateDesc;

/** The description of the channels of a team; see HcclTeamCreateChannelsDescInit. Since
 * 9.2.0. */
typedef struct {
    CommAbiHeader header;
    CommEngine engine;
    uint32_t notifyNum;
    CommProtocol protocol;
    uint32_t channelCnt;
    uint32_t reserved[4];
} HcclTeamCreateChannelsDesc;

/* Teams */

/** Creates the team of all ranks of the communicator. Since 9.2.0. */
HcclResult HcclWorldTeamCreate(
    HcclComm comm, const HcclTeamCreateDesc *desc, HcommTeamHandle *worldTeam);

/** Creates a team of some ranks of the world team. Since 9.2.0. */
HcclResult HcclSubTeamCreate(
    HcommTeamHandle worldTeam, const HcclTeamCreateDesc *desc, HcommTeamHandle *team);

/** Destroys a team. Since 9.2.0. */
HcclResult HcclTeamDestroy(HcommTeamHandle team);

/** Registers memory as a window of the world team. Since 9.2.0. */
HcclResult HcclTeamWindowRegister(
    HcclComm comm, HcommTeamHandle worldTeam, const CommMem *localMem, HcommWindowHandle *window,
    uint32_t flag);

/** Ends the registration of a window of the world team. Since 9.2.0. */
HcclResult HcclTeamWindowDeregister(HcommTeamHandle worldTeam, HcommWindowHandle window);

/** Creates the channels that a team uses. Since 9.2.0. */
HcclResult HcclTeamChannelsCreate(
    HcclComm comm, HcommTeamHandle team, const HcclTeamCreateChannelsDesc *desc);

/** Prepares a team description: counts and reserved fields are zero, and all other fields
 * are "not set". Since 9.2.0. */
static inline HcclResult HcclTeamCreateDescInit(HcclTeamCreateDesc *desc)
{
    if (desc == NULL) {
        return HCCL_E_PTR;
    }
    memset(desc, 0xff, sizeof(*desc));
    desc->header.version = HCCL_TEAM_CREATE_DESC_VERSION;
    desc->header.magicWord = HCCL_TEAM_CREATE_DESC_MAGIC_WORD;
    desc->header.size = (uint32_t)sizeof(HcclTeamCreateDesc);
    desc->header.reserved = 0;
    desc->rankIds = NULL;
    desc->rankNum = 0;
    memset(&desc->requirement, 0, sizeof(desc->requirement));
    memset(desc->reserved, 0, sizeof(desc->reserved));
    return HCCL_SUCCESS;
}

/** Prepares a description of team channels: counts and reserved fields are zero, and all
 * other fields are "not set". Since 9.2.0. */
static inline HcclResult HcclTeamCreateChannelsDescInit(HcclTeamCreateChannelsDesc *desc)
{
    if (desc == NULL) {
        return HCCL_E_PTR;
    }
    memset(desc, 0xff, sizeof(*desc));
    desc->header.version = HCCL_TEAM_CREATE_CHANNELS_DESC_VERSION;
    desc->header.magicWord = HCCL_TEAM_CREATE_CHANNELS_DESC_MAGIC_WORD;
    desc->header.size = (uint32_t)sizeof(HcclTeamCreateChannelsDesc);
    desc->header.reserved = 0;
    desc->notifyNum = 0;
    desc->channelCnt = 0;
    memset(desc->reserved, 0, sizeof(desc->reserved));
    return HCCL_SUCCESS;
}

#ifdef __cplusplus
}
#endif

#endif /* HCCL_HCCL_TEAM_H */
