//~ macro there: `a` and `A` would both have the constant `A_OFFSET`
use hccl::kernel::Tiling;

use hccl::kernel::{Mc2CcTiling, Mc2InitTiling};

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub init: Mc2InitTiling,
    pub a: Mc2CcTiling,
    #[allow(non_snake_case)] pub A: Mc2CcTiling, // misuse
    pub last: u64,
}
