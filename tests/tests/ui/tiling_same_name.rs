//~ macro there: `tile_len` and `tileLen` are both `tileLen` in C++
#![allow(non_snake_case)]
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub tile_len: u64,
    pub tileLen: u64, // misuse
    // correct: #[tiling(name = "tileLength")]
    // correct: pub tileLen: u64,
}
