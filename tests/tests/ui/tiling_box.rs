//~ E0080 there: an address of the host means nothing to a kernel: put the value itself here
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub field: Box<u64>, // misuse
    // correct: pub field: u64,
}
