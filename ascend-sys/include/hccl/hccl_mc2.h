/* HCCL: resources for kernels that compute and communicate (fused operators). */
#ifndef HCCL_HCCL_MC2_H
#define HCCL_HCCL_MC2_H

#include <stdint.h>

#include "hccl/hccl_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fused operators */

/** Allocate opaque operator argument block. Since 9.0.0. */
HcclResult HcclKfcAllocOpArgs(void **opArgs);

/** Free operator argument block. Since 9.0.0. */
HcclResult HcclKfcFreeOpArgs(void *opArgs);

/** Set input element type. Since 9.0.0. */
HcclResult HcclKfcOpArgsSetSrcDataType(void *opArgs, uint8_t srcDataType);

/** Set output element type. Since 9.0.0. */
HcclResult HcclKfcOpArgsSetDstDataType(void *opArgs, uint8_t dstDataType);

/** Set reduction kind. Since 9.0.0. */
HcclResult HcclKfcOpArgsSetReduceType(void *opArgs, uint32_t reduceType);

/** Set element count. Since 9.0.0. */
HcclResult HcclKfcOpArgsSetCount(void *opArgs, uint64_t count);

/** Set algorithm string. Since 9.0.0. */
HcclResult HcclKfcOpArgsSetAlgConfig(void *opArgs, char *algConfig);

/** Choose execution engine. Since 9.0.0. */
HcclResult HcclKfcOpArgsSetCommEngine(void *opArgs, uint8_t commEngine);

/** Build device resource context for a fused operator. Since 9.0.0. */
HcclResult HcclCreateOpResCtx(HcclComm comm, uint8_t opType, void *opArgs, void **opResCtx);

#ifdef __cplusplus
}
#endif

#endif /* HCCL_HCCL_MC2_H */
