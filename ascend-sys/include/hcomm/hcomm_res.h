/* HCOMM: endpoints, registered memory and threads. */
#ifndef HCOMM_HCOMM_RES_H
#define HCOMM_HCOMM_RES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hcomm/hcomm_channel.h"
#include "hcomm/hcomm_res_defs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Endpoints, memory, threads, channels */

/** Open a network endpoint from descriptor. Since 9.0.0. */
HcommResult HcommEndpointCreate(const EndpointDesc *endpoint, EndpointHandle *endpointHandle);

/** Close an endpoint. Since 9.0.0. */
HcommResult HcommEndpointDestroy(EndpointHandle endpointHandle);

/** Count endpoints of a device. Since 9.2.0. */
HcommResult HcommEndpointGetDescNum(int32_t deviceLogicId, uint32_t *descNum);

/** List endpoint descriptors of a device. Since 9.2.0. */
HcommResult HcommEndpointGetDescs(
    int32_t deviceLogicId, uint32_t *descNum, EndpointDesc *endpointDescs);

/** Register memory on an endpoint. Since 9.0.0. */
HcommResult HcommMemReg(
    EndpointHandle endpointHandle, const char *memTag, const CommMem *mem,
    HcommMemHandle *memHandle);

/** Unregister endpoint memory. Since 9.0.0. */
HcommResult HcommMemUnreg(EndpointHandle endpointHandle, HcommMemHandle memHandle);

/** Serialise a registration for a peer. Since 9.0.0. */
HcommResult HcommMemExport(
    EndpointHandle endpointHandle, HcommMemHandle memHandle, void **memDesc, uint32_t *memDescLen);

/** Map a peer's serialised registration. Since 9.0.0. */
HcommResult HcommMemImport(
    EndpointHandle endpointHandle, const void *memDesc, uint32_t descLen, CommMem *outMem);

/** Undo an import. Since 9.0.0. */
HcommResult HcommMemUnimport(EndpointHandle endpointHandle, const void *memDesc, uint32_t descLen);

/** Allocate engine threads outside a communicator. Since 9.0.0. */
HcommResult HcommThreadAlloc(
    CommEngine engine, uint32_t threadNum, const uint32_t *notifyNumPerThread,
    ThreadHandle *threads);

/** Release those threads. Since 9.0.0. */
HcommResult HcommThreadFree(const ThreadHandle *threads, uint32_t threadNum);

/** Port the endpoint listens on. Since 9.2.0. */
HcommResult HcommEndpointGetListenPort(EndpointHandle endpointHandle, uint32_t *port);

/** Fetch what backs a thread. Since 9.2.0. */
HcommResult HcommThreadResGetInfo(
    ThreadHandle thread, ThreadResType resType, uint32_t infoLen, void **info);

/** Test whether an endpoint supports a feature. Since 9.2.0. */
HcommResult HcommEndpointCheckFeature(
    HcommEndpointFeatureType featureType, const EndpointDesc *endpointDesc, bool *value);

/** Allocate memory that can be used for communication. Since 9.2.0. */
HcommResult HcommMemAlloc(void **ptr, size_t size);

/** Free that memory. Since 9.2.0. */
HcommResult HcommMemFree(void *ptr);

#ifdef __cplusplus
}
#endif

#endif /* HCOMM_HCOMM_RES_H */
