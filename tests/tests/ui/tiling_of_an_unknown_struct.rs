//~ E0080 there: or a struct with `#[derive(Tiling)]`
use hccl::kernel::{Kernel, Output, Tiling, kernel};

pub struct Plain(pub u64);

#[derive(Tiling)]
#[repr(C)]
pub struct Inner {
    pub length: u64,
}

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub inner: Plain, // misuse
    // correct: pub inner: Inner,
    pub rows: u64,
}

#[kernel(mix = "aiv_only")]
pub fn writes(k: Kernel<Data>, y: Output<u64>) {
    let t = k.tiling();
    y.set(0, t.rows);
}

pub fn used() -> hccl::Result<()> {
    let _ = (Data::zeroed().as_bytes(), writes::record()?);
    Ok(())
}
