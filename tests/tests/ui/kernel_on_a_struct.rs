//~ macro there: `kernel` is for functions only
use hccl::kernel::*;

#[kernel(mix = "aiv_only")] // misuse
pub struct Data(pub u64);
