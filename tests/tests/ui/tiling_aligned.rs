//~ macro there: the fields decide the alignment, in C++ too
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C, align(16))] // misuse
// correct: #[repr(C)]
pub struct Data {
    pub rows: u64,
}
