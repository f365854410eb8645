//~ E0080 there: `init` is an `Mc2InitTiling` at offset 8: make it the first field
use hccl::kernel::{Mc2CcTiling, Mc2InitTiling, Tiling};

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub rows: u64,
    pub init: Mc2InitTiling, // misuse
    // correct: pub columns: u64,
}
