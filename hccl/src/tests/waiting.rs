//! Tests of waits, and of the events that end them, that need access to the inside of the crate. An
//! alarm wakes all tasks of the process. So each of these tests may wake the tasks of other tests,
//! which does no harm.

use super::*;
use std::sync::atomic::{AtomicBool, Ordering};
use tracing::field::{Field, Visit};
use tracing::span;

/// A subscriber that keeps the texts of warnings.
#[derive(Clone, Default)]
pub(super) struct Warnings(pub(super) Arc<Mutex<Vec<String>>>);

impl Visit for Warnings {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.0.lock().unwrap().push(format!("{value:?}"));
        }
    }
}

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }
    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut self.clone());
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// In tests the warning comes after a shorter time than in programs.
#[test]
fn a_long_wait_says_once_what_it_waits_for() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let mut x = device.zeros::<u8>(4, &stream).unwrap();
        let gate = Gate::on(&stream);
        let (one, two) = (x.fill_zero(&stream).unwrap(), x.fill_zero(&stream).unwrap());
        let warnings = Warnings::default();
        let said = warnings.clone();
        let opener = std::thread::spawn(move || {
            eventually("a warning", || !said.0.lock().unwrap().is_empty());
            // Long enough for a second warning, which must not come.
            std::thread::sleep(3 * crate::order::patience::WARN_AFTER);
            drop(gate);
        });
        tracing::subscriber::with_default(warnings.clone(), || {
            block_on(one).unwrap();
            two.wait().unwrap();
        });
        opener.join().unwrap();
        let warnings = warnings.0.lock().unwrap();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        let said = &warnings[0];
        assert!(said.contains("fill_zero has waited") && said.contains("#3"), "{said}");
    });
}

/// Making a communicator takes until all ranks have joined. Meanwhile operations of other
/// communicators are issued.
#[test]
fn operations_do_not_stand_in_line_behind_a_communicator_that_is_made() {
    let runtime = runtime_with(2);
    let devices = [runtime.device(0).unwrap(), runtime.device(1).unwrap()];
    let root = crate::comm::RootInfo::new(&devices[0]).unwrap();
    let build = |rank: u32| {
        let device = &devices[rank as usize];
        Communicator::builder()
            .device(device)
            .rank(rank)
            .world_size(2)
            .root_info(&root)
            .build()
            .wait()
    };
    std::thread::scope(|scope| {
        let first = scope.spawn(|| build(0));
        // The first rank waits for the second inside the call. If each operation waited half a
        // second for that call, the ten thousand operations would take too long.
        eventually("building", || !devices[0].making().is_idle());
        let stream = devices[0].stream().unwrap();
        let mut single = alone(&devices[0]);
        let issued = std::iter::repeat_with(|| single.barrier(&stream).map(drop)).take(10_000);
        issued.collect::<Result<()>>().unwrap();
        build(1).unwrap();
        first.join().unwrap().unwrap();
    });
}

#[test]
fn a_long_wait_for_a_communicator_says_so_once() {
    let runtime = runtime_with(2);
    let device = runtime.device(0).unwrap();
    let root = crate::comm::RootInfo::new(&device).unwrap();
    let build = |rank: u32| {
        let builder = Communicator::builder().runtime(&runtime).rank(rank).world_size(2);
        builder.root_info(&root).build()
    };
    let warnings = Warnings::default();
    let limit = 3 * crate::order::patience::WARN_AFTER;
    let pending = tracing::subscriber::with_default(warnings.clone(), || {
        build(0).wait_timeout(limit).unwrap_err()
    });
    let warnings = warnings.0.lock().unwrap();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let said = "Communicator::builder has waited";
    assert!(warnings[0].contains(said) && warnings[0].contains("await the result"), "{warnings:?}");
    let _comms = [build(1), pending].map(|pending| pending.wait().unwrap());
}

