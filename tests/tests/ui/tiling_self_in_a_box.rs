//~ E0080 there: put the value itself here
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub rows: Box<Self>, // misuse
    // correct: pub rows: u64,
    pub last: u64,
}
