//~ macro there: a tiling struct has fields with names
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data(pub u64); // misuse
// correct: pub struct Data { pub rows: u64 }
