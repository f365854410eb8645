//~ macro there: a tiling struct has fields with names
use hccl::kernel::*;

#[derive(Tiling)]
#[repr(C)]
pub struct Data(pub u64); // misuse
// correct: pub struct Data { pub rows: u64 }

#[kernel(mix = "aiv_only")]
pub fn writes(k: Kernel<Data>, y: Output<u64>) {
    let t = k.tiling();
    y.set(0u64, t.0); // misuse
    // correct: y.set(0u64, t.rows);
}
