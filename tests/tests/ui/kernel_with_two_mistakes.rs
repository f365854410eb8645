//~ macro there: a kernel returns nothing
//~ macro there: a kernel is not `async`
//~ macro there: `kernel` takes `mix` or `inline`, and `crate`
use hccl::kernel::*;

#[kernel(mix = "aiv_only", fast)] // misuse
// correct: #[kernel(mix = "aiv_only")]
pub async fn writes(k: Kernel, y: Output<f32>) -> u64 { // misuse
// correct: pub fn writes(k: Kernel, y: Output<f32>) {
    let _ = k;
    y.set(0u64, 1.0);
    7 // misuse
}

pub fn used() -> hccl::Result<()> {
    println!("{}", writes::record()?);
    Ok(())
}
