//~ macro: lifetime may not live long enough
use hccl::prelude::*;

pub fn kept(runtime: &Runtime, data: &mut [f32]) -> hccl::Result<usize> {
    let part = runtime.lend_mut(data, |lent| Ok(lent))?; // misuse
    // correct: let part = runtime.lend_mut(data, |lent| Ok(lent.len()).map(|len| 0..len))?;
    Ok(part.len())
}