/// Returns a device with a stream of its own.
fn one_device() -> (Device, Stream) {
    let device = runtime_with(1).device(0).unwrap();
    let stream = device.stream().unwrap();
    (device, stream)
}

/// Returns a communicator of one device alone.
fn alone(device: &Device) -> Communicator {
    Communicator::init_all(std::slice::from_ref(device)).wait().unwrap().remove(0)
}

/// A slot may go from a stream of one device to a stream of another device. First operations wait
/// for their peers inside the call. If they waited for each other's calls too, the two hundred
/// waits of half a second would take too long.
#[test]
fn a_stream_that_goes_gives_the_issue_order_back() {
    let runtime = runtime_with(3);
    for _ in 0..200 {
        let run = runtime.run_ranks(3, |rank| -> Result<()> {
            let mut comm = rank.communicator()?;
            let stream = rank.device().stream()?;
            comm.barrier(&stream)?.wait()
        });
        run.unwrap();
    }
}

/// The lock of the issue order of a device is the issue lock of one of its streams, and a group
/// holds the locks of several streams. If the group waited for itself, the thousand waits of half a
/// second would take too long.
#[test]
fn a_group_does_not_stand_in_line_behind_itself() {
    let runtime = runtime_with(1);
    let device = runtime.device(0).unwrap();
    let streams = [device.stream().unwrap(), device.stream().unwrap()];
    let mut comms = [alone(&device), alone(&device)];
    let mut sums = streams.each_ref().map(|stream| device.upload(&[1_i32], stream).unwrap());
    for round in 0..1000 {
        // After this operation the stream owns the issue order.
        let at = round % 2;
        drop(comms[at].barrier(&streams[at]).unwrap());
        let group = crate::group(|group| {
            for ((comm, stream), sum) in comms.iter_mut().zip(&streams).zip(&mut sums) {
                group.on(comm, stream).all_reduce_in_place(sum, crate::dtype::Sum);
            }
            Ok(())
        });
        group.unwrap().wait().unwrap();
    }
}

/// The program is correct: the thread that will issue the missing operation has not used a device
/// yet.
#[test]
fn a_thread_that_comes_late_is_no_deadlock() {
    let runtime = runtime_with(2);
    let result = runtime.run_ranks(2, |rank| {
        let stream = rank.device().stream()?;
        let (mut x, mut y) = (rank.communicator()?, rank.communicator()?);
        x.barrier(&stream)?.wait()?;
        y.barrier(&stream)?.wait()?;
        if rank.index() == 0 {
            x.barrier(&stream)?.wait()?;
            y.barrier(&stream)?.wait()
        } else {
            std::thread::scope(|scope| {
                let device = rank.device().clone();
                let other = scope.spawn(move || {
                    // The thread is busy with something else, for example with reading its data.
                    std::thread::sleep(Duration::from_millis(1500));
                    let stream = device.stream()?;
                    x.barrier(&stream)?.wait()
                });
                let mine = y.barrier(&stream)?.wait();
                let other = other.join().unwrap();
                mine.and(other)
            })
        }
    });
    result.unwrap();
}

/// The issue lock is held for a moment when the alarm wakes the task.
#[test]
fn an_abort_reaches_a_task_whose_stream_is_just_issuing() {
    let (device, stream) = one_device();
    let mut comm = alone(&device);
    let abort = comm.abort_handle();
    comm.barrier(&stream).unwrap().wait().unwrap();
    let gate = Gate::on(&stream);
    let work = comm.barrier(&stream).unwrap();
    let (send, receive) = std::sync::mpsc::channel();
    let task = std::thread::spawn(move || send.send(block_on(work)).unwrap());
    std::thread::sleep(3 * crate::order::patience::WARN_AFTER);
    let issuing = stream.slot().try_issuing().unwrap();
    abort.abort().unwrap();
    std::thread::sleep(Duration::from_millis(400));
    drop(issuing);
    let heard = receive.recv_timeout(Duration::from_secs(10));
    drop(gate);
    task.join().unwrap();
    assert!(matches!(heard, Ok(Err(Error::Aborted { .. }))), "{heard:?}");
}

