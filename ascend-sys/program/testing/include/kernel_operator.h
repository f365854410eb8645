// Ascend C as far as printed kernels use it: declared as CANN declares it, and with bodies that do the same on the host.
#pragma once
#include "host/core.h"
#include "host/memory.h"
#include "host/vector.h"
