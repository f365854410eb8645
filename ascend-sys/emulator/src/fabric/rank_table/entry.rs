//! Puts the entries of the ranks of a table in order.

use super::field::{Field, WrongTable};

/// The entry of a rank.
pub(super) struct TableRank {
    pub(super) server: usize,
    /// The number of the rank's device in the server.
    pub(super) device: u32,
}

/// Sorts the ranks by their numbers. The numbers must begin at 0, and each must occur once.
pub(super) fn in_order(
    mut ranks: Vec<(u64, Field<'_>, TableRank)>,
) -> Result<Vec<TableRank>, WrongTable> {
    let count = ranks.len() as u64;
    ranks.sort_by_key(|(number, ..)| *number);
    if let Some((number, field, _)) = ranks.iter().find(|(number, ..)| *number >= count) {
        return Err(
            field.wrong(format!("is {number}, but must be below the number of ranks, {count}"))
        );
    }
    // All numbers are below the count. If none of them occurs twice, none is missing.
    if let Some(two) = ranks.windows(2).find(|two| two[0].0 == two[1].0) {
        let (number, field, _) = &two[1];
        return Err(field.wrong(format!("is {number}, as in another entry; give each its own")));
    }
    Ok(ranks.into_iter().map(|(.., rank)| rank).collect())
}
