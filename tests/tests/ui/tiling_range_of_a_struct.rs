//~ E0277 there: is not a range of `Inner`
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Inner {
    pub length: u64,
}

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    #[tiling(range = 1..)] pub rows: Inner, // misuse
    // correct: pub rows: Inner,
    pub last: u64,
}
