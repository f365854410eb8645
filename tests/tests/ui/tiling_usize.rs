//~ E0080 there: `usize` cannot be in a tiling struct: it has another size on another machine: use `u64` or `u32`
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub field: usize, // misuse
    // correct: pub field: u64,
}
