/* CANN also installs this header here. */
#include "hcomm/hcomm_team_defs.h"
