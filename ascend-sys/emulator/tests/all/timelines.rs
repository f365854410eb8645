//! Tests of the timelines of kernels: they contain every step of a launch once and in its place,
//! and without a request nothing is recorded.

use ascend_emulator_testing::alone;
use ascend_emulator_testing::common::*;
use ascend_emulator_testing::kernel::*;
use ascend_emulator_testing::kernel::{self, build::Builder};
use ascend_emulator_testing::ranks;
use ascend_emulator_testing::{call, fails, hccl, ok};
use ascend_program::layout::Number;
use ascend_program::step::*;
use ascend_program::{Core, Mix};
use ascend_sys::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ptr::null_mut;

const SVG: AscendExtTimelineForm = AscendExtTimelineForm::ASCEND_EXT_TIMELINE_SVG;
const TRACE: AscendExtTimelineForm = AscendExtTimelineForm::ASCEND_EXT_TIMELINE_TRACE;

fn told(block: u32, form: AscendExtTimelineForm) -> String {
    let mut length = 0;
    ok!(ascendExtTimeline(block, form, null_mut(), 0, &mut length));
    let mut text = vec![0_u8; length + 1];
    ok!(ascendExtTimeline(block, form, text.as_mut_ptr().cast(), text.len(), &mut length));
    assert_eq!(text.pop(), Some(0));
    String::from_utf8(text).unwrap()
}

/// Records a timeline of a block while `run` executes.
fn record(block: &Block, run: impl FnOnce()) -> Trace {
    ok!(ascendExtTimelineRecord(block.number, 1));
    run();
    ok!(ascendExtTimelineRecord(block.number, 0));
    well_formed(&told(block.number, SVG));
    Trace::read(&told(block.number, TRACE))
}

/// The events of a trace by process and row, in nanoseconds.
#[derive(Debug)]
struct Trace(BTreeMap<(String, String), Row>);

#[derive(Debug, Default)]
struct Row {
    spans: Vec<Span>,
    marks: Vec<(u64, String)>,
}

#[derive(Debug)]
struct Span {
    name: String,
    from: u64,
    to: u64,
    depth: usize,
    says: Value,
}

fn nanoseconds(value: &Value) -> u64 {
    (value.as_f64().unwrap() * 1e3).round() as u64
}

impl Trace {
    /// Reads a trace. Every row must have a name of its own. The spans of a row must follow one
    /// another, or be nested inside one another.
    fn read(text: &str) -> Trace {
        let file: Value = serde_json::from_str(text).unwrap();
        let events = file["traceEvents"].as_array().unwrap();
        let (mut processes, mut threads) = (BTreeMap::new(), BTreeMap::new());
        for event in events.iter().filter(|event| event["ph"] == "M") {
            let name = event["args"]["name"].as_str().unwrap_or_default().to_owned();
            let (process, thread) = (event["pid"].as_u64(), event["tid"].as_u64());
            match event["name"].as_str().unwrap() {
                "process_name" => assert!(processes.insert(process, name).is_none()),
                "thread_name" => assert!(threads.insert((process, thread), name).is_none()),
                _ => {}
            }
        }
        let mut rows: BTreeMap<(String, String), Row> = BTreeMap::new();
        for (place, name) in &threads {
            let new = rows.insert((processes[&place.0].clone(), name.clone()), Row::default());
            assert!(new.is_none(), "two rows are called {name}");
        }
        let mut open: BTreeMap<_, Vec<(u64, u64)>> = BTreeMap::new();
        for event in events.iter().filter(|event| event["ph"] != "M") {
            let place = (event["pid"].as_u64(), event["tid"].as_u64());
            let row = (processes[&place.0].clone(), threads[&place].clone());
            let row = rows.get_mut(&row).unwrap();
            let (name, from) =
                (event["name"].as_str().unwrap().to_owned(), nanoseconds(&event["ts"]));
            if event["ph"] == "i" {
                row.marks.push((from, name));
                continue;
            }
            let to = from + nanoseconds(&event["dur"]);
            let outer: &mut Vec<(u64, u64)> = open.entry(place).or_default();
            // A span must begin after the span that is written before it, or be nested inside that
            // span.
            let inside = |&(start, end): &(u64, u64)| start <= from && to <= end && start < end;
            while outer.last().is_some_and(|last| !inside(last)) {
                let (_, end) = outer.pop().unwrap();
                assert!(end <= from, "{name} at {from} begins before {end}");
            }
            row.spans.push(Span {
                name,
                from,
                to,
                depth: outer.len(),
                says: event["args"].clone(),
            });
            outer.push((from, to));
        }
        Trace(rows)
    }

