//~ macro there: `name` has a value: write `name = "tileNum"`
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    #[tiling(name)] pub rows: u64, // misuse
    // correct: pub rows: u64,
    pub last: u64,
}
