//~ E0080 there: the first argument of a kernel is `k: Kernel<T>` with its tiling struct, or `k: Kernel`, and `T` has `#[derive(Tiling)]`: not `Input<f32>`
use hccl::kernel::*;

#[kernel(mix = "aiv_only")] pub fn writes(k: Input<f32>, y: Output<f32>) { // misuse
// correct: #[kernel(mix = "aiv_only")] pub fn writes(k: Kernel, y: Output<f32>) {
    let _ = k;
    y.set(0u64, 1.0);
}

pub fn used() -> hccl::Result<()> {
    println!("{}", writes::record()?);
    Ok(())
}