    fn row(&self, process: &str, name: &str) -> &Row {
        let key = (process.to_owned(), name.to_owned());
        self.0.get(&key).unwrap_or_else(|| panic!("no row {key:?} in {:?}", self.0.keys()))
    }

    fn rows(&self, process: &str) -> Vec<&str> {
        self.0.keys().filter(|(of, _)| of == process).map(|(_, name)| name.as_str()).collect()
    }
}

impl Row {
    fn names(&self, depth: usize) -> Vec<&str> {
        let wanted = self.spans.iter().filter(|span| span.depth == depth);
        wanted.map(|span| span.name.as_str()).collect()
    }
}

/// Checks that every element of a picture is closed in order, and that every text is escaped.
fn well_formed(svg: &str) {
    let mut open = Vec::new();
    for piece in svg.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').unwrap();
        assert!(!text.contains('>'), "{text}");
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        for entity in text.split('&').skip(1) {
            let name = entity.split(';').next().unwrap();
            assert!(["amp", "lt", "gt", "quot"].contains(&name), "{text}");
        }
        let name = tag.trim_matches('/').split(' ').next().unwrap();
        match (tag.starts_with('/'), tag.ends_with('/')) {
            (true, _) => assert_eq!(open.pop(), Some(name)),
            (false, false) => open.push(name),
            (false, true) => {}
        }
    }
    assert!(open.is_empty() && svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
}

/// Returns a kernel with two tasks: the first has two turns, which are committed one by one, and
/// the second has one turn.
fn reduce_scatters() -> ascend_program::Program {
    let calls = [
        Call { commit: false, ..Call::new(REDUCE_SCATTER, 0, 128, 300, 2) },
        Call::new(REDUCE_SCATTER, 256, 44, 300, 1),
    ];
    kernel::kernel(&calls, Number::F16, 3)
}

