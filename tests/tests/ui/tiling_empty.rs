//~ E0080 there: a tiling struct has at least one field
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {} // misuse
// correct: pub struct Data { pub rows: u64 }
