//~ E0080 there: 4 bytes of implicit padding before `columns`
#![forbid(unsafe_code)]
#![deny(missing_docs, warnings)]
//! A program whose lints are errors.
use hccl::kernel::*;

/// A struct.
#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    /// The first.
    #[tiling(range = 1..)]
    pub rows: u32,
    /// The second.
    pub columns: u64, // misuse
    // correct: pub columns: [u32; 3],
}

/// A kernel.
#[kernel(mix = "aiv_only")]
pub fn writes(k: Kernel<Data>, y: Output<u32>) {
    let t = k.tiling();
    y.set(0u64, t.rows);
}
