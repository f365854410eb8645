//~ macro there: `name` takes a text: write `name = "tileNum"`
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    #[tiling(name = 3)] pub rows: u64, // misuse
    // correct: pub rows: u64,
    pub last: u64,
}
