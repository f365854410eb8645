//~ E0433 there: `nothing`
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)] #[tiling(crate = ::nothing)] // misuse
// correct: #[repr(C)] #[tiling(crate = ::hccl)]
pub struct Data {
    pub rows: u64,
}
