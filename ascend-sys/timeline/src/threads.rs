//! Lays out the rows of operator threads, and the notifies between them.

use crate::chart::{Flow, Row, RowKind, Says, Span, SpanKind};
use crate::entries::{NotifyKey, PrimitiveSpan, PrimitiveWork};
use crate::merged::Place;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Returns the rank of each device, by the number of the device in its block. The rank is `None` if
/// several ranks use the number, or if the threads of the device belong to no rank.
pub(super) fn ranks(
    primitives: &[PrimitiveSpan],
    places: &[Place],
) -> BTreeMap<u32, Option<usize>> {
    let mut ranks = BTreeMap::new();
    for one in primitives {
        let Some(place) = places.get(one.device as usize) else { continue };
        let known = ranks.entry(place.device).or_insert(one.rank);
        if *known != one.rank {
            *known = None;
        }
    }
    ranks
}

/// Returns a row for each thread of a device, with the main threads first.
pub(super) fn rows(
    primitives: &[&PrimitiveSpan],
    ranks: &BTreeMap<u32, Option<usize>>,
) -> Vec<Row> {
    let mut rows: BTreeMap<(&str, u64), Row> = BTreeMap::new();
    for one in primitives {
        let row = rows.entry((&one.name, one.thread)).or_insert_with(|| {
            let thread = Some(one.thread);
            Row { thread, ..Row::new(one.name.clone(), RowKind::Thread) }
        });
        row.spans.push(span(one, ranks));
    }
    let mut rows: Vec<Row> = rows.into_values().collect();
    // Sorting by length first puts "thread 10" after "thread 9".
    rows.sort_by_key(|row| (row.name.len(), row.name.clone()));
    rows.sort_by_key(|row| !row.name.starts_with("main"));
    rows
}

fn span(one: &PrimitiveSpan, ranks: &BTreeMap<u32, Option<usize>>) -> Span {
    let rank = |device: &u32| match ranks.get(device) {
        Some(Some(rank)) => rank.to_string(),
        _ => format!("device {device}"),
    };
    let mut says = vec![("call", Says::Text(one.call.clone()))];
    let (name, look) = match &one.work {
        PrimitiveWork::Moves { from, to, bytes, reduces } => {
            says.push(("bytes", Says::Number(*bytes)));
            let how = if *reduces { " reduced" } else { "" };
            match from == to {
                true if *reduces => ("reduction".into(), SpanKind::Copies),
                true => ("copy".into(), SpanKind::Copies),
                false => (format!("{} → {}{how}", rank(from), rank(to)), SpanKind::Moves),
            }
        }
        PrimitiveWork::Records { whose, .. } => {
            says.push(("notify", Says::Text(whose.clone())));
            ("record".into(), SpanKind::Records)
        }
        PrimitiveWork::Waits { whose, recorder, .. } => {
            says.push(("notify", Says::Text(whose.clone())));
            let whom = recorder.map_or_else(|| "a thread".into(), |rank| format!("rank {rank}"));
            (format!("waits: {whom}"), SpanKind::Waits)
        }
    };
    if !one.group.is_empty() {
        says.push(("communicator", Says::Text(one.group.clone())));
    }
    let failure = one.failure.iter().map(|text| ("failure", Says::Text(text.clone())));
    says.extend(failure);
    let look = if one.failure.is_some() { SpanKind::Failed } else { look };
    Span { name, look, from: one.from, to: one.to, says, parts: Vec::new() }
}

