//~ E0080 there: a Rust `char` is not a C++ `char`: use `u8` for a byte, `u32` for a code point
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub field: [char; 2], // misuse
    // correct: pub field: [u32; 2],
}
