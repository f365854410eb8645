//~ E0080 there: the struct has 16392 bytes, too large for launch
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
// correct: pub struct Data {
pub struct Data { // misuse
    pub table: [u64; 2049], // misuse
    // correct: pub table: [u64; 2048],
}
