//! The order of operations on different streams: only the memory that they touch determines it.

use super::*;

#[test]
fn a_buffer_changes_hands_between_streams() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let streams = [device.stream().unwrap(), device.stream().unwrap()];
        let mut x = device.upload(&[0_i32; 100], &streams[0]).unwrap();
        for round in 1..5 {
            let (writer, reader) = (&streams[round % 2], &streams[(round + 1) % 2]);
            let value = round as i32;
            // Nothing is in flight, so the writer becomes the regular stream of the buffer.
            streams.iter().for_each(|stream| stream.synchronize().unwrap());
            x.upload(&[-1; 100], writer).unwrap();
            let gate = Gate::on(writer);
            x.upload(&[-2; 100], writer).unwrap();
            x.upload(&[value; 100], writer).unwrap();
            let download = x.to_vec(reader);
            assert!(!download.is_done());
            x.upload(&[-3; 100], writer).unwrap();
            let opener = gate.open_later();
            assert_eq!(download.wait().unwrap(), [value; 100]);
            opener.join().unwrap();
        }
    });
}

#[test]
fn an_operation_waits_for_conflicting_work_of_another_stream() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let (writer, reader) = (device.stream().unwrap(), device.stream().unwrap());
        let mut x = device.upload(&[1_i32; 100], &writer).unwrap();
        let gate = Gate::on(&writer);
        x.upload(&[2; 100], &writer).unwrap();
        let download = x.to_vec(&reader);
        assert!(!download.is_done());
        // A later write does not overtake the read either.
        x.upload(&[3; 100], &writer).unwrap();
        let opener = gate.open_later();
        assert_eq!(download.wait().unwrap(), [2; 100]);
        assert_eq!(x.to_vec(&reader).wait().unwrap(), [3; 100]);
        opener.join().unwrap();
    });
}

#[test]
fn a_write_waits_for_a_read_of_another_stream() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let (reader, writer) = (device.stream().unwrap(), device.stream().unwrap());
        let mut x = device.upload(&[1_i32; 100], &reader).unwrap();
        reader.synchronize().unwrap();
        let gate = Gate::on(&reader);
        let download = x.to_vec(&reader);
        let overwritten = x.upload(&[2; 100], &writer).unwrap();
        assert!(!overwritten.is_done());
        gate.open();
        assert_eq!(download.wait().unwrap(), [1; 100]);
        assert_eq!(x.to_vec(&writer).wait().unwrap(), [2; 100]);
    });
}

#[test]
fn disjoint_slices_do_not_wait_for_one_another() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let (busy, free) = (device.stream().unwrap(), device.stream().unwrap());
        let mut x = device.zeros::<i32>(8, &free).unwrap();
        free.synchronize().unwrap();
        let gate = Gate::on(&busy);
        let (mut left, mut right) = x.split_at_mut(4).unwrap();
        let slow = left.upload(&[1; 4], &busy).unwrap();
        let quick = right.upload(&[2; 4], &free).unwrap();
        quick.wait_timeout(LONG / 2).unwrap();
        assert!(!slow.is_done());
        gate.open();
        slow.wait().unwrap();
        assert_eq!(x.to_vec(&free).wait().unwrap(), [1, 1, 1, 1, 2, 2, 2, 2]);
    });
}

/// The list of stamps is merged when it is full. A wait for a merged stamp still waits for all of
/// its operations.
#[test]
fn more_pieces_than_stamps() {
    const PIECES: usize = 40;
    const EARLY: usize = 8;
    const LENGTH: usize = 256;
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let (writer, reader) = (device.stream().unwrap(), device.stream().unwrap());
        let free = device.memory_info().unwrap().free;
        let mut x = device.zeros::<i32>(PIECES * LENGTH, &reader).unwrap();
        reader.synchronize().unwrap();
        let write = |x: &mut DeviceBuffer<i32>, piece: usize| {
            let mut part = x.slice_mut(piece * LENGTH..(piece + 1) * LENGTH).unwrap();
            part.upload(&[piece as i32 + 1; LENGTH], &writer).unwrap()
        };

        // Nothing is complete before the last piece is stamped, so stamps disappear only when they
        // are merged.
        let first_gate = Gate::on(&writer);
        let early: Vec<_> = (0..EARLY).map(|piece| write(&mut x, piece)).collect();
        let second_gate = Gate::on(&writer);
        let late: Vec<_> = (EARLY..PIECES).map(|piece| write(&mut x, piece)).collect();
        first_gate.open();
        for work in early {
            work.wait().unwrap();
        }
        // The first of the late pieces is merged with early ones, which are complete.
        let piece = x.slice(EARLY * LENGTH..(EARLY + 1) * LENGTH).unwrap().to_vec(&reader);
        let download = x.to_vec(&reader);
        assert!(!piece.is_done() && !download.is_done());
        drop((x, late));
        assert!(device.memory_info().unwrap().free < free, "freed in flight");
        second_gate.open();
        assert_eq!(piece.wait().unwrap(), [EARLY as i32 + 1; LENGTH]);
        let expected: Vec<i32> = (0..PIECES * LENGTH).map(|i| (i / LENGTH) as i32 + 1).collect();
        assert_eq!(download.wait().unwrap(), expected);
        eventually("the memory comes back", || device.memory_info().unwrap().free == free);
    });
}

