//! The spans and events that `hccl` sends to `tracing`: each operation has a span with its name and
//! its numbers, and a long wait is a warning.
//!
//! One layer receives those of all tests of this program, so each test has a communicator with a
//! name of its own.

use std::fmt::Debug;
use std::sync::{Mutex, Once, PoisonError};
use std::task::Waker;
use std::thread::ThreadId;
use std::time::Duration;

use futures::FutureExt;
use hccl::Backend;
use hccl::prelude::*;
use tracing::field::{Field, Visit};
use tracing::{Event, Id, Level, Metadata, Subscriber, span};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// The fields of a span of `hccl`.
#[derive(Clone, Debug, Default, PartialEq)]
struct Span {
    name: String,
    level: String,
    operation: String,
    communicator: String,
    rank: u64,
    sequence: u64,
    count: u64,
    bytes: u64,
    /// Other fields of the span.
    others: Vec<String>,
    /// The number of times that the span was entered, known once it is closed.
    entered: u64,
}

impl Span {
    fn new(metadata: &Metadata<'_>) -> Span {
        let (name, level) = (metadata.name().into(), metadata.level().to_string());
        Span { name, level, ..Span::default() }
    }
}

impl Visit for Span {
    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "rank" => self.rank = value,
            "sequence" => self.sequence = value,
            "count" => self.count = value,
            "bytes" => self.bytes = value,
            other => self.others.push(other.into()),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.record_u64(field, u64::try_from(value).expect("nothing is negative"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "operation" => self.operation = value.into(),
            "communicator" => self.communicator = value.into(),
            other => self.others.push(other.into()),
        }
    }

    fn record_debug(&mut self, field: &Field, _: &dyn Debug) {
        self.others.push(field.name().into());
    }
}

/// A visitor that takes the text of an event.
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

static CLOSED: Mutex<Vec<Span>> = Mutex::new(Vec::new());
static EVENTS: Mutex<Vec<(ThreadId, Level, String)>> = Mutex::new(Vec::new());

/// A layer that keeps the spans of `hccl` when they are closed, and its events.
struct Listener;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Listener {
    fn on_new_span(&self, attributes: &span::Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if attributes.metadata().target() == "hccl" {
            let mut said = Span::new(attributes.metadata());
            attributes.record(&mut said);
            context.span(id).expect("it is new").extensions_mut().insert(said);
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let span = context.span(id).expect("it is open");
        if let Some(said) = span.extensions_mut().get_mut::<Span>() {
            said.entered += 1;
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let span = context.span(&id).expect("it is being closed");
        if let Some(said) = span.extensions_mut().remove::<Span>() {
            CLOSED.lock().unwrap_or_else(PoisonError::into_inner).push(said);
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let (level, target) = (*event.metadata().level(), event.metadata().target());
        if target.starts_with("hccl") {
            let mut message = Message(String::new());
            event.record(&mut message);
            let said = (std::thread::current().id(), level, message.0);
            EVENTS.lock().unwrap_or_else(PoisonError::into_inner).push(said);
        }
    }
}

fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let subscriber = tracing_subscriber::registry().with(Listener);
        tracing::subscriber::set_global_default(subscriber).expect("nobody else sets one");
    });
}

/// Returns the texts of a level's events, in order.
fn events(level: Level) -> Vec<String> {
    let all = EVENTS.lock().unwrap_or_else(PoisonError::into_inner);
    all.iter().filter(|(_, of, _)| *of == level).map(|(.., text)| text.clone()).collect()
}

/// Returns the number of warnings that a call blocks this thread.
fn warned(call: &str) -> usize {
    let (here, said) = (std::thread::current().id(), format!("{call}: this wait "));
    let all = EVENTS.lock().unwrap_or_else(PoisonError::into_inner);
    all.iter().filter(|(thread, _, text)| *thread == here && text.starts_with(&said)).count()
}

/// Returns the spans of one rank, in order.
fn spans_of(communicator: &str, rank: u64) -> Vec<Span> {
    let all = CLOSED.lock().unwrap_or_else(PoisonError::into_inner);
    all.iter().filter(|it| it.communicator == communicator && it.rank == rank).cloned().collect()
}

fn expected(
    communicator: &str,
    rank: u64,
    (operation, sequence, count, bytes): (&str, u64, u64, u64),
) -> Span {
    Span {
        name: format!("hccl.{operation}"),
        level: "DEBUG".into(),
        operation: operation.into(),
        communicator: communicator.into(),
        rank,
        sequence,
        count,
        bytes,
        others: Vec::new(),
        entered: 1,
    }
}

