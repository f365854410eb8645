//~ macro there: with a union nobody knows which of its fields is meant
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub union Data { pub rows: u64 } // misuse
// correct: pub struct Data { pub rows: u64 }