#[test]
fn a_stream_waits_for_work_and_events() {
    on_both(2, |runtime| {
        let device = runtime.device(0).unwrap();
        let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
        let order = Arc::new(Mutex::new(Vec::new()));
        let note = |what: &'static str| {
            let order = order.clone();
            move || order.lock().unwrap().push(what)
        };
        let gate = Gate::on(&first);
        let work = first.host_fn(note("first")).unwrap();
        second.wait_for(&work).unwrap();
        second.host_fn(note("second")).unwrap();
        first.wait_event(&second.record().unwrap()).unwrap();
        first.host_fn(note("third")).unwrap();
        let elsewhere = runtime.device(1).unwrap().stream().unwrap();
        assert!(matches!(elsewhere.wait_for(&work).unwrap_err(), Error::WrongDevice { .. }));
        gate.open();
        first.synchronize().unwrap();
        assert_eq!(*order.lock().unwrap(), ["first", "second", "third"]);
        let start = first.record_timed().unwrap();
        first.host_fn(|| std::thread::sleep(SOON)).unwrap();
        let end = first.record_timed().unwrap();
        assert!(start.elapsed_until(&end).unwrap() >= SOON / 2);
    });
}

/// The two operations have only their communicator in common. The emulator would keep their order
/// anyway, so the test checks the calls to the backend.
#[test]
fn an_operation_of_a_communicator_waits_for_one_on_another_stream() {
    use std::ffi::{c_int, c_void};
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    static WAITS: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn wait(stream: *mut c_void, event: *mut c_void) -> c_int {
        WAITS.fetch_add(1, SeqCst);
        let real = ascend_emulator::table().aclrtStreamWaitEvent.unwrap();
        // SAFETY: the caller's arguments are passed on.
        unsafe { real(stream, event) }
    }
    let mut table = ascend_emulator::table();
    table.aclrtStreamWaitEvent = Some(wait);
    let runtime = own(1, table);
    let device = runtime.device(0).unwrap();
    let (busy, other) = (device.stream().unwrap(), device.stream().unwrap());
    let mut comm = Communicator::init_all(std::slice::from_ref(&device)).wait().unwrap().remove(0);
    let mut x = device.upload(&[1_i32; 4], &busy).unwrap();
    let mut y = device.upload(&[2_i32; 4], &other).unwrap();
    let gate = Gate::on(&busy);
    let first = comm.all_reduce_in_place(&mut x, crate::dtype::Sum, &busy).unwrap();
    assert_eq!(WAITS.load(SeqCst), 0);
    let second = comm.all_reduce_in_place(&mut y, crate::dtype::Sum, &other).unwrap();
    assert_eq!(WAITS.load(SeqCst), 1);
    assert!(!first.is_done() && !second.is_done());
    gate.open();
    second.wait().unwrap();
    assert!(first.is_done());
}

#[test]
fn marks_are_used_again() {
    on_both(2, |runtime| {
        let spare = runtime.run_ranks(2, |rank| -> Result<usize> {
            let device = rank.device();
            let [stream, reader] = [device.stream()?, device.stream()?];
            let mut x = device.zeros::<i32>(1, &stream)?;
            let mut y = device.zeros::<i32>(1, &stream)?;
            for round in 0..60 {
                let mut comm = rank.communicator()?;
                stream.host_fn(|| std::thread::sleep(Duration::from_millis(2)))?;
                y.upload(&[round], &stream)?;
                let contact = comm.all_reduce_in_place(&mut x, dtype::Sum, &stream)?;
                assert_eq!(y.to_vec(&reader).wait()?, [round]);
                contact.wait()?;
            }
            // The events that the streams still have are recycled.
            drop([stream, reader]);
            device.reap();
            Ok(device.state().spare_events())
        });
        let spare = spare.unwrap();
        assert!(spare.iter().all(|count| *count <= 30), "{spare:?}");
    });
}

#[test]
fn marks_that_nobody_asks_for_are_used_again() {
    for records in [true, false] {
        on_both(1, |runtime| {
            let device = runtime.device(0).unwrap();
            let stream = device.stream().unwrap();
            let mut x = device.zeros::<i32>(1, &stream).unwrap();
            let mut last = None;
            for _ in 0..1000 {
                // A mark is recorded after an operation whose `Work` is alive.
                last = Some(x.fill_zero(&stream).unwrap()).filter(|_| !records);
                if records {
                    stream.record().unwrap();
                }
            }
            drop(last);
            stream.synchronize().unwrap();
            drop(stream);
            device.reap();
            let spare = device.state().spare_events();
            assert!(spare <= 500, "{spare}");
        });
    }
}

#[test]
fn pinned_memory_is_ordered_between_devices() {
    on_both(2, |runtime| {
        let [one, two] = [0, 1].map(|index| runtime.device(index).unwrap());
        let (first, second) = (one.stream().unwrap(), two.stream().unwrap());
        let x = one.upload(&[7; 100], &first).unwrap();
        let mut y = two.zeros::<i32>(100, &second).unwrap();
        let mut host = runtime.host_buffer::<i32>(100).unwrap();
        first.synchronize().unwrap();
        let gate = Gate::on(&first);
        x.copy_to(&mut host, &first).unwrap();
        let opener = gate.open_later();
        // Events do not work across devices, so the call waits.
        y.copy_from_host(&host, &second).unwrap();
        opener.join().unwrap();
        assert_eq!(y.to_vec(&second).wait().unwrap(), [7; 100]);
    });
}