#[test]
fn every_operation_has_a_span_with_its_fields() {
    listen();
    let runtime = Runtime::emulator(2).unwrap();
    runtime
        .run_ranks(2, |rank| -> hccl::Result<()> {
            let stream = rank.device().stream()?;
            let mut comm = rank.communicator_with(CommConfig::builder().name("all").build())?;
            let peer = 1 - comm.rank();
            let send = rank.device().zeros::<f32>(6, &stream)?;
            let mut recv = rank.device().zeros::<f32>(6, &stream)?;
            let mut bytes = rank.device().zeros::<i8>(5, &stream)?;
            let mut doubles = rank.device().zeros::<f64>(4, &stream)?;
            comm.all_reduce(&send, &mut recv, Sum, &stream)?.wait()?;
            comm.all_reduce_in_place(&mut bytes, Max, &stream)?.wait()?;
            comm.broadcast(&mut doubles, 1, &stream)?.wait()?;
            comm.barrier(&stream)?.wait()?;
            comm.batch().send(&send, peer).recv(&mut recv, peer).submit(&stream)?.wait()?;
            comm.batch().submit(&stream)?.wait()?;
            let (parts, matrix) = (Partition::even(6, 2), CountMatrix::new(2, vec![3; 4])?);
            let root = comm.rank() == 1;
            drop(comm.reduce(&send, root.then_some(&mut recv), Sum, 1, &stream)?);
            drop(comm.reduce_scatter(&send, recv.slice_mut(..3)?, Sum, &stream)?);
            drop(comm.reduce_scatter_v(&send, recv.slice_mut(..3)?, Sum, &parts, &stream)?);
            drop(comm.all_gather(send.slice(..3)?, &mut recv, &stream)?);
            drop(comm.all_gather_v(send.slice(..3)?, &mut recv, &parts, &stream)?);
            drop(comm.scatter(root.then_some(&send), recv.slice_mut(..3)?, 1, &stream)?);
            drop(comm.all_to_all(&send, &mut recv, &stream)?);
            drop(comm.all_to_all_v(&send, &mut recv, &parts, &parts, &stream)?);
            drop(comm.all_to_all_vc(&send, &mut recv, &matrix, &stream)?);
            if root {
                comm.send(&send, 0, &stream)?.wait()
            } else {
                comm.recv(&mut recv, 1, &stream)?.wait()
            }
        })
        .unwrap();
    for rank in [0, 1] {
        let operations = [
            ("all_reduce", 1, 6, 24),
            ("all_reduce", 2, 5, 5),
            ("broadcast", 3, 4, 32),
            ("barrier", 4, 0, 0),
            // The first batch has two messages of 24 bytes, and the second one has none.
            ("batch", 1, 2, 48),
            ("batch", 2, 0, 0),
            ("reduce", 5, 6, 24),
            ("reduce_scatter", 6, 3, 12),
            ("reduce_scatter_v", 7, 3, 12),
            ("all_gather", 8, 3, 12),
            ("all_gather_v", 9, 3, 12),
            ("scatter", 10, 3, 12),
            ("all_to_all", 11, 6, 24),
            ("all_to_all_v", 12, 6, 24),
            ("all_to_all_vc", 13, 6, 24),
            // This is the second message in this direction, after that of the batch.
            (if rank == 1 { "send" } else { "recv" }, 2, 6, 24),
        ];
        assert_eq!(spans_of("all", rank), operations.map(|it| expected("all", rank, it)));
    }
}

#[test]
fn a_refused_operation_has_a_span_and_takes_no_number() {
    listen();
    let runtime = Runtime::emulator(1).unwrap();
    runtime
        .run_ranks(1, |rank| -> hccl::Result<()> {
            let stream = rank.device().stream()?;
            let mut comm = rank.communicator_with(CommConfig::builder().name("refused").build())?;
            let mut x = rank.device().zeros::<u16>(3, &stream)?;
            comm.broadcast(&mut x, 7, &stream).unwrap_err();
            comm.broadcast(&mut x, 0, &stream)?.wait()
        })
        .unwrap();
    let twice = [("broadcast", 1, 3, 6); 2];
    assert_eq!(spans_of("refused", 0), twice.map(|it| expected("refused", 0, it)));
}

#[test]
fn a_call_that_blocks_a_thread_with_tasks_is_a_warning_once() {
    listen();
    let runtime = Runtime::emulator(2).unwrap();
    let devices = [runtime.device(0).unwrap(), runtime.device(1).unwrap()];
    let mut comms = Communicator::init_all(&devices).wait().unwrap();
    let streams = devices.map(|device| device.stream().unwrap());
    let limit = Duration::from_millis(1);
    let told = || warned("synchronize");
    // This wait is not in a task, so there is no warning.
    let first = comms[0].barrier(&streams[0]).unwrap();
    streams[0].synchronize_timeout(limit).unwrap_err();
    assert_eq!(told(), 0);
    let works = futures::executor::block_on(async {
        let blocking = async {
            for _ in 0..2 {
                streams[0].synchronize_timeout(limit).unwrap_err();
            }
            drop(comms[1].barrier(&streams[1]).unwrap());
        };
        futures::join!(first, blocking)
    });
    works.0.unwrap();
    assert_eq!(told(), 1);
    streams[1].synchronize().unwrap();
    assert_eq!(told(), 1);
}

