//~ macro there: a union does not record which of its fields is set
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub union Data { pub rows: u64 } // misuse
// correct: pub struct Data { pub rows: u64 }