/// No operation of the aborted communicator is on the stream, because the operation was refused.
#[test]
fn a_refused_operation_does_not_end_waits_for_others() {
    let (device, stream) = one_device();
    let mut comm = alone(&device);
    let mut x = device.zeros::<u8>(4, &stream).unwrap();
    comm.abort_handle().abort().unwrap();
    let gate = Gate::on(&stream);
    assert!(comm.barrier(&stream).is_err());
    let work = x.fill_zero(&stream).unwrap();
    let opener = gate.open_later();
    let outcome = work.wait();
    opener.join().unwrap();
    outcome.unwrap();
}

#[test]
fn the_texts_of_long_waits_do_not_turn_up_in_later_errors() {
    let (device, stream) = one_device();
    let gate = Gate::on(&stream);
    let mut x = device.zeros::<u8>(4, &stream).unwrap();
    let opener = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(450));
        drop(gate);
    });
    x.fill_zero(&stream).unwrap().wait().unwrap();
    opener.join().unwrap();
    let root = crate::comm::RootInfo::new(&device).unwrap();
    let build = |name: &str| {
        let config = CommConfig::builder().name(name).build();
        let builder = Communicator::builder().device(&device).rank(0).world_size(1);
        builder.root_info(&root).config(config).build().wait()
    };
    let _one = build("same").unwrap();
    let error = build("same").unwrap_err();
    assert!(!error.to_string().contains("not complete yet"), "{error}");
}

/// A thread that sleeps for a millisecond again and again. It measures the largest time by which it
/// woke too late, which is the delay of threads on this machine.
struct Delay {
    is_over: Arc<AtomicBool>,
    largest: std::thread::JoinHandle<Duration>,
}

impl Delay {
    fn measure() -> Delay {
        let is_over = Arc::<AtomicBool>::default();
        let ends = is_over.clone();
        let largest = std::thread::spawn(move || {
            let (sleep, mut largest) = (Duration::from_millis(1), Duration::ZERO);
            while !ends.load(Ordering::Relaxed) {
                let began = Instant::now();
                std::thread::sleep(sleep);
                largest = largest.max(began.elapsed().saturating_sub(sleep));
            }
            largest
        });
        Delay { is_over, largest }
    }

    fn largest(self) -> Duration {
        self.is_over.store(true, Ordering::Relaxed);
        self.largest.join().unwrap()
    }
}

/// The task registers and the reactor's thread is started. Before that thread runs, an alarm is
/// raised.
#[test]
fn an_alarm_while_the_reactor_starts_is_heard() {
    struct Bell(std::sync::mpsc::Sender<()>);
    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            let _ = self.0.send(());
        }
    }
    let mut times = Vec::new();
    for _ in 0..8 {
        let (device, stream) = one_device();
        let mut comm = alone(&device);
        let abort = comm.abort_handle();
        comm.barrier(&stream).unwrap().wait().unwrap();
        let gate = Gate::on(&stream);
        let mut work = pin!(comm.barrier(&stream).unwrap());
        // Started before the poll, because no time must pass between the poll and the alarm.
        let delay = Delay::measure();
        let (send, receive) = std::sync::mpsc::channel();
        let waker = Waker::from(Arc::new(Bell(send)));
        assert!(work.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        abort.abort().unwrap();
        let since = Instant::now();
        receive.recv_timeout(LONG).unwrap();
        times.push((since.elapsed(), delay.largest()));
        drop(gate);
    }
    let late = crate::order::patience::WARN_AFTER - Duration::from_millis(20);
    // Up to three delays add up, because three threads run one after the other: the thread of the
    // reactor, that of the alarm, and this one.
    let in_time = |(time, delay): &(Duration, Duration)| *time < late + 3 * *delay;
    assert!(times.iter().all(in_time), "{times:?}");
}
