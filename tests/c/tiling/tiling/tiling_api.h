// CANN's tiling structs in the older form.
#ifndef TILING_API_H
#define TILING_API_H

#include "register/tilingdata_base.h"

namespace optiling {
BEGIN_TILING_DATA_DEF(Mc2InitTiling)
    TILING_DATA_FIELD_DEF_ARR(uint8_t, 64, reserved);
END_TILING_DATA_DEF;

BEGIN_TILING_DATA_DEF(Mc2CcTiling)
    TILING_DATA_FIELD_DEF_ARR(uint8_t, 512, reserved);
END_TILING_DATA_DEF;

BEGIN_TILING_DATA_DEF(TCubeTiling)
    TILING_DATA_FIELD_DEF_ARR(int32_t, 50, fields);
END_TILING_DATA_DEF;
} // namespace optiling

#endif // TILING_API_H
