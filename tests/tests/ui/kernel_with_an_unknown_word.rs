//~ macro there: `kernel` takes `mix` or `inline`, and `crate`
use hccl::kernel::*;

#[kernel(mix = "aiv_only", fast)] pub fn writes(k: Kernel, y: Output<f32>) { // misuse
// correct: #[kernel(mix = "aiv_only")] pub fn writes(k: Kernel, y: Output<f32>) {
    let _ = k;
    y.set(0u64, 1.0);
}

pub fn used() -> hccl::Result<()> {
    println!("{}", writes::record()?);
    Ok(())
}
