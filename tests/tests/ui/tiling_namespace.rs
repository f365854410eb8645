//~ macro there: `2` is not a name in C++
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
#[tiling(namespace = "kernels::2")] // misuse
// correct: #[tiling(namespace = "kernels::two")]
pub struct Data {
    pub rows: u64,
}
