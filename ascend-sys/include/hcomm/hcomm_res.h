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

/** Opens the endpoint that a description names. Since 9.0.0. */
HcommResult HcommEndpointCreate(const EndpointDesc *endpoint, EndpointHandle *endpointHandle);

/** Closes an endpoint. Since 9.0.0. */
HcommResult HcommEndpointDestroy(EndpointHandle endpointHandle);

/** Gets the number of endpoints of a device. Since 9.2.0. */
HcommResult HcommEndpointGetDescNum(int32_t deviceLogicId, uint32_t *descNum);

/** Gets the descriptions of the endpoints of a device. Since 9.2.0. */
HcommResult HcommEndpointGetDescs(
    int32_t deviceLogicId, uint32_t *descNum, EndpointDesc *endpointDescs);

/** Registers memory on an endpoint. Since 9.0.0. */
HcommResult HcommMemReg(
    EndpointHandle endpointHandle, const char *memTag, const CommMem *mem,
    HcommMemHandle *memHandle);

/** Ends the registration of memory on an endpoint. Since 9.0.0. */
HcommResult HcommMemUnreg(EndpointHandle endpointHandle, HcommMemHandle memHandle);

/** Exports a registration as bytes for a peer. Since 9.0.0. */
HcommResult HcommMemExport(
    EndpointHandle endpointHandle, HcommMemHandle memHandle, void **memDesc, uint32_t *memDescLen);

/** Imports the registration that a peer has exported. Since 9.0.0. */
HcommResult HcommMemImport(
    EndpointHandle endpointHandle, const void *memDesc, uint32_t descLen, CommMem *outMem);

/** Ends an import. Since 9.0.0. */
HcommResult HcommMemUnimport(EndpointHandle endpointHandle, const void *memDesc, uint32_t descLen);

/** Allocates threads of an engine outside a communicator. Since 9.0.0. */
HcommResult HcommThreadAlloc(
    CommEngine engine, uint32_t threadNum, const uint32_t *notifyNumPerThread,
    ThreadHandle *threads);

/** Frees threads that HcommThreadAlloc has allocated. Since 9.0.0. */
HcommResult HcommThreadFree(const ThreadHandle *threads, uint32_t threadNum);

/** Gets the port on which the endpoint listens. Since 9.2.0. */
HcommResult HcommEndpointGetListenPort(EndpointHandle endpointHandle, uint32_t *port);

/** Gets a resource of a thread, for instance its stream. Since 9.2.0. */
HcommResult HcommThreadResGetInfo(
    ThreadHandle thread, ThreadResType resType, uint32_t infoLen, void **info);

/** Gets whether an endpoint supports a feature. Since 9.2.0. */
HcommResult HcommEndpointCheckFeature(
    HcommEndpointFeatureType featureType, const EndpointDesc *endpointDesc, bool *value);

/** Allocates memory that can be used for communication. Since 9.2.0. */
HcommResult HcommMemAlloc(void **ptr, size_t size);

/** Frees memory that HcommMemAlloc has allocated. Since 9.2.0. */
HcommResult HcommMemFree(void *ptr);

#ifdef __cplusplus
}
#endif

#endif /* HCOMM_HCOMM_RES_H */
