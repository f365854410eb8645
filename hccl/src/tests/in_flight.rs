//! Objects that are dropped, forgotten or cancelled while the device uses them.

use super::*;

#[test]
fn drop_in_flight() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
        let n = 1 << 20;
        let mut kept = device.zeros::<u8>(n, &stream).unwrap();
        stream.synchronize().unwrap();
        let free = device.memory_info().unwrap().free;

        let gate = Gate::on(&stream);
        let dropped = device.upload(&vec![7_u8; n], &stream).unwrap();
        drop(kept.copy_from(&dropped, &stream).unwrap());
        drop(dropped);
        // The memory is not allocated again before the copy has run.
        for _ in 0..4 {
            drop(device.upload(&vec![9_u8; n], &other).unwrap());
            other.synchronize().unwrap();
        }
        assert!(device.memory_info().unwrap().free <= free - n, "freed in flight");
        gate.open();
        assert!(kept.to_vec(&stream).wait().unwrap().iter().all(|&byte| byte == 7));
        eventually("the memory comes back", || device.memory_info().unwrap().free == free);
    });
}

#[test]
fn dropping_everything_in_flight_gives_the_devices_back() {
    on_both(1, |runtime| {
        let watch = {
            let runtime = own(1, *runtime.table().functions());
            let device = runtime.device(0).unwrap();
            let stream = device.stream().unwrap();
            let gate = Gate::on(&stream);
            let x = device.upload(&[1, 2, 3], &stream).unwrap();
            let download = x.to_vec(&stream);
            let watch = runtime.downgrade();
            drop((runtime, x, device, download, stream));
            assert!(watch.upgrade().is_some(), "gone in flight");
            gate.open();
            watch
        };
        eventually("the runtime goes", || watch.upgrade().is_none());
    });
}

#[test]
fn forget_in_flight() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let x = device.upload(&[1_i64, 2, 3, 4], &stream).unwrap();
        let mut host = runtime.host_buffer::<i64>(4).unwrap();
        let gate = Gate::on(&stream);
        std::mem::forget(x.copy_to(&mut host, &stream).unwrap());
        std::mem::forget(x.to_vec(&stream));
        std::mem::forget(x);
        let opener = gate.open_later();
        // This waits for the copy.
        assert_eq!(host.as_slice().unwrap(), [1, 2, 3, 4]);
        opener.join().unwrap();
        // Before the host writes, it also waits for operations that read.
        let mut y = device.zeros::<i64>(4, &stream).unwrap();
        let opener = Gate::on(&stream).open_later();
        std::mem::forget(y.copy_from_host(&host, &stream).unwrap());
        host.as_mut_slice().unwrap().fill(9);
        assert_eq!(y.to_vec(&stream).wait().unwrap(), [1, 2, 3, 4]);
        opener.join().unwrap();
    });
}

#[test]
fn panic_between_issue_and_wait() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let n = 1 << 16;
        stream.synchronize().unwrap();
        let free = device.memory_info().unwrap().free;
        let gate = Gate::on(&stream);
        let mut sink = device.zeros::<u8>(n, &stream).unwrap();
        let panic = catch_unwind(AssertUnwindSafe(|| {
            let source = device.upload(&vec![5_u8; n], &stream).unwrap();
            let _work = sink.copy_from(&source, &stream).unwrap();
            panic!("between issue and wait");
        }));
        assert!(panic.is_err());
        let now = device.memory_info().unwrap().free;
        assert!(now <= free - 2 * n, "freed in flight: {now} of {free} are free");
        gate.open();
        assert!(sink.to_vec(&stream).wait().unwrap().iter().all(|&byte| byte == 5));
        drop(sink);
        eventually("the memory comes back", || device.memory_info().unwrap().free == free);
    });
}

#[test]
fn cancel_a_download() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
        let x = device.upload(&[1_u32; 64], &stream).unwrap();
        let y = device.upload(&[2_u32; 64], &other).unwrap();
        stream.synchronize().unwrap();
        let gate = Gate::on(&stream);
        {
            let mut download = pin!(x.to_vec(&stream));
            let mut cx = Context::from_waker(Waker::noop());
            assert!(download.as_mut().poll(&mut cx).is_pending());
        }
        // The block of the cancelled download is not used again before the device has written it.
        let second = y.to_vec(&other).wait_timeout(LONG / 2);
        assert_eq!(second.unwrap(), [2_u32; 64]);
        gate.open();
        stream.synchronize().unwrap();
        assert_eq!(block_on(x.to_vec(&stream)).unwrap(), [1_u32; 64]);
    });
}

#[test]
fn out_of_memory_waits_for_what_was_dropped() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let most = 40 << 20;
        let gate = Gate::on(&stream);
        let big = device.zeros::<u8>(most, &stream).unwrap();
        assert!(matches!(
            device.alloc::<u8>(1 << 40).unwrap_err(),
            Error::OutOfMemory { requested, total, .. } if requested == 1 << 40 && total == 64 << 20
        ));
        drop(big);
        let opener = gate.open_later();
        device.alloc::<u8>(most).unwrap();
        opener.join().unwrap();
    });
}
