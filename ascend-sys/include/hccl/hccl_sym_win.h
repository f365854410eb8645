/* HCCL: addresses of peers inside a symmetric window. */
#ifndef HCCL_HCCL_SYM_WIN_H
#define HCCL_HCCL_SYM_WIN_H

#include <stddef.h>
#include <stdint.h>

#include "hccl/hccl_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Symmetric windows and user-managed memory */

/** Gets the device address of an offset in the window of a peer. Since 9.0.0. */
HcclResult HcclSymWinGetPeerPointer(
    HcclCommSymWindow winHandle, size_t offset, uint32_t peerRank, void **ptr);

#ifdef __cplusplus
}
#endif

#endif /* HCCL_HCCL_SYM_WIN_H */
