/* AscendCL runtime: registering an allocator of the application for a stream. */
#ifndef ACL_ACL_RT_ALLOCATOR_H
#define ACL_ACL_RT_ALLOCATOR_H

#include <stddef.h>
#include <stdint.h>

#include "acl/acl_base_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A callback that allocates a block. */
typedef void *(*aclrtAllocatorAllocFunc)(aclrtAllocator allocator, size_t size);
/** A callback that frees a block. */
typedef void (*aclrtAllocatorFreeFunc)(aclrtAllocator allocator, aclrtAllocatorBlock block);
/** A callback that allocates a block, if possible at the given address. */
typedef void *(*aclrtAllocatorAllocAdviseFunc)(
    aclrtAllocator allocator, size_t size, aclrtAllocatorAddr addr);
/** A callback that returns the address of a block. */
typedef void *(*aclrtAllocatorGetAddrFromBlockFunc)(aclrtAllocatorBlock block);

/* Allocators of the application */

/** Creates a description of an allocator of the application. */
aclrtAllocatorDesc aclrtAllocatorCreateDesc(void);

/** Frees the description of an allocator. */
aclError aclrtAllocatorDestroyDesc(aclrtAllocatorDesc allocatorDesc);

/** Sets the allocator object in a description. */
aclError aclrtAllocatorSetObjToDesc(aclrtAllocatorDesc allocatorDesc, aclrtAllocator allocator);

/** Sets the callback that allocates blocks in a description. */
aclError aclrtAllocatorSetAllocFuncToDesc(
    aclrtAllocatorDesc allocatorDesc, aclrtAllocatorAllocFunc func);

/** Sets the callback that frees blocks in a description. */
aclError aclrtAllocatorSetFreeFuncToDesc(
    aclrtAllocatorDesc allocatorDesc, aclrtAllocatorFreeFunc func);

/** Sets the callback that allocates blocks at suggested addresses in a description. */
aclError aclrtAllocatorSetAllocAdviseFuncToDesc(
    aclrtAllocatorDesc allocatorDesc, aclrtAllocatorAllocAdviseFunc func);

/** Sets the callback that returns the addresses of blocks in a description. */
aclError aclrtAllocatorSetGetAddrFromBlockFuncToDesc(
    aclrtAllocatorDesc allocatorDesc, aclrtAllocatorGetAddrFromBlockFunc func);

/** Registers an allocator for a stream. */
aclError aclrtAllocatorRegister(aclrtStream stream, aclrtAllocatorDesc allocatorDesc);

/** Gets the allocator of a stream. */
aclError aclrtAllocatorGetByStream(
    aclrtStream stream, aclrtAllocatorDesc *allocatorDesc, aclrtAllocator *allocator,
    aclrtAllocatorAllocFunc *allocFunc, aclrtAllocatorFreeFunc *freeFunc,
    aclrtAllocatorAllocAdviseFunc *allocAdviseFunc,
    aclrtAllocatorGetAddrFromBlockFunc *getAddrFromBlockFunc);

/** Removes the allocator of a stream. */
aclError aclrtAllocatorUnregister(aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif /* ACL_ACL_RT_ALLOCATOR_H */
