//~ macro there: a field takes `name` and `range`
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    #[tiling(size = 8)] // misuse
    // correct: #[tiling(name = "rowCount")]
    pub rows: u64,
}
