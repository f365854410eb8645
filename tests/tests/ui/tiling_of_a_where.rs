//~ macro there: a tiling struct has no `where`
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data
where // misuse
    u64: Copy, // misuse
{
    pub rows: u64,
}
