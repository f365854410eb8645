//~ macro there: `#[repr(C)]` is missing
use hccl::kernel::Tiling;

#[derive(Tiling)]
pub struct Data { // misuse
// correct: #[repr(C)]
// correct: pub struct Data {
    pub rows: u64,
}
