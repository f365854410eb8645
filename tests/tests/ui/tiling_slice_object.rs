//~ macro there: the size of a field must be known
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub field: dyn std::fmt::Debug, // misuse
    // correct: pub field: u64,
}
