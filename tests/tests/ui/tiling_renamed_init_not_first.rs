//~ E0080 there: `first` is an `Mc2InitTiling` at offset 8
use hccl::kernel::Tiling;

pub type Head = hccl::kernel::Mc2InitTiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub rows: u64, // misuse
    pub first: Head, // misuse
    // correct: pub first: Head,
}
