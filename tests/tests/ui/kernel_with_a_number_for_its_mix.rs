//~ macro there: `mix` takes a text
use hccl::kernel::*;

#[kernel(mix = 1)] pub fn writes(k: Kernel, y: Output<f32>) { // misuse
// correct: #[kernel(mix = "aiv_only")] pub fn writes(k: Kernel, y: Output<f32>) {
    let _ = k;
    y.set(0u64, 1.0);
}

pub fn used() -> hccl::Result<()> {
    println!("{}", writes::record()?);
    Ok(())
}
