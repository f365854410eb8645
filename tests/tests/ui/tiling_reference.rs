//~ macro there: pass tensors as arguments of the kernel, and a device address as `u64`
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub field: &'static [f32], // misuse
    // correct: pub field: u64,
}
