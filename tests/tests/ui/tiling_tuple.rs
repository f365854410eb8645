//~ macro there: a tuple has no layout that C++ knows
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub field: (u32, u32), // misuse
    // correct: pub field: [u32; 2],
}
