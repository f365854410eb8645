/* AscendCL runtime: stream-ordered memory allocation from pools. */
#ifndef ACL_ACL_RT_MEMORY_SOMA_H
#define ACL_ACL_RT_MEMORY_SOMA_H

#include <stddef.h>
#include <stdint.h>

#include "acl/acl_base_rt.h"
#include "acl/acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A memory pool from which streams allocate in the order of their tasks. */
typedef void *aclrtMemPool;

/** The attributes of a memory pool. Since 9.0.0. */
typedef enum aclrtMemPoolAttr {
    ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES = 1,
    ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC = 2,
    ACL_RT_MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES = 3,
    ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD = 4,
    ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT = 5,
    ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH = 6,
    ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT = 7,
    ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH = 8
} aclrtMemPoolAttr;

/** The properties with which a memory pool is created. Since 9.0.0. */
typedef struct {
    aclrtMemAllocationType allocType;
    aclrtMemHandleType handleType;
    aclrtMemLocation location;
    size_t maxSize;
    unsigned char reserved[32];
} aclrtMemPoolProps;

/* Memory pools */

/** Creates a memory pool. Since 9.0.0. */
aclError aclrtMemPoolCreate(aclrtMemPool *memPool, const aclrtMemPoolProps *poolProps);

/** Destroys a memory pool. Since 9.0.0. */
aclError aclrtMemPoolDestroy(const aclrtMemPool memPool);

/** Sets an attribute of a memory pool. Since 9.0.0. */
aclError aclrtMemPoolSetAttr(aclrtMemPool memPool, aclrtMemPoolAttr attr, void *value);

/** Gets an attribute of a memory pool. Since 9.0.0. */
aclError aclrtMemPoolGetAttr(aclrtMemPool memPool, aclrtMemPoolAttr attr, void *value);

/** Allocates memory of a pool in the order of a stream. Since 9.1.0. */
aclError aclrtMemPoolMallocAsync(void **ptr, size_t size, aclrtMemPool memPool, aclrtStream stream);

/** Frees memory of a pool in the order of a stream. Since 9.1.0. */
aclError aclrtMemPoolFreeAsync(void *ptr, aclrtStream stream);

/** Releases the unused memory of a pool. Since 9.1.0. */
aclError aclrtMemPoolTrimTo(aclrtMemPool memPool, size_t minBytesToKeep);

#ifdef __cplusplus
}
#endif

#endif /* ACL_ACL_RT_MEMORY_SOMA_H */
