//~ macro there: an argument of a kernel has a name
use hccl::kernel::*;

#[kernel(mix = "aiv_only")] pub fn writes(k: Kernel, (y, _): (Output<f32>, u8)) { // misuse
// correct: #[kernel(mix = "aiv_only")] pub fn writes(k: Kernel, y: Output<f32>) {
    let _ = k;
    y.set(0u64, 1.0);
}

pub fn used() -> hccl::Result<()> {
    println!("{}", writes::record()?);
    Ok(())
}
