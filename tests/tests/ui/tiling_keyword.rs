//~ macro there: `register` is a keyword of Ascend C
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub register: u64, // misuse
    // correct: #[tiling(name = "register_")]
    // correct: pub register: u64,
}
