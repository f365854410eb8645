//! Registered memory that the other process imports.

use super::*;

#[test]
fn memory_of_another_process_is_imported_and_reached_over_a_channel() {
    const NAME: &str =
        "ipc::endpoints::memory::memory_of_another_process_is_imported_and_reached_over_a_channel";
    both(NAME, |side| {
        let (mine, theirs) = (side.me + 1, 2 - side.me);
        // Neither range begins or ends at a page.
        let window = at(upload(&[0; 9000]), 320);
        let host = at(malloc_host(9000), 64);
        // SAFETY: this is memory of this process.
        unsafe { host.cast::<u8>().write_bytes(mine, 5000) };
        let exports = [
            side.export(side.register("window", &on_device(window, 5000))),
            side.export(side.register("host", &on_host(host, 5000))),
        ];
        // The memory is imported before there is a channel, and after it.
        let other = exports.map(|export| side.carry.swap(&export));
        let there = side.import(&other[0]);
        let channel = side.connected(2);
        let there_on_host = side.import(&other[1]);
        assert_eq!((there.type_, there.size), (CommMemType::COMM_MEM_TYPE_DEVICE, 5000));
        assert_eq!((there_on_host.type_, there_on_host.size), (on_host(host, 0).type_, 5000));
        side.carry.meet();

        let thread = thread();
        let input = upload(&[mine; 64]);
        let output = upload(&[0; 192]);
        issue!(HcommWriteOnThread(thread, channel, at(there.addr, 4936), input, 64));
        issue!(HcommChannelNotifyRecordOnThread(thread, channel, 1));
        issue!(HcommChannelNotifyWaitOnThread(thread, channel, 1, LONG));
        issue!(HcommLocalCopyOnThread(thread, output, at(window, 4936), 64));
        // The written bytes are read back, and then the bytes on the other process's host.
        issue!(HcommReadOnThread(thread, channel, at(output, 64), at(there.addr, 4936), 64));
        let from = at(there_on_host.addr, 4936);
        issue!(HcommReadOnThread(thread, channel, at(output, 128), from, 64));
        finish();
        let expected = [[theirs; 64], [mine; 64], [theirs; 64]].concat();
        assert_eq!(common::read(output, 192), expected);
        // Nothing beyond the ends of the memory can be reached.
        let said = "has exchanged";
        for (memory, bytes) in [(there, 65), (there_on_host, 65)] {
            let from = at(memory.addr, 4936);
            not_issued!(
                HCCL_E_PARA,
                [said],
                HcommReadOnThread(thread, channel, output, from, bytes)
            );
        }
        side.carry.meet();
    });
}

#[test]
fn memory_that_is_taken_back_or_unregistered_is_out_of_reach() {
    const NAME: &str =
        "ipc::endpoints::memory::memory_that_is_taken_back_or_unregistered_is_out_of_reach";
    both(NAME, |side| {
        let memory: [_; 2] = std::array::from_fn(|_| upload(&[side.me; 8192]));
        let handles = [("first", memory[0]), ("second", memory[1])]
            .map(|(tag, memory)| side.register(tag, &on_device(memory, 8192)));
        let other = handles.map(|handle| {
            let own = side.export(handle);
            side.carry.swap(&own)
        });
        let [first, second] = [0, 1].map(|at| side.import(&other[at]));
        let channel = side.connected(1);
        let (thread, output) = (thread(), common::malloc(8192));
        let read =
            |from: &CommMem| call!(HcommReadOnThread(thread, channel, output, from.addr, 8192));
        assert_eq!((read(&first), read(&second)), (0, 0));
        finish();
        // The memory is imported twice, so it must be released twice.
        assert_eq!(side.import(&other[0]).addr, first.addr);
        let (from, length) = (other[0].as_ptr().cast(), other[0].len() as u32);
        issue!(HcommMemUnimport(side.endpoint, from, length));
        assert_eq!(read(&first), 0);
        finish();
        issue!(HcommMemUnimport(side.endpoint, from, length));
        assert_eq!((read(&first), read(&second)), (PARA, 0));
        let said = "was not imported";
        not_issued!(HCCL_E_NOT_FOUND, [said], HcommMemUnimport(side.endpoint, from, length));
        // It can be imported again, at another address.
        let again = side.import(&other[0]);
        assert_eq!(read(&again), 0);
        finish();
        side.carry.meet();

        // The owner unregisters one memory and frees it at once, without a wait.
        issue!(HcommMemUnreg(side.endpoint, handles[1]));
        ok!(aclrtFree(memory[1]));
        // New memory of the same size is at another address as long as the other process could
        // write there.
        let fresh: Vec<_> = (0..4).map(|_| upload(&[99; 8192])).collect();
        let since = Instant::now();
        while read(&second) != PARA {
            assert!(since.elapsed() < Duration::from_secs(60));
        }
        finish();
        let (code, text) = side.import_fails(&other[1]);
        assert_eq!(code, NOT_FOUND, "{text}");
        assert!(text.contains("no longer registered"), "{text}");
        assert_eq!(read(&again), 0);
        finish();
        assert_eq!(common::read(output, 8192), [1 - side.me; 8192]);
        for memory in fresh {
            assert_eq!(common::read(memory, 8192), [99; 8192]);
        }
        side.carry.meet();
    });
}

