//~ macro there: an address of the host means nothing
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub rows: fn() -> u64, // misuse
    // correct: pub rows: u64,
    pub last: u64,
}
