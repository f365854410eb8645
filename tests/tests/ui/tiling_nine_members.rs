//~ E0080 there: `last` is one `Mc2CcTiling` too many: an `Mc2InitTiling` counts 8
use hccl::kernel::{Mc2CcTiling, Mc2InitTiling, Tiling};

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub init: Mc2InitTiling,
    pub members: [Mc2CcTiling; 8],
    pub last: Mc2CcTiling, // misuse
}
