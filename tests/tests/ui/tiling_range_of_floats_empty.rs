//~ E0080 there: the range `1.0..=f32::NAN` is empty
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    #[tiling(range = 1.0..=f32::NAN)] pub rows: [f32; 2], // misuse
    // correct: #[tiling(range = 1.0..=f32::MAX)] pub rows: [f32; 2],
    pub last: u64,
}
