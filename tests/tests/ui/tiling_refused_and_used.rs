//~ E0080 there: `Vec<u64>` cannot be in a tiling struct: its contents are elsewhere in memory
use hccl::kernel::{Kernel, Output, Tiling, kernel};

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub rows: u64,
    pub lengths: Vec<u64>, // misuse
    // correct: pub lengths: [u64; 4],
    #[tiling(range = 1..=64)]
    pub columns: u64,
}

#[kernel(mix = "aiv_only")]
fn writes(k: Kernel<Data>, y: Output<u64>) {
    let t = k.tiling();
    k.range(..t.rows, |row| y.set(row, t.columns));
}

pub fn used(data: &mut Data) -> hccl::Result<()> {
    data.set_columns(3).unwrap();
    let _ = (data.as_bytes(), Data::LAYOUT_HASH, writes::record()?);
    Ok(())
}
