//~ E0080 there: `Vec<u64>` cannot be in a tiling struct: its contents are elsewhere in memory
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub field: Vec<u64>, // misuse
    // correct: pub field: [u64; 4],
}
