//~ macro there: a tiling struct is `#[repr(C)]` and nothing else
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(transparent)] // misuse
// correct: #[repr(C)]
pub struct Data {
    pub rows: u64,
}
