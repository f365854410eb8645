//~ E0080 there: `member` is an `Mc2CcTiling` without an `Mc2InitTiling`: add `init: Mc2InitTiling` as the first field of the struct
use hccl::kernel::{Mc2CcTiling, Mc2InitTiling, Tiling};

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub member: Mc2CcTiling, // misuse
    // correct: pub init: Mc2InitTiling,
    // correct: pub member: Mc2CcTiling,
}
