//~ macro there: a kernel is not `async`
use hccl::kernel::*;

#[kernel(mix = "aiv_only")] pub async fn writes(k: Kernel, y: Output<f32>) { // misuse
// correct: #[kernel(mix = "aiv_only")] pub fn writes(k: Kernel, y: Output<f32>) {
    let _ = k;
    y.set(0u64, 1.0);
}

pub fn used() -> hccl::Result<()> {
    println!("{}", writes::record()?);
    Ok(())
}
