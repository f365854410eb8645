//~ macro there: `größe` is not a name in C++
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub größe: u64, // misuse
    // correct: #[tiling(name = "groesse")] pub größe: u64,
    pub last: u64,
}
