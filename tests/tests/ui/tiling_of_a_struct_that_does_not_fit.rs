//~ E0080 there: `Vec<u64>` cannot be in a tiling struct
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Inner {
    pub rows: Vec<u64>, // misuse
    // correct: pub rows: [u64; 4],
}

#[derive(Tiling)]
#[repr(C)]
#[tiling(size = 40)]
pub struct Data {
    pub inner: Inner,
    pub last: u64,
}

pub fn used() -> hccl::Result<u64> {
    let data = Data::zeroed();
    data.check()?;
    Ok(data.last)
}
