//~ macro there: the first argument of a kernel is `k: Kernel<T>`
use hccl::kernel::*;

#[kernel(mix = "aiv_only")] pub fn writes() { // misuse
// correct: #[kernel(mix = "aiv_only")] pub fn writes(_k: Kernel) {
}

pub fn used() -> hccl::Result<()> {
    println!("{}", writes::record()?);
    Ok(())
}
