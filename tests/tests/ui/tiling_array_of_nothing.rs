//~ E0080 there: `none` is an array of length 0, which C++ does not have
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub none: [u64; 0], // misuse
    pub rows: u64,
}
