//~ E0080 there: 4 bytes of implicit padding before `inner`
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Inner {
    pub length: u64,
}

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub rows: u32,
    pub inner: Inner, // misuse
    // correct: pub columns: u32,
    // correct: pub inner: Inner,
}
