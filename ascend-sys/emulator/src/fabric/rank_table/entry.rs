//! The entries of the ranks, in order.

use super::field::{Field, WrongTable};

/// A rank's entry.
pub(super) struct TableRank {
    pub(super) server: usize,
    /// Its number in the server.
    pub(super) device: u32,
}

/// Sorts the ranks by their numbers: each number must occur once, from 0.
pub(super) fn in_order(
    mut ranks: Vec<(u64, Field<'_>, TableRank)>,
) -> Result<Vec<TableRank>, WrongTable> {
    let count = ranks.len() as u64;
    ranks.sort_by_key(|(number, ..)| *number);
    if let Some((number, field, _)) = ranks.iter().find(|(number, ..)| *number >= count) {
        return Err(
            field.wrong(format!("is {number}, and there are {count} ranks, numbered from 0"))
        );
    }
    // There are as many numbers as ranks, and none twice: so none is missing.
    if let Some(two) = ranks.windows(2).find(|two| two[0].0 == two[1].0) {
        let (number, field, _) = &two[1];
        return Err(field.wrong(format!("is {number}, as another one's is")));
    }
    Ok(ranks.into_iter().map(|(.., rank)| rank).collect())
}
