/* HCCL: resources for kernels that compute and communicate (fused operators). */
#ifndef HCCL_HCCL_MC2_H
#define HCCL_HCCL_MC2_H

#include <stdint.h>

#include "hccl/hccl_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fused operators */

/** Allocates an object for the arguments of an operator. Since 9.0.0. */
HcclResult HcclKfcAllocOpArgs(void **opArgs);

/** Frees an object for the arguments of an operator. Since 9.0.0. */
HcclResult HcclKfcFreeOpArgs(void *opArgs);

/** Sets the type of the input elements. Since 9.0.0. */
HcclResult HcclKfcOpArgsSetSrcDataType(void *opArgs, uint8_t srcDataType);

/** Sets the type of the output elements. Since 9.0.0. */
HcclResult HcclKfcOpArgsSetDstDataType(void *opArgs, uint8_t dstDataType);

/** Sets the kind of reduction. Since 9.0.0. */
HcclResult HcclKfcOpArgsSetReduceType(void *opArgs, uint32_t reduceType);

/** Sets the number of elements. Since 9.0.0. */
HcclResult HcclKfcOpArgsSetCount(void *opArgs, uint64_t count);

/** Sets the text that selects the algorithm. Since 9.0.0. */
HcclResult HcclKfcOpArgsSetAlgConfig(void *opArgs, char *algConfig);

/** Sets the engine that executes the operator. Since 9.0.0. */
HcclResult HcclKfcOpArgsSetCommEngine(void *opArgs, uint8_t commEngine);

/** Creates the device-side context of a fused operator. Since 9.0.0. */
HcclResult HcclCreateOpResCtx(HcclComm comm, uint8_t opType, void *opArgs, void **opResCtx);

#ifdef __cplusplus
}
#endif

#endif /* HCCL_HCCL_MC2_H */