#[test]
fn each_call_that_blocks_says_so_on_a_thread_with_tasks() {
    listen();
    let limit = Duration::from_millis(1);
    // The limit is for the rank that never comes.
    let builder = Runtime::emulator_builder().devices(2).connect_timeout(Duration::from_secs(10));
    let runtime = builder.build().unwrap();
    let devices = [runtime.device(0).unwrap(), runtime.device(1).unwrap()];
    let mut comms = Communicator::init_all(&devices).wait().unwrap();
    let streams = devices.clone().map(|device| device.stream().unwrap());
    type Call<'a> = &'a (dyn Fn(&Work, &Device) + Sync);
    let calls: [(&str, Call); 4] = [
        ("barrier", &|work, _| drop(work.wait_timeout(limit).unwrap_err())),
        ("synchronize", &|_, _| drop(streams[0].synchronize_timeout(limit).unwrap_err())),
        ("Pending::wait", &|_, device| {
            // The peer of this rank never joins.
            let root = RootInfo::new(device).unwrap();
            let builder = Communicator::builder().device(device).rank(0).world_size(2);
            drop(builder.root_info(&root).build().wait_timeout(limit).unwrap_err());
        }),
        ("group", &|_, device| {
            let mut comms = Communicator::init_all(std::slice::from_ref(device)).wait().unwrap();
            let stream = device.stream().unwrap();
            let mut x = device.upload(&[1], &stream).unwrap();
            let issued = hccl::group(|group| {
                group.on(&mut comms[0], &stream).all_reduce_in_place(&mut x, Sum);
                Ok(())
            });
            issued.unwrap().wait().unwrap();
        }),
    ];
    for (name, call) in calls {
        let works = [0, 0].map(|_| comms[0].barrier(&streams[0]).unwrap());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let [mut awaited, watched] = works;
                let mut context = std::task::Context::from_waker(Waker::noop());
                assert!(awaited.poll_unpin(&mut context).is_pending());
                for _ in 0..2 {
                    call(&watched, &devices[0]);
                    assert_eq!(warned(name), 1, "{name}");
                }
            });
        });
    }
    // Otherwise the barriers would wait for the other rank until the limit.
    comms[0].abort().unwrap();
}

/// Lets the wait of the first rank last for its whole limit, because the second rank never calls
/// the operation.
#[test]
fn a_wait_that_lasts_inside_the_poll_of_a_task_says_so() {
    listen();
    let runtime = Runtime::emulator(2).unwrap();
    let devices = [runtime.device(0).unwrap(), runtime.device(1).unwrap()];
    let mut comms = Communicator::init_all(&devices).wait().unwrap();
    let stream = devices[0].stream().unwrap();
    let work = std::sync::Arc::new(comms[0].barrier(&stream).unwrap());
    let wait = move || drop(work.wait_timeout(Duration::from_millis(1300)).unwrap_err());
    let workers = |name| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(1).thread_name(name).build().unwrap()
    };
    let on_its_own = |name: &str, wait: &(dyn Fn() + Sync)| {
        std::thread::scope(|scope| {
            let builder = std::thread::Builder::new().name(name.into());
            builder.spawn_scoped(scope, wait).unwrap().join().unwrap();
        });
    };
    let told = || {
        let warnings = events(Level::WARN).into_iter();
        let of_barrier = warnings.filter(|text| text.starts_with("barrier: this wait has"));
        let thread = |text: String| Some(text.split_once('(')?.1.split_once(')')?.0.to_owned());
        let ours = |name: &String| name.starts_with("told ") || name.starts_with("quiet ");
        of_barrier.filter_map(thread).filter(ours).collect::<Vec<_>>()
    };
    // One stack is inspected at a time. So these inspections are over when the last warning has
    // come.
    on_its_own("quiet thread", &wait);
    let may_block = wait.clone();
    workers("quiet worker")
        .block_on(async { tokio::task::spawn_blocking(may_block).await })
        .unwrap();
    on_its_own("quiet smol", &|| smol::block_on(smol::unblock(wait.clone())));
    // A wait during which another stack is inspected causes no warning, so the wait is repeated.
    let until_told = move |name: &str| {
        let began = std::time::Instant::now();
        while !told().iter().any(|told| told == name) {
            assert!(began.elapsed() < Duration::from_secs(300), "{name} was not told");
            wait();
        }
    };
    let in_a_task = until_told.clone();
    workers("told worker")
        .block_on(async { tokio::spawn(async move { in_a_task("told worker") }).await })
        .unwrap();
    on_its_own("told executor", &|| {
        futures::executor::block_on(async { until_told("told executor") });
    });
    on_its_own("told smol", &|| smol::block_on(async { until_told("told smol") }));
    on_its_own("told local", &|| {
        let executor = smol::LocalExecutor::new();
        smol::block_on(executor.run(executor.spawn(async { until_told("told local") })));
    });
    assert_eq!(told(), ["told worker", "told executor", "told smol", "told local"]);
}

