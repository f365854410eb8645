//~ macro there: a tiling struct has no parameters
use hccl::kernel::{Kernel, Output, Tiling, kernel};

#[derive(Tiling)]
#[repr(C)]
pub struct Data<T: Copy, const N: usize> { // misuse
// correct: pub struct Data {
    #[tiling(range = 1..=64)]
    pub rows: u64,
    pub columns: [T; N], // misuse
    // correct: pub columns: [u64; 4],
}

pub type Columns = Data<u64, 4>; // misuse
// correct: pub type Columns = Data;

#[kernel(mix = "aiv_only")]
fn writes(k: Kernel<Columns>, y: Output<u64>) {
    let t = k.tiling();
    k.range(..t.rows, |row| y.set(row, t.columns.at(row)));
}

pub fn used(data: &mut Columns) -> hccl::Result<()> {
    data.set_rows(4)?;
    writes::record().map(drop)?;
    Ok(())
}