#[test]
fn every_block_turn_and_transfer_is_there_once() {
    let (ranks, blocks) = (4, 8);
    let together = Together::new(ranks, &reduce_scatters(), &[REDUCE_SCATTER], 2400);
    let trace = record(&together.block, || together.run_all(blocks));
    let turns = ["task0 1 of 2", "task0 2 of 2", "task1 1 of 1"];
    for rank in (0..ranks).map(|rank| format!("rank {rank}")) {
        let mut expected: Vec<String> = (0..blocks).map(|n| format!("AIV {n}")).collect();
        expected.extend(["kernel".to_owned(), "server".to_owned()]);
        assert_eq!(trace.rows(&rank), expected);
        let kernel = trace.row(&rank, "kernel");
        assert_eq!(kernel.names(0), ["kernel"]);
        assert_eq!(kernel.spans[0].says["blocks"], blocks);
        let launch = &kernel.spans[0];
        for n in 0..blocks {
            let core = trace.row(&rank, &format!("AIV {n}"));
            assert_eq!(core.names(0), [format!("block {n}")]);
            let block = &core.spans[0];
            assert!(launch.from <= block.from && block.to <= launch.to);
            // The core runs and waits in turn, without a gap in between.
            let parts: Vec<&Span> = core.spans.iter().filter(|span| span.depth == 1).collect();
            assert_eq!((parts[0].from, parts[parts.len() - 1].to), (block.from, block.to));
            assert!(parts.windows(2).all(|two| two[0].to == two[1].from), "{parts:?}");
            let runs = parts.iter().map(|part| part.name == "runs");
            assert!(runs.enumerate().all(|(at, runs)| runs == (at % 2 == 0)), "{parts:?}");
            let mut waits: Vec<&str> = core.names(1);
            waits.retain(|name| *name != "runs");
            let mut expected: Vec<_> = turns.iter().map(|turn| format!("waits: {turn}")).collect();
            expected.push("waits: SyncAll".into());
            expected.extend((n == 0).then(|| "waits: Finalize".into()));
            assert_eq!(waits, expected);
            for run in parts.iter().filter(|part| part.name == "runs") {
                let interpreted = nanoseconds(&run.says["interpreted_us"]);
                assert!(interpreted <= run.to - run.from, "{run:?}");
                assert!(run.says["to"].as_str().unwrap().starts_with("src/kernel.rs:"));
            }
            assert_eq!(parts[0].says["from"], "the start");
            // Core 0 writes the messages.
            let told = ["prepare task0 0 of 2", "prepare task1 1 of 1"];
            let told = told.into_iter().chain(["commit task0 1 of 2", "commit task0 2 of 2"]);
            let told: Vec<&str> = told.filter(|_| n == 0).collect();
            let marks: Vec<&str> = core.marks.iter().map(|(_, name)| name.as_str()).collect();
            assert_eq!(marks, told);
        }
        let server = trace.row(&rank, "server");
        assert_eq!(server.names(0), turns);
        assert_eq!(server.names(1), ["waits for the other ranks", "moves"].repeat(3));
        let bytes: Vec<_> = server.spans.iter().filter(|span| span.depth == 0).collect();
        let bytes: Vec<u64> =
            bytes.iter().map(|span| span.says["bytes"].as_u64().unwrap()).collect();
        assert_eq!(bytes, [3 * 256, 3 * 256, 3 * 88]);
    }
    assert_eq!(trace.rows("links").len(), 12);
    for (from, to) in (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to))) {
        if from == to {
            continue;
        }
        let link = trace.row("links", &format!("{from} → {to}"));
        assert_eq!(link.names(0), turns);
        let bytes: Vec<_> = link.spans.iter().map(|span| span.says["bytes"].clone()).collect();
        assert_eq!(bytes, [256, 256, 88]);
        // The link carries the data in the span that the receiving server records, and by then all
        // ranks have begun the turn.
        let server = trace.row(&format!("rank {to}"), "server");
        let moves = server.spans.iter().filter(|span| span.name == "moves");
        for (carried, moved) in link.spans.iter().zip(moves) {
            assert_eq!((carried.from, carried.to), (moved.from, moved.to));
            for rank in 0..ranks {
                let others = trace.row(&format!("rank {rank}"), "server");
                let came = others.spans.iter().find(|span| span.name == carried.name).unwrap();
                assert!(came.from <= carried.from);
            }
        }
    }
    together.end();
}

#[test]
fn nothing_is_recorded_when_nobody_asks() {
    let together = Together::new(2, &reduce_scatters(), &[REDUCE_SCATTER], 2400);
    let number = together.block.number;
    let mut length = 0;
    let code = ACL_ERROR_INVALID_PARAM;
    fails!(
        code,
        ["has recorded nothing"],
        ascendExtTimeline(number, SVG, null_mut(), 0, &mut length)
    );
    fails!(code, ["does not record"], ascendExtTimelineRecord(number, 0));
    fails!(code, ["on is 2"], ascendExtTimelineRecord(number, 2));
    together.run_all(2);
    let launches = |trace: &Trace| trace.row("rank 0", "kernel").spans.len();
    let trace = record(&together.block, || {
        fails!(code, ["already records"], ascendExtTimelineRecord(number, 1));
        fails!(code, ["still records"], ascendExtTimeline(number, SVG, null_mut(), 0, &mut length));
        together.run_all(2);
        together.run_all(2);
    });
    assert_eq!(launches(&trace), 2);
    assert_eq!(trace.row("links", "0 → 1").spans.len(), 6);
    // The form for other processes contains the whole timeline.
    let form = AscendExtTimelineForm::ASCEND_EXT_TIMELINE_RECORD;
    let all = ascend_timeline::Records::from_text(&told(number, form)).unwrap();
    assert_eq!((ascend_timeline::trace(&all), all.processes()), (told(number, TRACE), 1));
    // The timeline stays the same until the next recording.
    let before = told(number, TRACE);
    together.run_all(2);
    assert_eq!(told(number, TRACE), before);
    let other = Together::new(2, &reduce_scatters(), &[REDUCE_SCATTER], 2400);
    let trace = record(&together.block, || other.run_all(2));
    assert!(trace.0.is_empty(), "it contains the launches of another block");
    let odd = AscendExtTimelineForm(7);
    fails!(code, ["form is 7"], ascendExtTimeline(number, odd, null_mut(), 0, &mut length));
    let (block, none) = (together.block.number, ACL_ERROR_RT_PARAM_INVALID);
    other.end();
    together.end();
    fails!(none, ["there is no block"], ascendExtTimelineRecord(block, 1));
    fails!(code, ["recorded nothing"], ascendExtTimeline(block, SVG, null_mut(), 0, &mut length));
}

