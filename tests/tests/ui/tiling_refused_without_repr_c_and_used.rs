//~ macro there: `#[repr(C)]` is missing
use hccl::kernel::{Kernel, Output, Tiling, kernel};

#[derive(Tiling)]
pub struct Data { // misuse
// correct: #[repr(C)]
// correct: pub struct Data {
    pub rows: u64,
    pub narrow: u32,
    pub wide: u32,
}

#[derive(Tiling)]
#[repr(C)]
pub struct Outer {
    pub data: Data,
}

#[kernel(mix = "aiv_only")]
fn writes(k: Kernel<Outer>, y: Output<u32>) {
    let t = k.tiling();
    y.set(t.data.rows, t.data.narrow);
}

pub fn used() -> hccl::Result<()> {
    writes::record().map(drop)?;
    Ok(())
}
