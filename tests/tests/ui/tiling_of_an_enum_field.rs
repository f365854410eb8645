//~ E0080 there: an enum goes in as its number, a `u32`
use hccl::kernel::Tiling;

#[repr(u64)]
pub enum Mode {
    Fast = 0,
}

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub mode: Mode, // misuse
    // correct: pub mode: u64,
}
