//~ macro there: an argument of a kernel has a type with a name
use hccl::kernel::*;

#[kernel(mix = "aiv_only")] pub fn writes(k: Kernel, y: impl Into<Output<f32>>) { // misuse
// correct: #[kernel(mix = "aiv_only")] pub fn writes(k: Kernel, y: Output<f32>) {
    let _ = (k, y);
}

pub fn used() -> hccl::Result<()> {
    println!("{}", writes::record()?);
    Ok(())
}
