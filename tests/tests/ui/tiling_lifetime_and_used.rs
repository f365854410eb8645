//~ macro there: an address of the host means nothing to a kernel
use hccl::kernel::{Kernel, Output, Tiling, kernel};

#[derive(Tiling)]
#[repr(C)]
pub struct Data<'a> { // misuse
// correct: pub struct Data {
    pub rows: u64,
    pub columns: &'a u64, // misuse
    // correct: pub columns: u64,
}

#[kernel(mix = "aiv_only")]
fn writes(k: Kernel<Data<'static>>, y: Output<u64>) { // misuse
// correct: fn writes(k: Kernel<Data>, y: Output<u64>) {
    let t = k.tiling();
    k.range(..t.rows, |row| y.set(row, t.rows));
}

pub fn used() -> hccl::Result<()> {
    writes::record().map(drop)?;
    Ok(())
}