#[test]
fn an_error_of_making_links_is_told_once() {
    listen();
    let builder = Runtime::emulator_builder().devices(2).memory(64 << 20);
    let runtime = builder.connect_timeout(Duration::from_secs(2)).build().unwrap();
    let devices = [0, 1].map(|index| runtime.device(index).unwrap());
    let root = RootInfo::new(&devices[0]).unwrap();
    let making = [0, 1].map(|rank| {
        let config = CommConfig::builder().name("links told once").buffer_mib(1).build();
        let builder = Communicator::builder().runtime(&runtime).rank(rank).world_size(2);
        builder.root_info(&root).config(config).build()
    });
    let mut comms = making.map(|making| making.wait().unwrap());
    for _ in 0..3 {
        comms[0].connect().wait().unwrap_err();
        comms[0].connect_to(&[1]).wait().unwrap_err();
    }
    // All dropped values have been processed when the runtime is gone.
    drop((comms, devices, runtime));
    let again = events(Level::WARN);
    let again: Vec<_> = again.iter().filter(|text| text.contains("links told once")).collect();
    assert!(again.is_empty(), "{again:?}");
}

#[test]
fn auto_says_which_backend_it_took() {
    listen();
    let backend = match Runtime::auto().unwrap().backend() {
        Backend::Emulator => "backend: the emulator, since CANN is not installed",
        _ => "backend: CANN",
    };
    let told = events(Level::INFO);
    assert!(told.iter().any(|text| text.starts_with(backend)), "{backend}: {told:?}");
}

#[test]
#[ignore = "waits for more than ten seconds"]
fn a_long_wait_is_a_warning_that_says_what_is_waited_for() {
    listen();
    let runtime = Runtime::emulator(2).unwrap();
    runtime
        .run_ranks(2, |rank| -> hccl::Result<()> {
            let stream = rank.device().stream()?;
            let mut comm = rank.communicator_with(CommConfig::builder().name("late").build())?;
            comm.barrier(&stream)?.wait()?;
            if rank.index() == 1 {
                std::thread::sleep(Duration::from_secs(11));
            }
            comm.barrier(&stream)?.wait()
        })
        .unwrap();
    let warnings = events(Level::WARN);
    let warnings: Vec<_> = warnings.iter().filter(|text| text.contains("has waited")).collect();
    let [warning] = &warnings[..] else { panic!("one warning, not {warnings:?}") };
    for phrase in ["barrier #2", "on `late` (rank 0 of 2)", "waiting for rank 1"] {
        assert!(warning.contains(phrase), "`{phrase}` is missing in: {warning}");
    }
}

/// Copies as many elements as the first element of `x` says. The checker cannot read this number.
#[hccl::kernel::kernel(mix = "aiv_only")]
fn as_many_as_x_says(
    k: hccl::kernel::Kernel,
    x: hccl::kernel::Input<u32>,
    y: hccl::kernel::Output<u32>,
) {
    let a = k.scratch::<u32>(64).get();
    let count = x.get(0);
    k.copy_in(&a, x, count);
    k.wait_for(hccl::kernel::Pipe::Out, hccl::kernel::Pipe::In);
    k.copy_out(y, &a, count);
}

#[test]
fn what_is_not_checked_of_a_kernel_is_told_once() -> hccl::Result<()> {
    listen();
    let runtime = Runtime::emulator(1)?;
    let device = runtime.device(0)?;
    let stream = device.stream()?;
    let x = device.upload(&[8_u32; 64], &stream)?;
    let mut y = device.zeros::<u32>(64, &stream)?;
    let mut kernel = as_many_as_x_says::record()?.load(&device)?;
    for _ in 0..3 {
        let work = kernel.launch(1).input(&x).output(&mut y).submit(&stream)?;
        assert!(!work.notes().is_empty());
        work.wait()?;
    }
    let told = events(Level::WARN);
    let told: Vec<_> = told.iter().filter(|text| text.starts_with("note[data]: ")).collect();
    // There is one warning for each copy.
    assert_eq!(told.len(), 2, "{told:#?}");
    Ok(())
}
