//~ macro there: `crate` takes a path: write `crate = ::hccl`
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)] #[tiling(crate = "hccl")] // misuse
// correct: #[repr(C)] #[tiling(crate = hccl)]
pub struct Data {
    pub rows: u64,
}
