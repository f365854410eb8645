//~ E0080 there: `Mc2CcTiling<300>` cannot be in a tiling struct
use hccl::kernel::{Mc2CcTiling, Mc2InitTiling, Tiling};

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub init: Mc2InitTiling,
    pub member: Mc2CcTiling<300>, // misuse
    // correct: pub member: Mc2CcTiling<280>,
}
