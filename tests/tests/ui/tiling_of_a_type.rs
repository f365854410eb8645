//~ macro there: a tiling struct has no parameters
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data<T> { pub value: T } // misuse
// correct: pub struct Data { pub value: u64 }
