/* AscendCL: everything a program that runs on the NPU needs. Include this one. */
#ifndef ACL_ACL_H
#define ACL_ACL_H

#include "acl/acl_base.h"
#include "acl/acl_rt.h"
#include "acl/acl_rt_allocator.h"
#include "acl/acl_rt_memory_soma.h"

#endif /* ACL_ACL_H */
