//~ E0080 there: `again` is a second `Mc2InitTiling`: a tiling struct has one, as its first field
use hccl::kernel::{Mc2CcTiling, Mc2InitTiling, Tiling};

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub init: Mc2InitTiling,
    pub again: Mc2InitTiling, // misuse
    pub member: Mc2CcTiling,
}
