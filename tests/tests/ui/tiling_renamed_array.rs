//~ E0080 there: an array is written out, `[T; N]`, not under another name
use hccl::kernel::Tiling;

pub type Row = [f32; 4];

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub row: Row, // misuse
    // correct: pub row: [f32; 4],
}
