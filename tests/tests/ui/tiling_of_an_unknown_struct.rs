//~ E0277 there: `Plain` cannot be in a tiling struct
use hccl::kernel::Tiling;

pub struct Plain(pub u64);

#[derive(Tiling)]
#[repr(C)]
pub struct Inner {
    pub length: u64,
}

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub inner: Plain, // misuse
    // correct: pub inner: Inner,
}
