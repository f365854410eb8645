//~ macro there: a tiling struct has no parameters
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data<const N: usize> { pub rows: [u64; N] } // misuse
// correct: pub struct Data { pub rows: [u64; 4] }
