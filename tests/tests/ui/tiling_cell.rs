//~ E0080 there: a tiling struct is plain data: put the value itself here
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub field: std::cell::Cell<u64>, // misuse
    // correct: pub field: u64,
}
