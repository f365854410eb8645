//~ macro there: `isize` has another size on another machine: use `i64` or `i32`
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub field: isize, // misuse
    // correct: pub field: i64,
}
