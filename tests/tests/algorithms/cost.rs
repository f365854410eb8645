//! Counts steps and bytes of recorded tasks.

use std::collections::HashMap;

use ascend_operator::{Operator, Order, Task, TaskId};

pub struct Cost {
    /// The most messages that must follow one another.
    pub steps: u64,
    /// Bytes that each rank gives to others.
    pub sent: Vec<u64>,
}

/// What a thread moves between the same two ranks without a wait or a record in between is one message.
pub fn of(operator: &Operator) -> Cost {
    let order = Order::of(operator).unwrap();
    let task = |id: TaskId| {
        let thread = &operator.ranks[id.rank as usize].threads[id.thread as usize];
        &thread[id.position as usize].task
    };
    let ends = |id| {
        let (from, to) = task(id).pieces()?;
        (from.rank != to.rank).then_some((from.rank, to.rank))
    };
    let mut sent = vec![0; operator.ranks.len()];
    let mut chains: HashMap<TaskId, u64> = HashMap::new();
    for &id in order.sequence() {
        let before = id.position.checked_sub(1).map(|position| TaskId { position, ..id });
        let record = order.record_of(id);
        let chain = [before, record].into_iter().flatten().map(|id| chains[&id]).max();
        let is_new = ends(id).is_some() && before.and_then(ends) != ends(id);
        chains.insert(id, chain.unwrap_or_default() + u64::from(is_new));
        if let (Some((from, _)), Task::Copy { from: piece, .. } | Task::Reduce { from: piece, .. }) =
            (ends(id), task(id))
        {
            sent[from as usize] += piece.bytes;
        }
    }
    Cost { steps: chains.values().copied().max().unwrap_or_default(), sent }
}
