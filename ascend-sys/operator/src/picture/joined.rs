//! Joins several operators into one: the tasks of each thread of the first operator, then those of
//! the same thread of the second one.

use crate::check::Finding;
use crate::{Operator, RankTasks, TaskId};
use std::borrow::Cow;

/// Joins the operators into one, and returns the places of a finding in the joined operator.
pub(super) fn joined<'a>(
    operators: &'a [Operator],
    finding: &Finding,
) -> (Cow<'a, Operator>, Vec<TaskId>) {
    let before = |operator: u32, rank: u32, thread: u32| -> usize {
        let earlier = operators.iter().take(operator as usize);
        let threads = earlier
            .filter_map(|operator| operator.ranks.get(rank as usize)?.threads.get(thread as usize));
        threads.map(Vec::len).sum()
    };
    let place = |place: &crate::check::Place| {
        let before = before(place.operator.unwrap_or(0), place.rank, place.thread);
        let position = place.position.saturating_add(u32::try_from(before).unwrap_or(u32::MAX));
        TaskId { rank: place.rank, thread: place.thread, position }
    };
    (join(operators), finding.places.iter().map(place).collect())
}

fn join(operators: &[Operator]) -> Cow<'_, Operator> {
    if let [one] = operators {
        return Cow::Borrowed(one);
    }
    let names: Vec<&str> = operators.iter().map(|operator| operator.name.as_str()).collect();
    let mut all = Operator {
        name: names.join(", then "),
        goal: crate::Goal::Other { input: 0, output: 0 },
        count: 0,
        element: 1,
        floats: false,
        handshake: false,
        source: None,
        ranks: Vec::new(),
    };
    for operator in operators {
        let ranks = operator.ranks.len().max(all.ranks.len());
        all.ranks.resize_with(ranks, RankTasks::default);
        for (to, from) in all.ranks.iter_mut().zip(&operator.ranks) {
            let threads = from.threads.len().max(to.threads.len());
            to.threads.resize_with(threads, Vec::new);
            for (to, from) in to.threads.iter_mut().zip(&from.threads) {
                to.extend_from_slice(from);
            }
        }
    }
    Cow::Owned(all)
}
