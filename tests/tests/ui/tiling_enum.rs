//~ macro there: an enum goes into one as its number
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub enum Data { Rows } // misuse
// correct: pub struct Data { pub rows: u64 }
