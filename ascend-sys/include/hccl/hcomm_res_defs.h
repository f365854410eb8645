/* CANN also installs this header here. */
#include "hcomm/hcomm_res_defs.h"
