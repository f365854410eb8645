//~ macro there: `union` is a keyword of Ascend C
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub r#union: u64, // misuse
    // correct: pub r#type: u64,
    pub last: u64,
}
