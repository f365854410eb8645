/* HCOMM: the handles of teams and windows. */
#ifndef HCOMM_HCOMM_TEAM_DEFS_H
#define HCOMM_HCOMM_TEAM_DEFS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A team. */
typedef uint64_t *HcommTeamHandle;
/** A window of a team. */
typedef uint64_t *HcommWindowHandle;

/** The number of objects for synchronization that a team needs. Since 9.2.0. */
typedef struct {
    uint32_t signalCount;
    uint32_t counterCount;
    uint32_t barrierCount;
    uint32_t reserved[5];
} HcommTeamSyncMemRequirement;

#ifdef __cplusplus
}
#endif

#endif /* HCOMM_HCOMM_TEAM_DEFS_H */
