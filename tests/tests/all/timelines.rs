//! Timelines of launches through the safe API. The emulator's own tests cover their contents.

use hccl::dtype::ReduceKind;
use hccl::kernel::tiling::{CmdType, DataType, Mc2CcTilingConfig, Mc2InitTilingConfig};
use hccl::kernel::{Tiling, Timeline};
use hccl::prelude::*;
use hccl_examples::kernels::reduce_scatter::{ReduceScatterTiling, reduce_scatter_custom};
use hccl_tests::{runtime_with, without_extensions};

const RANKS: u32 = 2;

fn runtime() -> Runtime {
    runtime_with(RANKS as usize)
}

/// Launches 3 blocks once on each rank.
fn launch(runtime: &Runtime) {
    let kernel = reduce_scatter_custom::record().unwrap();
    let run = runtime.run_ranks(RANKS, |rank| {
        let device = rank.device();
        let stream = device.stream()?;
        let mut comm = rank.communicator()?;
        let mut tiling = ReduceScatterTiling { recv_count: 8, ..Tiling::zeroed() };
        let member = Mc2CcTilingConfig::builder()
            .group_name(comm.name())
            .op_type(CmdType::ReduceScatter)
            .reduce_op(ReduceKind::Sum)
            .source_type(DataType::F16)
            .build();
        Mc2InitTilingConfig::builder().product(Product::A3).build().fill(&mut tiling, &[member])?;
        let x = device.upload(&[f16::from_f32(1.0); 16], &stream)?;
        let mut y = device.zeros::<f16>(8, &stream)?;
        let mut loaded = kernel.load(device)?;
        let launch = loaded.launch(3).tiling(&tiling).group(&mut comm);
        launch.input(&x).output(&mut y).submit(&stream)?.wait()
    });
    run.unwrap();
}

/// Returns the numbers of blocks, turns and transfers in a trace.
fn counts(timeline: &Timeline) -> [usize; 3] {
    let trace: serde_json::Value = serde_json::from_str(&timeline.trace()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let links = events.iter().find(|event| event["args"]["name"] == "links");
    let links = links.map(|event| event["pid"].clone());
    let count = |wanted: &dyn Fn(&serde_json::Value) -> bool| {
        events.iter().filter(|event| event["ph"] == "X" && wanted(event)).count()
    };
    [
        count(&|event| event["name"].as_str().unwrap().starts_with("block ")),
        count(&|event| event["args"]["prepared"].is_string()),
        count(&|event| Some(&event["pid"]) == links.as_ref()),
    ]
}

#[test]
fn a_recording_has_the_launches_that_were_made_while_it_went_on() {
    let runtime = runtime();
    launch(&runtime);
    let recording = runtime.record_timeline().unwrap();
    launch(&runtime);
    launch(&runtime);
    let timeline = recording.finish().unwrap();
    launch(&runtime);
    assert_eq!(counts(&timeline), [12, 4, 4]);
    let svg = timeline.svg();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    for row in ["rank 1", "AIV 2", "server", "0 → 1"] {
        assert!(svg.contains(&format!(">{row}</text>")), "{row} is not in: {svg}");
    }

    let recording = runtime.record_timeline().unwrap();
    launch(&runtime);
    assert_eq!(counts(&recording.finish().unwrap()), [6, 2, 2]);
    let nothing = runtime.record_timeline().unwrap().finish().unwrap();
    assert_eq!(counts(&nothing), [0, 0, 0]);
    assert!(nothing.svg().contains("no kernel"));
}

#[test]
fn there_is_one_recording_at_a_time() {
    let (runtime, other) = (runtime(), runtime());
    let recording = runtime.record_timeline().unwrap();
    let refused = runtime.record_timeline().unwrap_err().to_string();
    assert!(refused.contains("already records"), "{refused}");
    let beside = other.record_timeline().unwrap();
    launch(&runtime);
    assert_eq!(counts(&beside.finish().unwrap()), [0, 0, 0]);
    // Dropping the recording ends it.
    drop(recording);
    let recording = runtime.record_timeline().unwrap();
    launch(&runtime);
    assert_eq!(counts(&recording.finish().unwrap()), [6, 2, 2]);
    // A forgotten recording continues for as long as the runtime exists.
    std::mem::forget(runtime.record_timeline().unwrap());
    assert!(runtime.record_timeline().is_err());
}

#[test]
fn a_backend_without_the_entries_says_so() {
    let refused = without_extensions().record_timeline().unwrap_err();
    assert!(
        matches!(refused, hccl::Error::MissingSymbol { function: "ascendExtTimeline", .. }),
        "{refused}"
    );
}
