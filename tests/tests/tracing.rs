//! What `hccl` tells `tracing`: each operation has a span with its name and its numbers, and a long wait is a warning.
//!
//! One layer hears all tests of this program; each has a communicator with a name of its own.

use std::fmt::Debug;
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

use hccl::Backend;
use hccl::prelude::*;
use tracing::field::{Field, Visit};
use tracing::{Event, Id, Level, Metadata, Subscriber, span};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// What a span of `hccl` says.
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
    /// Fields that are none of these.
    others: Vec<String>,
    /// How often it was entered, once it is closed.
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

/// The text of an event.
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

static CLOSED: Mutex<Vec<Span>> = Mutex::new(Vec::new());
static EVENTS: Mutex<Vec<(Level, String)>> = Mutex::new(Vec::new());

/// Keeps the spans of `hccl` when they are closed, and its events.
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
            EVENTS.lock().unwrap_or_else(PoisonError::into_inner).push((level, message.0));
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

/// The texts of a level's events, in order.
fn events(level: Level) -> Vec<String> {
    let all = EVENTS.lock().unwrap_or_else(PoisonError::into_inner);
    all.iter().filter(|(of, _)| *of == level).map(|(_, text)| text.clone()).collect()
}

/// The spans of one rank, in order.
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
            drop(comm.all_to_all_v(&send, &parts, &mut recv, &parts, &stream)?);
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
            // Two messages of 24 bytes, and none.
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
            // The second message in this direction, after that of the batch.
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
    let told = || {
        let warnings = events(Level::WARN);
        warnings.iter().filter(|text| text.contains("synchronize blocks a thread")).count()
    };
    // Nobody is awaited.
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
    for phrase in ["barrier #2", "communicator late", "rank 0"] {
        assert!(warning.contains(phrase), "`{phrase}` is missing in: {warning}");
    }
}
