//! Timelines of ranks in several processes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use hccl::kernel::{Recording, Timeline};
use serde_json::Value;

use crate::algorithms::hand_over;
use crate::kernels::exchange;
use crate::ranks::{Place, run};

/// The numbers of ranks in each process: one process for each rank, processes mixed with threads,
/// or threads only.
const MIXES: [&[u32]; 4] = [&[1, 1], &[1, 1, 1], &[2, 1], &[3]];

/// Returns the recording of this process.
fn recording(place: &Place) -> &'static Recording {
    static RECORDING: OnceLock<Recording> = OnceLock::new();
    RECORDING.get_or_init(|| place.device.runtime().record_timeline().unwrap())
}

/// Launches one kernel twice, and runs one operator between the first rank and the last one.
/// Returns the timeline, and the number of processes.
fn record(place: &Place) -> (Timeline, usize) {
    let mut comm = place.communicator();
    let stream = place.device.stream().unwrap();
    let recording = recording(place);
    // After this barrier all processes record.
    comm.barrier(&stream).unwrap().wait().unwrap();
    exchange(place, &mut comm, 64).unwrap();
    let send = hand_over(0, place.ranks - 1);
    if place.rank == 0 {
        let x = place.device.upload(&[7_f32; 100], &stream).unwrap();
        comm.run(&send).input(&x).submit(&stream).unwrap().wait().unwrap();
    } else if place.rank == place.ranks - 1 {
        let mut y = place.device.zeros::<f32>(100, &stream).unwrap();
        comm.run(&send).output(&mut y).submit(&stream).unwrap().wait().unwrap();
    }
    let all = recording.gather(&mut comm, &stream).unwrap();
    // All ranks have the same timeline.
    let text = all.to_text().into_bytes();
    let mut of_first = place.device.upload(&text, &stream).unwrap();
    comm.broadcast(&mut of_first, 0, &stream).unwrap().wait().unwrap();
    assert!(of_first.to_vec(&stream).wait().unwrap() == text);
    let own = place.device.upload(&[std::process::id()], &stream).unwrap();
    let numbers = place.device.alloc::<u32>(place.ranks as usize).unwrap();
    let (numbers, _) = comm.all_gather(&own, numbers, &stream).unwrap();
    let numbers: BTreeSet<u32> = numbers.to_vec(&stream).wait().unwrap().into_iter().collect();
    (all, numbers.len())
}

/// Returns the events of a trace, and the names of its groups of rows by their numbers.
fn events(timeline: &Timeline) -> (Vec<Value>, BTreeMap<u64, String>) {
    let trace: Value = serde_json::from_str(&timeline.trace()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap().clone();
    let named = events.iter().filter(|event| event["name"] == "process_name");
    let name = |event: &Value| event["args"]["name"].as_str().unwrap().to_owned();
    let groups = named.map(|event| (event["pid"].as_u64().unwrap(), name(event))).collect();
    (events, groups)
}

#[test]
fn a_gathered_timeline_has_what_all_ranks_did_in_whatever_process() {
    for each in MIXES {
        const NAME: &str =
            "timelines::a_gathered_timeline_has_what_all_ranks_did_in_whatever_process";
        run(NAME, each, |place| {
            let (timeline, processes) = record(&place);
            let (events, groups) = events(&timeline);
            let of = |event: &Value| groups[&event["pid"].as_u64().unwrap()].clone();
            let ranks: Vec<String> = (0..place.ranks).map(|rank| format!("rank {rank}")).collect();
            let devices: BTreeSet<&String> =
                groups.values().filter(|name| *name != "links").collect();
            assert_eq!(devices, ranks.iter().collect());

            // Each rank has two launches of eight blocks each.
            for rank in &ranks {
                let blocks = events.iter().filter(|event| {
                    let name = event["name"].as_str().unwrap_or_default();
                    event["ph"] == "X" && name.starts_with("block ") && of(event) == *rank
                });
                assert_eq!(blocks.count(), 16, "{rank}");
            }

            // The ranks arrive at a turn at different times, but the end of the wait is the same
            // for all of them.
            let mut met: BTreeMap<String, Vec<f64>> = BTreeMap::new();
            let waits = events.iter().filter(|event| event["name"] == "waits for the other ranks");
            for wait in waits {
                let end = wait["ts"].as_f64().unwrap() + wait["dur"].as_f64().unwrap();
                met.entry(of(wait)).or_default().push(end);
            }
            assert_eq!(met.len(), ranks.len());
            let first = &met[&ranks[0]];
            assert!(!first.is_empty());
            for rank in &ranks {
                assert_eq!(met[rank].len(), first.len(), "{rank}");
                for (one, other) in met[rank].iter().zip(first) {
                    assert!((one - other).abs() < 0.001, "{one} and {other}");
                }
            }

            // Each pair of ranks has a link.
            let links = events
                .iter()
                .filter(|event| event["name"] == "thread_name" && of(event) == "links");
            assert_eq!(links.count() as u32, place.ranks * (place.ranks - 1));

            // "ready" and "left": one to the last rank, one back.
            let ends = |phase: &str| -> Vec<String> {
                let ends = events.iter().filter(|event| event["ph"] == phase);
                let mut ends: Vec<_> = ends.map(of).collect();
                ends.sort();
                ends
            };
            let both = vec![ranks[0].clone(), ranks[ranks.len() - 1].clone()];
            assert_eq!((ends("s"), ends("f")), (both.clone(), both));

            let said = format!("in {processes} processes");
            assert_eq!(timeline.svg().contains(&said), processes > 1, "{said}");
        });
    }
}
