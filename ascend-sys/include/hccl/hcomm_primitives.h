/* CANN also installs this header here. */
#include "hcomm/hcomm_primitives.h"
