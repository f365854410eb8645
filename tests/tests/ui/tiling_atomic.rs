//~ E0080 there: `std::sync::atomic::AtomicU64` cannot be in a tiling struct: a tiling struct is plain data: use the plain number
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub field: std::sync::atomic::AtomicU64, // misuse
    // correct: pub field: u64,
}