/// Checks that blocks take turns on the same cores if there are more than can run at a time.
#[test]
fn blocks_that_run_later_have_the_rows_of_those_before() {
    let mut b = Builder::new(Mix::AivOnly);
    b.program.groups = 0;
    let y = b.output("y", Number::U64);
    let (place, value) = (b.at(y, 0), b.n(7));
    b.on_block(129, |b| {
        b.step(Step::Copy(Copy::Set { to: place, value }));
        b.step(Step::Copy(Copy::Clean(place)));
    });
    let program = b.done();
    let block = Block::one();
    let (stream, binary, memory) = (stream(), load(&program), malloc(8));
    let given = [memory, null_mut(), null_mut()].map(Given::Pointer);
    let run = || {
        launch(function(binary, &program.name), 130, &given, stream);
        ok!(aclrtSynchronizeStream(stream));
    };
    let trace = record(&block, run);
    assert_eq!(trace.rows("device 0").len(), 65);
    let names = |seat: u32| trace.row("device 0", &format!("AIV {seat}")).names(0);
    assert_eq!(names(0), ["block 0", "block 64", "block 128"]);
    assert_eq!(names(63), ["block 63", "block 127"]);
    let svg = told(block.number, SVG);
    assert!(svg.contains("and 40 more cores") && svg.contains(">AIV 23<"), "{svg}");
}

/// Checks that a failed launch is in the timeline up to the point where it failed, and that the
/// picture shows the failure.
#[test]
fn a_launch_that_fails_is_there_too() {
    let mut b = Builder::new(Mix::AivOnly);
    b.program.groups = 0;
    let y = b.output("y", Number::U64);
    // The address is read from memory, so the checker cannot find the mistake in advance.
    let (start, at, value) = (b.at(y, 0), b.variable("at", Number::U64), b.n(7));
    b.step(Step::Read(at, Read::Global(start)));
    let place = Place { base: y, offset: b.get(at) };
    b.step(Step::Copy(Copy::Set { to: place, value }));
    let mut program = b.done();
    program.files = vec!["a<b>&\"c\".rs".into()];
    let block = Block::one();
    let (stream, binary, memory) = (stream(), load(&program), malloc(8));
    write(memory, &(1_u64 << 40).to_le_bytes());
    let given = [memory, null_mut(), null_mut()].map(Given::Pointer);
    let trace = record(&block, || {
        launch(function(binary, &program.name), 1, &given, stream);
        assert_ne!(call!(aclrtSynchronizeStream(stream)), 0);
    });
    let launch = &trace.row("device 0", "kernel").spans[0];
    assert!(launch.says["failure"].as_str().unwrap().starts_with("kernel: "), "{launch:?}");
    let core = trace.row("device 0", "AIV 0");
    assert_eq!(core.names(1), ["runs"]);
    assert!(core.spans[1].says["to"].as_str().unwrap().starts_with("a<b>&\"c\".rs:"));
    let svg = told(block.number, SVG);
    assert!(svg.contains("failure: kernel: ") && svg.contains(">device 0: kernel: "), "{svg}");
}

