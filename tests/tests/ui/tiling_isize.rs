//~ E0080 there: `isize` cannot be in a tiling struct: it has another size on another machine: use `i64` or `i32`
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub field: isize, // misuse
    // correct: pub field: i64,
}
