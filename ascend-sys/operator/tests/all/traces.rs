//! Traces of operators are JSON, and show every task in the right place.

use crate::pictures::algorithms;
use ascend_operator::{Cost, Model, Operator, Order, picture};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};

fn events(operator: &Operator, model: &Model) -> Vec<Value> {
    let mut trace: Value = serde_json::from_str(&picture::trace(operator, model)).unwrap();
    let Value::Array(events) = trace["traceEvents"].take() else { panic!("no events") };
    events
}

fn of<'a>(events: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    events.iter().filter(move |event| event["ph"] == kind)
}

/// Returns a time of an event, in nanoseconds.
fn time(event: &Value, name: &str) -> u64 {
    (event[name].as_f64().unwrap() * 1000.0).round() as u64
}

/// Returns the process and the thread of an event.
fn row(event: &Value) -> (u64, u64) {
    (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap())
}

fn operators() -> [Operator; 4] {
    [
        algorithms::ring(5, 1000),
        algorithms::mesh(6, 1000),
        algorithms::pairwise(2, 1000),
        algorithms::hierarchical(8, 1000),
    ]
}

#[test]
fn every_task_is_a_slice_of_its_thread_and_slices_do_not_overlap() {
    for operator in operators() {
        let events = events(&operator, &Model::default());
        let ranks = operator.ranks.len() as u64;
        let mut rows = BTreeMap::<_, Vec<_>>::new();
        for slice in of(&events, "X").filter(|slice| slice["pid"].as_u64() <= Some(ranks)) {
            let (from, lasts) = (time(slice, "ts"), time(slice, "dur"));
            let id = slice["args"]["id"].as_str().unwrap().to_owned();
            rows.entry(row(slice)).or_default().push((from, from + lasts, id));
        }
        let mut threads = rows.into_iter();
        for (rank, tasks) in operator.ranks.iter().enumerate() {
            for (thread, steps) in tasks.threads.iter().enumerate() {
                let ((process, _), mut slices) = threads.next().unwrap();
                assert_eq!(process, rank as u64 + 1);
                slices.sort();
                let ids: Vec<&str> = slices.iter().map(|slice| slice.2.as_str()).collect();
                let expected = (0..steps.len()).map(|at| format!("{rank}/{thread}/{at}"));
                assert_eq!(ids, expected.collect::<Vec<_>>());
                assert!(slices.windows(2).all(|two| two[0].1 <= two[1].0), "{slices:?}");
            }
        }
        assert!(threads.next().is_none());
    }
}

#[test]
fn a_flow_leads_from_within_the_record_to_within_its_wait() {
    for operator in operators() {
        let events = events(&operator, &Model::default());
        let slices: Vec<&Value> = of(&events, "X").collect();
        // Returns the task whose slice contains an event.
        let task = |event: &Value| {
            let at = time(event, "ts");
            let around = slices.iter().filter(|slice| {
                let from = time(slice, "ts");
                row(slice) == row(event) && (from..from + time(slice, "dur")).contains(&at)
            });
            let ids: Vec<&str> =
                around.map(|slice| slice["args"]["id"].as_str().unwrap()).collect();
            assert_eq!(ids.len(), 1, "{event}");
            ids[0].to_owned()
        };
        let begin: HashMap<u64, String> =
            of(&events, "s").map(|event| (event["id"].as_u64().unwrap(), task(event))).collect();
        let flows: BTreeSet<(String, String)> = of(&events, "f")
            .map(|event| (begin[&event["id"].as_u64().unwrap()].clone(), task(event)))
            .collect();
        let order = Order::of(&operator).unwrap();
        let key =
            |id: ascend_operator::TaskId| format!("{}/{}/{}", id.rank, id.thread, id.position);
        let expected =
            order.sequence().iter().filter_map(|id| Some((key(order.record_of(*id)?), key(*id))));
        assert_eq!(flows, expected.collect());
        assert_eq!(begin.len(), flows.len());
    }
}

#[test]
fn the_critical_path_has_a_row_without_gaps() {
    for operator in operators() {
        let model = Model::default();
        let events = events(&operator, &model);
        let own = operator.ranks.len() as u64 + 1;
        let path: Vec<_> = of(&events, "X").filter(|slice| slice["pid"] == own).collect();
        let ends: Vec<(u64, u64)> = (path.iter())
            .map(|slice| (time(slice, "ts"), time(slice, "ts") + time(slice, "dur")))
            .collect();
        assert_eq!(ends[0].0, 0);
        assert!(ends.windows(2).all(|two| two[0].1 == two[1].0));
        // A task that takes no time is shown as a nanosecond. Other times are rounded to whole
        // nanoseconds.
        let end = ends[ends.len() - 1].1;
        let expected = Cost::of(&operator, &model).time * 1e9;
        assert!((end as f64 - expected).abs() <= path.len() as f64 + 1.0, "{end} {expected}");
        let critical: BTreeSet<&str> = (of(&events, "X")
            .filter(|slice| slice["cat"] == "critical"))
        .map(|slice| slice["args"]["id"].as_str().unwrap())
        .collect();
        assert_eq!(critical.len(), path.len());
    }
}

#[test]
fn what_hangs_is_a_slice_to_the_end() {
    let events = events(&algorithms::hangs(), &Model::default());
    let stuck: Vec<&str> = (of(&events, "X").filter(|slice| slice["cat"] == "stuck"))
        .map(|slice| slice["args"]["id"].as_str().unwrap())
        .collect();
    assert_eq!(stuck, ["0/0/1", "1/0/1", "2/0/1"]);
}
