/* HCCL: an experimental resource function that libhcomm exports. */
#ifndef HCCL_HCCL_RES_EXPT_H
#define HCCL_HCCL_RES_EXPT_H

#include "hccl/hccl_types.h"
#include "hcomm/hcomm_res_defs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Threads, engine contexts, kernel launch */

/** Makes threads of one engine usable from another engine. The engine AIV is refused as
 * the target. */
HcclResult HcclThreadExportToCommEngine(HcclComm comm, uint32_t threadNum, const ThreadHandle *threads,
    CommEngine dstCommEngine, ThreadHandle *exportedThreads);

#ifdef __cplusplus
}
#endif

#endif /* HCCL_HCCL_RES_EXPT_H */
