/* AscendCL: base types. The same content as acl_base_rt.h, under the name that older programs include. */
#ifndef ACL_ACL_BASE_H
#define ACL_ACL_BASE_H

#include "acl/acl_base_rt.h"

#endif /* ACL_ACL_BASE_H */
