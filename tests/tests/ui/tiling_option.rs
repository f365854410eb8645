//~ E0080 there: C++ has no such layout: use a value that stands for none
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub field: Option<u64>, // misuse
    // correct: pub field: u64,
}