/// Checks that products are nested inside the part of the core's run that computes them, and have
/// their sizes.
#[test]
fn products_are_parts_of_what_a_core_runs() {
    let mut b = Builder::new(Mix::MixAic12);
    b.program.groups = 0;
    let (a, w) = (b.input("a", Number::F32), b.input("w", Number::F32));
    let y = b.output("y", Number::F32);
    let product = b.matmul("product", Number::F32, None, 64);
    b.program.tiling = Some(build::tiling_layout(0));
    let [rows, columns, depth] = [4, 6, 8].map(|n| b.n(n));
    let [a, w, y] = [a, w, y].map(|base| b.at(base, 0));
    let pitches = [depth, columns, columns];
    b.on(Core::Aic, |b| {
        for _ in 0..2 {
            b.step(Step::Matmul(Multiply {
                matmul: product,
                a,
                b: w,
                c: y,
                bias: None,
                rows,
                columns,
                depth,
                pitches,
            }));
        }
        b.sync(Sync::Raise { mode: Mode::Block, pipe: Pipe::Fix, flag: 8 });
    });
    b.on(Core::Aiv, |b| b.sync(Sync::Await { flag: 8 }));
    let (program, block) = (b.done(), Block::one());
    let (stream, binary) = (stream(), load(&program));
    let mut tiling = build::tiling(&[]);
    let cube = build::cube(Number::F32, None, [4, 6, 8], 1);
    tiling[64..264].copy_from_slice(&build::cube_bytes(&cube));
    let memory = [(); 3].map(|()| Given::Pointer(malloc(256)));
    let given: Vec<_> =
        memory.into_iter().chain([Given::Pointer(null_mut()), Given::Bytes(&tiling)]).collect();
    let trace = record(&block, || {
        launch(function(binary, &program.name), 1, &given, stream);
        ok!(aclrtSynchronizeStream(stream));
    });
    let cube = trace.row("device 0", "AIC 0");
    assert_eq!((cube.names(0), cube.names(1)), (vec!["block 0"], vec!["runs"]));
    assert_eq!(cube.names(2), ["product 4x6x8"; 2]);
    // Each of the two vector cores of the block has a row.
    for n in 0..2 {
        let vector = trace.row("device 0", &format!("AIV {n}"));
        assert_eq!(vector.names(0), ["block 0"]);
        assert_eq!(vector.names(1), ["runs", "waits: flag 8", "runs"]);
    }
}

/// Lets each rank make one-sided writes to the memory of the next rank.
#[test]
fn one_sided_writes_go_over_links() {
    const BATCH_WRITE: u32 = 18;
    let mut b = Builder::new(Mix::MixAiv10);
    let (items, y) = (b.input("items", Number::U8), b.output("y", Number::U8));
    b.on(Core::Aiv, |b| {
        let client = b.ready(&[BATCH_WRITE]);
        let task = b.task("write", client);
        let (items, count, queue) = (b.at(items, 0), b.n(3), b.n(0));
        b.prepare(task, Operation::BatchWrite { items, count, queue }, 1, true);
        b.wait(task);
        b.sync_vectors();
        b.finalize(client);
        let _ = y;
    });
    let together = Together::new(3, &b.done(), &[BATCH_WRITE], 4096);
    for (rank, _, [items, _]) in &together.ranks {
        let next = &together.ranks[(rank.rank as usize + 1) % 3].2[1];
        let own = items.wrapping_byte_add(1024);
        let item = |to: *mut std::ffi::c_void, bytes: u32| {
            let mut item = [0_u8; 64];
            item[28..32].copy_from_slice(&bytes.to_le_bytes());
            item[32..40].copy_from_slice(&(own as u64).to_le_bytes());
            item[40..48].copy_from_slice(&(to as u64).to_le_bytes());
            item
        };
        ok!(aclrtSetDevice(rank.device));
        let beside = items.wrapping_byte_add(2048);
        write(*items, &[item(*next, 64), item(*next, 100), item(beside, 8)].concat());
    }
    let trace = record(&together.block, || together.run_all(1));
    let links: Vec<&str> = trace.rows("links");
    assert_eq!(links, ["0 → 1 writes", "1 → 2 writes", "2 → 0 writes"]);
    for link in links {
        let spans = &trace.row("links", link).spans;
        assert_eq!(spans.len(), 1);
        assert_eq!(spans[0].says["bytes"], 164, "two of the items; the third one is local");
    }
    assert_eq!(trace.row("rank 1", "server").names(0), ["3 writes"]);
    together.end();
}

