//~ macro there: `kernel` stands above a function
use hccl::kernel::*;

#[kernel(mix = "aiv_only")] // misuse
pub struct Data(pub u64);
