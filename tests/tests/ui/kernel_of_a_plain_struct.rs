//~ E0080 there: and `T` has `#[derive(Tiling)]`: not `Kernel<Plain>`
use hccl::kernel::*;

pub struct Plain(pub u64);

#[kernel(mix = "aiv_only")] pub fn writes(k: Kernel<Plain>, y: Output<f32>) { // misuse
// correct: #[kernel(mix = "aiv_only")] pub fn writes(k: Kernel, y: Output<f32>) {
    let _ = k;
    y.set(0u64, 1.0);
}

pub fn used() -> hccl::Result<()> {
    println!("{}", writes::record()?);
    Ok(())
}
