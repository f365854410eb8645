//~ macro there: write `range` at a field
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
#[tiling(range = 1..)] // misuse
pub struct Data {
    pub rows: u64,
}
