//~ E0505: cannot move out of `mine` because it is borrowed
use hccl::memory::Registered;

pub fn back(mine: Registered<Vec<f32>>) -> hccl::Result<(Vec<f32>, f32)> {
    let part = mine.as_slice()?;
    // correct: let first = part[0];
    let mine = mine.into_inner()?;
    let first = part[0]; // misuse
    Ok((mine, first))
}