/// Returns an arrow from each record of a notify to the wait that took it. The records of a notify
/// are taken in the order of their starts.
pub(super) fn flows(primitives: &[PrimitiveSpan], zero: u64) -> Vec<Flow> {
    let mut of_notify: HashMap<NotifyKey, Vec<&PrimitiveSpan>> = HashMap::new();
    for one in primitives.iter().filter(|one| one.failure.is_none()) {
        if let PrimitiveWork::Records { notify, .. } | PrimitiveWork::Waits { notify, .. } =
            &one.work
        {
            of_notify.entry(*notify).or_default().push(one);
        }
    }
    let mut flows = Vec::new();
    for mut events in of_notify.into_values() {
        // A record counts from its start, because the wait may end before the record does. A wait
        // counts from its end.
        let is_wait = |one: &PrimitiveSpan| matches!(one.work, PrimitiveWork::Waits { .. });
        events.sort_by_key(|one| if is_wait(one) { (one.to, true) } else { (one.from, false) });
        let mut set: VecDeque<&PrimitiveSpan> = VecDeque::new();
        for one in events {
            if !is_wait(one) {
                set.push_back(one);
            } else if let Some(record) = set.pop_front() {
                flows.push(Flow {
                    from: (record.thread, record.from - zero),
                    // The arrow must end within the slice of the wait.
                    to: (one.thread, one.to.saturating_sub(1).max(one.from) - zero),
                    across: record.device != one.device,
                });
            }
        }
    }
    flows.sort_by_key(|flow| (flow.from, flow.to));
    flows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn primitive(
        device: u32,
        thread: u64,
        work: PrimitiveWork,
        (from, to): (u64, u64),
    ) -> PrimitiveSpan {
        PrimitiveSpan {
            device,
            rank: Some(device as usize - 4),
            group: "world".into(),
            thread,
            name: if thread < 10 { "main thread".into() } else { format!("thread {thread}") },
            call: "HcommLocalCopyOnThread".into(),
            work,
            from,
            to,
            failure: None,
        }
    }

    fn key(index: u32) -> NotifyKey {
        NotifyKey { process: 1, owner: 0, on_channel: true, index }
    }

    fn records(device: u32, thread: u64, notify: u32, at: (u64, u64)) -> PrimitiveSpan {
        primitive(
            device,
            thread,
            PrimitiveWork::Records { notify: key(notify), whose: String::new() },
            at,
        )
    }

    fn waits(device: u32, thread: u64, notify: u32, at: (u64, u64)) -> PrimitiveSpan {
        let recorder = None;
        primitive(
            device,
            thread,
            PrimitiveWork::Waits { notify: key(notify), whose: String::new(), recorder },
            at,
        )
    }

    #[test]
    fn a_flow_leads_from_each_record_to_the_wait_that_took_it() {
        // Notify 1 is waited for twice: the first wait begins before the record, the second one
        // after it. Notify 2 is recorded but not waited for. The wait for notify 3 fails.
        let failed = PrimitiveSpan { failure: Some("gone".into()), ..waits(5, 2, 3, (0, 90)) };
        let primitives = [
            waits(5, 2, 1, (10, 22)),
            records(4, 1, 1, (20, 21)),
            waits(5, 2, 1, (60, 61)),
            records(4, 1, 1, (40, 41)),
            records(4, 1, 2, (50, 51)),
            records(4, 1, 3, (55, 56)),
            failed,
        ];
        let flows: Vec<_> =
            flows(&primitives, 10).iter().map(|flow| (flow.from, flow.to, flow.across)).collect();
        assert_eq!(flows, [((1, 10), (2, 11), true), ((1, 30), (2, 50), true)]);
    }

    #[test]
    fn each_thread_has_a_row_and_the_main_one_is_the_first() {
        let moves = |from, to| PrimitiveWork::Moves { from, to, bytes: 8, reduces: false };
        let primitives = [
            primitive(4, 11, moves(4, 5), (3, 4)),
            primitive(4, 100, moves(5, 4), (3, 4)),
            primitive(4, 3, moves(4, 4), (1, 2)),
        ];
        let places: Vec<Place> =
            (0..6).map(|device| Place { device, process: 1, block: 0 }).collect();
        let ranks = ranks(&[records(4, 3, 0, (0, 0)), records(5, 2, 0, (0, 0))], &places);
        let rows = rows(&primitives.iter().collect::<Vec<_>>(), &ranks);
        let told: Vec<_> =
            rows.iter().map(|row| (row.name.as_str(), row.spans[0].name.as_str())).collect();
        let expected = [("main thread", "copy"), ("thread 11", "0 → 1"), ("thread 100", "1 → 0")];
        assert_eq!(told, expected);
    }
}