/// Unregisters and frees memory while the importer's write is in its queue. The write must not
/// change memory that the owner allocates after that.
#[test]
fn freed_memory_is_not_reused_before_the_importer_has_let_go() {
    const NAME: &str =
        "ipc::endpoints::memory::freed_memory_is_not_reused_before_the_importer_has_let_go";
    const BYTES: usize = 4 << 20;
    both(NAME, |side| {
        if side.me == 0 {
            let memory = common::malloc(BYTES);
            let handle = side.register("window", &on_device(memory, BYTES as u64));
            let export = side.export(handle);
            side.carry.swap(&export);
            let _channel = side.connected(1);
            side.carry.meet();
            issue!(HcommMemUnreg(side.endpoint, handle));
            ok!(aclrtFree(memory));
            let fresh = upload(&vec![9; BYTES]);
            assert_ne!(fresh, memory, "another process reaches it");
            side.carry.meet();
            // The write is complete. Then the memory is available again.
            let since = Instant::now();
            loop {
                let next = common::malloc(BYTES);
                if next == memory {
                    break;
                }
                ok!(aclrtFree(next));
                assert!(since.elapsed() < Duration::from_secs(60));
                std::thread::sleep(Duration::from_millis(2));
            }
            assert!(common::read(fresh, BYTES) == vec![9; BYTES]);
        } else {
            let export = side.carry.swap("import it");
            let there = side.import(&export);
            let channel = side.connected(1);
            let (stream, source) = (common::stream(), upload(&vec![7; BYTES]));
            let gate = common::Gate::new();
            gate.close(stream);
            let kind = common::D2D;
            ok!(aclrtMemcpyAsync(there.addr, BYTES, source, BYTES, kind, stream));
            side.carry.meet();
            // By then the owner has freed it.
            side.carry.meet();
            gate.open();
            ok!(aclrtSynchronizeStream(stream));
            let _ = channel;
        }
        side.carry.meet();
    });
}

#[test]
fn host_memory_of_a_program_is_not_imported_by_another_process() {
    const NAME: &str =
        "ipc::endpoints::memory::host_memory_of_a_program_is_not_imported_by_another_process";
    both(NAME, |side| {
        let mut own = vec![5u8; 5000];
        let handle = side.register("own", &on_host(own.as_mut_ptr().cast(), 5000));
        let export = side.export(handle);
        // This process may import it.
        assert_eq!(side.import(&export).addr, own.as_mut_ptr().cast());
        let other = side.carry.swap(&export);
        let (code, text) = side.import_fails(&other);
        assert_eq!(code, HcclResult::HCCL_E_NOT_SUPPORT.0 as i32, "{text}");
        assert!(
            text.contains("has allocated itself") && text.contains("aclrtMallocHost"),
            "{text}"
        );
        let damaged = other.replacen("aer1", "aem1", 1);
        let (code, text) = side.import_fails(&damaged);
        assert_eq!(code, PARA, "{text}");
        side.carry.meet();
    });
}
