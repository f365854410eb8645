//~ macro there: a `f32` has a decimal point: write `1.0`
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    #[tiling(range = 1..)] pub rows: [f32; 2], // misuse
    // correct: #[tiling(range = 1.0..)] pub rows: [f32; 2],
    pub last: u64,
}
