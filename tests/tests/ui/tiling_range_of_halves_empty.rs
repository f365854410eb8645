//~ E0080 there: the range `hccl::f16::ONE..hccl::f16::ZERO` is empty
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    #[tiling(range = hccl::f16::ONE..hccl::f16::ZERO)] pub rows: [hccl::f16; 4], // misuse
    // correct: #[tiling(range = hccl::f16::ZERO..hccl::f16::ONE)] pub rows: [hccl::f16; 4],
    pub last: u64,
}
