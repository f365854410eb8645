//~ macro there: a struct takes `name`, `namespace`, `size` and `crate`
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)] #[tiling(sizes = 8)] // misuse
// correct: #[repr(C)] #[tiling(size = 8)]
pub struct Data {
    pub rows: u64,
}
