//~ E0080 there: `Vec<u64>` cannot be in a tiling struct
//~ macro there: a tuple has no layout that C++ knows
//~ macro there: a `u64` is a whole number
use hccl::kernel::{Kernel, Output, Tiling, kernel};

#[derive(Tiling)]
#[repr(C)]
pub struct Inner {
    pub pair: (u32, u32), // misuse
    // correct: pub pair: [u32; 2],
}

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub lengths: Vec<u64>, // misuse
    // correct: pub lengths: [u64; 4],
    #[tiling(range = 0.5..)] // misuse
    // correct: #[tiling(range = 1..)]
    pub rows: u64,
    pub inner: [Inner; 2],
}

#[kernel(mix = "aiv_only")]
fn writes(k: Kernel<Data>, y: Output<u64>) {
    let t = k.tiling();
    let first = t.lengths.at(0);
    let second = t.inner[1].pair.at(0).cast::<u64>();
    k.range(..t.rows, |row| y.set(row, first + second));
}

pub fn used(data: &mut Data) -> hccl::Result<()> {
    data.set_rows(3)?;
    let kernel = writes::record()?;
    println!("{kernel}{}{}", kernel.ascend_c()?, Data::LAYOUT);
    Ok(())
}
