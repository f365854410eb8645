//~ macro there: an enum goes into one as its number, a `u32`
use hccl::kernel::{Kernel, Output, Tiling, kernel};

#[derive(Tiling)]
#[repr(C)]
pub enum Data { First } // misuse
// correct: pub struct Data { pub first: u64 }

#[kernel(mix = "aiv_only")]
fn writes(k: Kernel<Data>, y: Output<u32>) {
    let _ = k.tiling();
    y.set(0u64, 7);
}

pub fn used() -> hccl::Result<()> {
    writes::record().map(drop)?;
    Ok(())
}
