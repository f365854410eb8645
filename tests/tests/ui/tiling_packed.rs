//~ macro there: a packed struct has fields where the core cannot read them
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C, packed)] // misuse
// correct: #[repr(C)]
pub struct Data {
    pub rows: u64,
}
