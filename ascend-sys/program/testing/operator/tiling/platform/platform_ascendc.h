#pragma once
#include <cstdint>

#include "register/op_def_registry.h"

namespace platform_ascendc {
class PlatformAscendC {
public:
    explicit PlatformAscendC(fe::PlatFormInfos*) {}
    uint32_t GetLibApiWorkSpaceSize() const { return 16 * 1024 * 1024; }
};
} // namespace platform_ascendc