/// Makes launches on two streams of a device wait for the other rank at the same time.
#[test]
fn launches_beside_each_other_have_rows_of_their_own() {
    let block = Block::new(2);
    let mut comms = [[null_mut(); 2]; 2];
    let devices = [block.first, block.first + 1];
    for comms in &mut comms {
        hccl!(HcclCommInitAll(2, devices.as_ptr().cast_mut(), comms.as_mut_ptr()));
        kernel::link(&devices, comms, &[ALL_GATHER]);
    }
    let call = Call::new(ALL_GATHER, 0, 16, 16, 1);
    let program = kernel::kernel(&[call], Number::I32, 2);
    let trace = record(&block, || {
        let mut streams = Vec::new();
        // Both launches of rank 0 wait for rank 1.
        for (rank, device) in (0..).zip(devices) {
            ok!(aclrtSetDevice(device));
            for comms in &comms {
                let (info, comm) = (HcclRootInfo::default(), comms[rank as usize]);
                let rank = ranks::Rank { rank, ranks: 2, device, info, comm, stream: stream() };
                let ready = Ready::new(&rank, &program, &[ALL_GATHER]);
                let tensors = [rank.upload(&[0; 128]), rank.upload(&[0; 128])];
                ready.serve();
                ready.run(&rank, 1, &tensors);
                streams.push((device, rank.stream, ready.stream));
            }
        }
        for (device, one, other) in streams {
            ok!(aclrtSetDevice(device));
            ok!(aclrtSynchronizeStream(one));
            ok!(aclrtSynchronizeStream(other));
        }
    });
    let kernels: Vec<&str> =
        trace.rows("rank 0").into_iter().filter(|name| name.starts_with("kernel")).collect();
    assert_eq!(kernels, ["kernel", "kernel (2)"]);
    let servers = trace.rows("rank 0").into_iter().filter(|name| name.starts_with("server"));
    assert_eq!(servers.collect::<Vec<_>>(), ["server", "server (2)"]);
    assert_eq!(trace.rows("links"), ["0 → 1", "0 → 1 (2)", "1 → 0", "1 → 0 (2)"]);
}

/// Checks that the timeline of the environment variable is complete even if the program records a
/// timeline itself, and after the program has reset its devices. A child that the program forks
/// writes nothing.
#[test]
fn the_environment_gets_the_timeline_of_the_whole_process() {
    fn here() {}
    let name =
        |process: u32| std::env::temp_dir().join(format!("ascend-emulator-{process}-whole.json"));
    if let Some(output) = alone::run_alone(std::any::type_name_of_val(&here), true) {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("ASCEND_EMULATOR_TIMELINE"), "{said}");
        let file = name(std::process::id());
        let trace = Trace::read(&std::fs::read_to_string(&file).unwrap());
        std::fs::remove_file(&file).unwrap();
        assert_eq!(trace.row("rank 0", "kernel").names(0), ["kernel"; 4]);
        assert_eq!(trace.row("links", "0 → 1").spans.len(), 12);
        return;
    }
    let file = name(std::os::unix::process::parent_id());
    // SAFETY: this is the only test of this process, and nothing has read the environment yet.
    unsafe { std::env::set_var("ASCEND_EMULATOR_TIMELINE", &file) };
    let together = Together::new(2, &reduce_scatters(), &[REDUCE_SCATTER], 2400);
    together.run_all(2);
    let own = record(&together.block, || {
        together.run_all(2);
        together.run_all(2);
    });
    assert_eq!(own.row("rank 0", "kernel").names(0), ["kernel"; 2]);
    together.run_all(2);
    let own = told(together.block.number, TRACE);
    assert_eq!(Trace::read(&own).row("rank 0", "kernel").spans.len(), 2, "as it was");
    together.end();
    // SAFETY: the child ends at once with `exit`, as a program does.
    let child = unsafe { libc::fork() };
    if child == 0 {
        std::process::exit(0);
    }
    let mut status = -1;
    // SAFETY: `status` is a live local variable.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    // The address sanitizer checks for leaks when the child exits, and the child has no other
    // threads, so their memory counts as leaked.
    assert!(status == 0 || cfg!(sanitizer = "address"), "{status}");
    assert!(!file.exists());
}

#[test]
fn a_timeline_that_cannot_be_written_is_told_at_the_end() {
    fn here() {}
    if let Some(output) = alone::run_alone(std::any::type_name_of_val(&here), true) {
        let said = String::from_utf8_lossy(&output.stderr);
        let piece =
            "ASCEND_EMULATOR_TIMELINE=/there/is/none.svg: the timeline is not written: No such";
        assert!(said.contains(piece), "{said}");
        return;
    }
    // SAFETY: this is the only test of this process, and nothing has read the environment yet.
    unsafe { std::env::set_var("ASCEND_EMULATOR_TIMELINE", "/there/is/none.svg") };
    drop(Block::new(1));
}
