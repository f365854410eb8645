//~ E0521: borrowed data escapes outside of closure
use hccl::memory::HostSlice;
use hccl::prelude::*;

pub fn kept(runtime: &Runtime, data: &[f32]) -> hccl::Result<usize> {
    let mut kept: Option<HostSlice<'_, f32>> = None;
    runtime.lend(data, |lent| {
        kept = Some(lent); // misuse
        // correct: kept.take();
        Ok(())
    })?;
    Ok(kept.map_or(0, |kept| kept.len()))
}
