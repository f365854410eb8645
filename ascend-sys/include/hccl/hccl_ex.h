/* HCCL: a function for fused kernels that libhcomm exports although CANN ships no public header for it. */
#ifndef HCCL_HCCL_EX_H
#define HCCL_HCCL_EX_H

#include "hccl/hccl_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fused operators */

/** Creates the device-side context of a fused kernel from its tiling data. On A3 the
 * tiling may name at most three communication members. */
HcclResult HcclAllocComResourceByTiling(HcclComm comm, void *stream, void *mc2Tiling, void **commContext);

#ifdef __cplusplus
}
#endif

#endif /* HCCL_HCCL_EX_H */
