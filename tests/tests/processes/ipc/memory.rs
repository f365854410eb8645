use std::ffi::c_void;
use std::ptr::null_mut;

use ascend_emulator_testing::common::{Block, D2D, D2H, H2D, malloc, read, stream, write};
use ascend_emulator_testing::{call, fails, ok};
use ascend_sys::*;

use super::pair::{again, other};
use super::{KEY, c, export, exported, import, own_process};

const BYTES: usize = 3 * 4096 + 100;

fn pattern(seed: u8) -> Vec<u8> {
    (0..BYTES).map(|at| (at as u8).wrapping_mul(7) ^ seed ^ (at >> 8) as u8).collect()
}

fn import_fails(code: i32, key: &str, piece: &str) {
    let mut memory = null_mut();
    fails!(code, [piece], aclrtIpcMemImportByKey(&mut memory, c(key).as_ptr(), 0));
    assert!(memory.is_null());
}

#[test]
fn imported_memory_is_that_of_the_exporter_for_every_copy() {
    let Some(mut other) =
        other("ipc::memory::imported_memory_is_that_of_the_exporter_for_every_copy", |talk| {
            let memory = import(&talk.next());
            assert_eq!(read(memory, BYTES), pattern(1));
            // Within its bounds it works like device memory of the same card.
            fails!(
                ACL_ERROR_RT_PARAM_INVALID,
                ["reaches 1 byte beyond the end", "of process", "aclrtIpcMemImportByKey"],
                aclrtMemset(memory, BYTES + 1, 0, BYTES + 1)
            );
            let (mut base, mut size) = (null_mut(), 0);
            ok!(aclrtMemGetAddressRange(memory.wrapping_byte_add(9), &mut base, &mut size));
            assert_eq!((base, size), (memory, BYTES));
            let stream = stream();
            let own = malloc(BYTES);
            ok!(aclrtMemcpyAsync(own, BYTES, memory, BYTES, D2D, stream));
            ok!(aclrtSynchronizeStream(stream));
            assert_eq!(read(own, BYTES), pattern(1));
            write(own, &pattern(2));
            ok!(aclrtMemcpyAsync(memory, BYTES, own, BYTES, D2D, stream));
            ok!(aclrtSynchronizeStream(stream));
            talk.say("written");
            talk.next();
        })
    else {
        return;
    };
    let _block = Block::one();
    let (memory, key) = exported(&pattern(1));
    let before = malloc(4096);
    write(before, &[7; 4096]);
    assert_eq!(other.ask(&key), "written");
    assert_eq!(read(memory, BYTES), pattern(2));
    assert_eq!(read(before, 4096), [7; 4096], "nothing else was touched");
    other.say("end");
    other.end();
}

#[test]
fn an_address_of_one_process_is_an_error_in_every_other() {
    let Some(mut other) =
        other("ipc::memory::an_address_of_one_process_is_an_error_in_every_other", |talk| {
            let own = malloc(BYTES);
            write(own, &pattern(5));
            let foreign: usize = talk.next().parse().unwrap();
            fails!(
                ACL_ERROR_RT_PARAM_INVALID,
                ["is device memory that this process does not have", "import"],
                aclrtMemset(std::ptr::without_provenance_mut(foreign), BYTES, 0, BYTES)
            );
            let memory = import(&talk.next());
            assert_eq!(read(memory, BYTES), pattern(1));
            assert_eq!(read(own, BYTES), pattern(5));
            talk.say(own.addr().to_string());
            talk.next();
        })
    else {
        return;
    };
    let _block = Block::one();
    let (memory, key) = exported(&pattern(1));
    other.say(&memory.addr().to_string());
    let foreign: usize = other.ask(&key).parse().unwrap();
    fails!(
        ACL_ERROR_RT_PARAM_INVALID,
        ["is device memory that this process does not have"],
        aclrtMemset(std::ptr::without_provenance_mut(foreign), 1, 0, 1)
    );
    other.say("end");
    other.end();
}

#[test]
fn a_collective_works_on_imported_memory_and_is_refused_where_others_cannot_see_it() {
    let Some(mut other) = other(
        "ipc::memory::a_collective_works_on_imported_memory_and_is_refused_where_others_cannot_see_it",
        |talk| {
            let memory = import(&talk.next());
            let (stream, mut comm) = (stream(), null_mut());
            let mut root = HcclRootInfo::default();
            assert_eq!(call!(HcclGetRootInfo(&mut root)), HcclResult::HCCL_SUCCESS);
            assert_eq!(
                call!(HcclCommInitRootInfo(1, &root, 0, &mut comm)),
                HcclResult::HCCL_SUCCESS
            );
            let own = malloc(BYTES);
            let (count, dtype) = (BYTES as u64, HcclDataType::HCCL_DATA_TYPE_INT8);
            let sum = HcclReduceOp::HCCL_REDUCE_SUM;
            let code = call!(HcclAllReduce(memory, own, count, dtype, sum, comm, stream));
            assert_eq!(code, HcclResult::HCCL_SUCCESS);
            ok!(aclrtSynchronizeStream(stream));
            assert_eq!(read(own, BYTES), pattern(3));
            assert_eq!(call!(HcclCommDestroy(comm)), HcclResult::HCCL_SUCCESS);
            // The same all-reduce with a rank in the other process is refused.
            assert_eq!(call!(HcclGetRootInfo(&mut root)), HcclResult::HCCL_SUCCESS);
            let bytes: Vec<String> =
                root.internal.iter().map(|byte| format!("{byte:02x}")).collect();
            talk.say(bytes.concat());
            assert_eq!(
                call!(HcclCommInitRootInfo(2, &root, 0, &mut comm)),
                HcclResult::HCCL_SUCCESS
            );
            let code = call!(HcclAllReduce(memory, own, count, dtype, sum, comm, stream));
            assert_eq!(code, HcclResult::HCCL_E_NOT_SUPPORT);
            assert!(
                ascend_emulator_testing::common::message().contains("another process has exported")
            );
            talk.say("refused");
            assert_eq!(call!(HcclCommDestroy(comm)), HcclResult::HCCL_SUCCESS);
            talk.next();
        },
    ) else {
        return;
    };
    let block = Block::new(2);
    ok!(aclrtSetDevice(block.first));
    let (_, key) = exported(&pattern(3));
    let words = other.ask(&key);
    let mut root = HcclRootInfo::default();
    for (at, byte) in root.internal.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&words[2 * at..2 * at + 2], 16).unwrap() as _;
    }
    ok!(aclrtSetDevice(block.first + 1));
    let mut comm = null_mut();
    assert_eq!(call!(HcclCommInitRootInfo(2, &root, 1, &mut comm)), HcclResult::HCCL_SUCCESS);
    assert_eq!(other.hear(), "refused");
    assert_eq!(call!(HcclCommDestroy(comm)), HcclResult::HCCL_SUCCESS);
    other.say("end");
    other.end();
}

#[test]
fn only_permitted_processes_import() {
    let Some(mut other) = other("ipc::memory::only_permitted_processes_import", |talk| {
        talk.say(own_process());
        let key = talk.next();
        import_fails(ACL_ERROR_RT_IPC_ERROR, &key, "may not import it; permitted are []");
        talk.say("refused");
        assert_eq!(talk.next(), "other");
        import_fails(ACL_ERROR_RT_IPC_ERROR, &key, "may not import it; permitted are [1]");
        let pids = &mut [own_process()];
        fails!(
            ACL_ERROR_RT_PARAM_INVALID,
            ["only that process may permit imports"],
            aclrtIpcMemSetImportPid(c(&key).as_ptr(), pids.as_mut_ptr(), 1)
        );
        talk.say("refused");
        assert_eq!(talk.next(), "permitted");
        assert_eq!(read(import(&key), BYTES), pattern(4));
        talk.say("imported");
        talk.next();
    }) else {
        return;
    };
    let _block = Block::one();
    let memory = malloc(BYTES);
    write(memory, &pattern(4));
    let key = export(memory, BYTES, 0);
    let mut process = other.hear().parse::<i32>().unwrap();
    assert_eq!(process, other.process());
    assert_eq!(other.ask(&key), "refused");
    let text = c(&key);
    fails!(100000, ["num is 0"], aclrtIpcMemSetImportPid(text.as_ptr(), &mut process, 0));
    fails!(100000, ["NULL"], aclrtIpcMemSetImportPid(text.as_ptr(), null_mut(), 1));
    fails!(107000, ["not the number"], aclrtIpcMemSetImportPid(text.as_ptr(), &mut -1, 1));
    ok!(aclrtIpcMemSetImportPid(text.as_ptr(), &mut 1, 1));
    assert_eq!(other.ask("other"), "refused");
    ok!(aclrtIpcMemSetImportPid(text.as_ptr(), &mut process, 1));
    assert_eq!(other.ask("permitted"), "imported");
    other.say("end");
    other.end();
}

#[test]
fn importers_close_before_the_exporter_closes_or_frees() {
    let Some(mut other) =
        other("ipc::memory::importers_close_before_the_exporter_closes_or_frees", |talk| {
            let key = talk.next();
            let memory = import(&key);
            import_fails(ACL_ERROR_RT_PARAM_INVALID, &key, "has imported it already");
            fails!(107000, ["aclrtIpcMemClose with its key"], aclrtFree(memory));
            talk.say("imported");
            assert_eq!(talk.next(), "close");
            let text = c(&key);
            ok!(aclrtIpcMemClose(text.as_ptr()));
            fails!(107000, ["has closed it already"], aclrtIpcMemClose(text.as_ptr()));
            fails!(
                107000,
                ["of process", "was freed by aclrtIpcMemClose"],
                aclrtMemset(memory, 1, 0, 1)
            );
            talk.say("closed");
            assert_eq!(talk.next(), "again");
            import_fails(
                ACL_ERROR_RT_IPC_ERROR,
                &key,
                "memory is not exported by this key any more",
            );
            talk.say("refused");
            // A later import maps other memory, at the same address or at another one.
            assert_eq!(read(import(&talk.next()), BYTES), pattern(6));
            talk.say("imported");
            talk.next();
        })
    else {
        return;
    };
    let _block = Block::one();
    let (memory, key) = exported(&pattern(5));
    let text = c(&key);
    assert_eq!(other.ask(&key), "imported");
    let process = format!("process {}", other.process());
    fails!(107000, [&*process, "importers close first"], aclrtIpcMemClose(text.as_ptr()));
    fails!(107000, [&*process, "cannot be freed"], aclrtFree(memory));
    assert_eq!(other.ask("close"), "closed");
    // This succeeds at once, because the importer's call has waited for this process.
    ok!(aclrtIpcMemClose(text.as_ptr()));
    fails!(107000, ["it was closed"], aclrtIpcMemClose(text.as_ptr()));
    ok!(aclrtFree(memory));
    assert_eq!(other.ask("again"), "refused");
    let (memory, key) = exported(&pattern(6));
    assert_eq!(other.ask(&key), "imported");
    other.kill();
    // This succeeds at once, because the process has ended, whether or not the listening thread has
    // noticed it.
    ok!(aclrtFree(memory));
    fails!(107000, ["it was closed"], aclrtIpcMemClose(c(&key).as_ptr()));
}

#[test]
fn memory_of_a_process_that_was_killed_stays_mapped_and_its_key_leads_nowhere() {
    const NAME: &str =
        "ipc::memory::memory_of_a_process_that_was_killed_stays_mapped_and_its_key_leads_nowhere";
    let Some(mut other) = other(NAME, |talk| {
        let keys = [7, 8].map(|seed| exported(&pattern(seed)).1);
        talk.say(keys.join(" "));
        talk.next();
    }) else {
        return;
    };
    let _block = Block::one();
    let keys = other.hear();
    let (first, second) = keys.split_once(' ').unwrap();
    let memory = import(first);
    let process = other.process();
    other.kill();
    assert_eq!(read(memory, BYTES), pattern(7));
    write(memory, &pattern(9));
    assert_eq!(read(memory, BYTES), pattern(9));
    import_fails(ACL_ERROR_RT_IPC_ERROR, second, &format!("process {process}"));
    ok!(aclrtIpcMemClose(c(first).as_ptr()));
    let mut third = again(NAME);
    third.hear();
    third.kill();
}

#[test]
fn devices_that_end_take_their_exports_and_imports_with_them() {
    let Some(mut other) =
        other("ipc::memory::devices_that_end_take_their_exports_and_imports_with_them", |talk| {
            let memory = import(&talk.next());
            assert_eq!(read(memory, BYTES), pattern(1));
            talk.say("imported");
            talk.next();
            let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
            // The importer reads, and the exporter allocates its memory anew at once.
            let mut byte = 0u8;
            let to = (&raw mut byte).cast::<c_void>();
            while call!(aclrtMemcpy(to, 1, memory, 1, D2H)) == 0 {
                assert!(std::time::Instant::now() < until, "the importer is not told");
            }
            fails!(107000, ["whose device was reset"], aclrtMemset(memory, 1, 0, 1));
            // A reset here ends an import.
            let key = talk.next();
            let memory = import(&key);
            let mut device = -1;
            ok!(aclrtGetDevice(&mut device));
            ok!(aclrtResetDevice(device));
            ok!(aclrtSetDevice(device));
            fails!(107000, ["the end of its device"], aclrtMemset(memory, 1, 0, 1));
            assert_eq!(read(import(&key), BYTES), pattern(2));
            talk.say("again");
            talk.next();
        })
    else {
        return;
    };
    let block = Block::one();
    let (_, key) = exported(&pattern(1));
    assert_eq!(other.ask(&key), "imported");
    ok!(aclrtResetDevice(block.first));
    other.say("reset");
    ok!(aclrtSetDevice(block.first));
    let (_, key) = exported(&pattern(2));
    assert_eq!(other.ask(&key), "again");
    other.say("end");
    other.end();
}

/// Resets the device while a copy of the importer runs. The copy must not change memory that is
/// allocated later.
#[test]
fn exported_memory_of_a_reset_device_is_reused_when_no_importer_reaches_it_any_more() {
    const LARGE: usize = 256 << 20;
    const NAME: &str = "ipc::memory::exported_memory_of_a_reset_device_is_reused_when_no_importer_reaches_it_any_more";
    let Some(mut other) = other(NAME, |talk| {
        let memory = import(&talk.next());
        let (own, stream) = (malloc(LARGE), stream());
        ok!(aclrtMemset(own, LARGE, 7, LARGE));
        talk.say("copies");
        while call!(aclrtMemcpyAsync(memory, LARGE, own, LARGE, D2D, stream)) == 0
            && call!(aclrtSynchronizeStream(stream)) == 0
        {}
        talk.say("over");
        talk.next();
    }) else {
        return;
    };
    let block = Block::with(AscendExtBlockConfig { memoryBytes: 3 << 30, ..Block::config() });
    ok!(aclrtSetDevice(block.first));
    let memory = malloc(LARGE);
    let key = export(memory, LARGE, ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION);
    assert_eq!(other.ask(&key), "copies");
    std::thread::sleep(std::time::Duration::from_millis(30));
    ok!(aclrtResetDeviceForce(block.first));
    ok!(aclrtSetDevice(block.first));
    let last = |memory: *mut c_void| memory.wrapping_byte_add(LARGE - BYTES);
    let fresh: Vec<*mut c_void> = (0..4).map(|_| malloc(LARGE)).collect();
    fresh.iter().for_each(|memory| write(last(*memory), &pattern(3)));
    assert_eq!(other.hear(), "over");
    for memory in fresh {
        assert!(read(last(memory), BYTES) == pattern(3));
    }
    other.say("end");
    other.end();
}

#[test]
fn memory_of_another_card_is_copied_as_its_kind_says_and_never_to_the_host() {
    let Some(mut other) = other(
        "ipc::memory::memory_of_another_card_is_copied_as_its_kind_says_and_never_to_the_host",
        |talk| {
            let mut device = -1;
            ok!(aclrtGetDevice(&mut device));
            let there = malloc(BYTES);
            ok!(aclrtSetDevice(device + 1));
            let memory = import(&talk.next());
            let (own, mut host) = (malloc(BYTES), vec![0u8; BYTES]);
            let default = aclrtMemcpyKind::ACL_MEMCPY_DEFAULT;
            let host = host.as_mut_ptr().cast::<c_void>();
            fails!(207000, ["the host"], aclrtMemcpy(host, BYTES, memory, BYTES, D2H));
            fails!(207000, ["the host"], aclrtMemcpy(memory, BYTES, host, BYTES, H2D));
            fails!(207000, ["not inferred"], aclrtMemcpy(own, BYTES, memory, BYTES, default));
            fails!(207000, ["asynchronous"], aclrtMemcpy(there, BYTES, memory, BYTES, D2D));
            let stream = stream();
            ok!(aclrtMemcpyAsync(there, BYTES, memory, BYTES, D2D, stream));
            ok!(aclrtMemcpyAsync(own, BYTES, there, BYTES, D2D, stream));
            ok!(aclrtSynchronizeStream(stream));
            assert_eq!(read(own, BYTES), pattern(5));
            ok!(aclrtMemcpy(own, BYTES, memory, BYTES, D2D));
            talk.say("copied");
            talk.next();
        },
    ) else {
        return;
    };
    let _block = Block::one();
    let (_, key) = exported(&pattern(5));
    assert_eq!(other.ask(&key), "copied");
    other.say("end");
    other.end();
}

#[test]
fn what_is_no_key_and_what_cannot_be_exported_is_said() {
    let Some(mut other) =
        other("ipc::memory::what_is_no_key_and_what_cannot_be_exported_is_said", |talk| {
            let key = talk.next();
            let damaged = |at: usize| {
                let mut key = key.clone().into_bytes();
                key[at] = if key[at] == b'0' { b'1' } else { b'0' };
                String::from_utf8(key).unwrap()
            };
            for at in [5, 20, 40, 50, 63] {
                import_fails(ACL_ERROR_RT_PARAM_INVALID, &damaged(at), "damaged");
            }
            import_fails(ACL_ERROR_RT_PARAM_INVALID, &damaged(3), "another version");
            import_fails(ACL_ERROR_RT_PARAM_INVALID, "", "not a key of memory");
            import_fails(ACL_ERROR_RT_PARAM_INVALID, &key[..30], "this text has 30");
            import_fails(ACL_ERROR_RT_PARAM_INVALID, &key.repeat(20), "damaged");
            let mut memory = null_mut();
            let text = c(&key);
            fails!(107000, ["flags"], aclrtIpcMemImportByKey(&mut memory, text.as_ptr(), 2));
            fails!(100000, ["key is NULL"], aclrtIpcMemImportByKey(&mut memory, null_mut(), 0));
            fails!(100000, ["devPtr"], aclrtIpcMemImportByKey(null_mut(), text.as_ptr(), 0));
            let mut notify = null_mut();
            fails!(
                107000,
                ["not a key of a notify: it is a key of memory"],
                aclrtNotifyImportByKey(&mut notify, text.as_ptr(), 0)
            );
            // A child of this process has none of its threads, and no devices.
            // SAFETY: the child calls the emulator, which refuses, and ends without anything else.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let code = call!(aclrtIpcMemImportByKey(&mut memory, text.as_ptr(), 0));
                // SAFETY: ends the child.
                unsafe { libc::_exit(i32::from(code != ACL_ERROR_RT_CONTEXT_NULL)) };
            }
            let mut status = -1;
            // SAFETY: this waits once for a child of this process.
            unsafe { libc::waitpid(child, &mut status, 0) };
            assert_eq!(status, 0, "the child was not refused");
            assert_eq!(read(import(&key), BYTES), pattern(1));
            talk.say("done");
            talk.next();
        })
    else {
        return;
    };
    let _block = Block::one();
    let (memory, key) = exported(&pattern(1));
    import_fails(ACL_ERROR_RT_PARAM_INVALID, &key, "in the process that has exported it");
    let mut room = [0u8; KEY];
    let place = room.as_mut_ptr().cast();
    let odd = memory.wrapping_byte_add(64);
    fails!(107000, ["65 bytes"], aclrtIpcMemGetExportKey(memory, 1, place, KEY - 1, 0));
    fails!(107000, ["flags is 0x4"], aclrtIpcMemGetExportKey(memory, 1, place, KEY, 4));
    fails!(100000, ["size is 0"], aclrtIpcMemGetExportKey(memory, 0, place, KEY, 0));
    fails!(100000, ["NULL"], aclrtIpcMemGetExportKey(null_mut(), 1, place, KEY, 0));
    fails!(100000, ["NULL"], aclrtIpcMemGetExportKey(memory, 1, null_mut(), KEY, 0));
    fails!(107000, ["beyond the end"], aclrtIpcMemGetExportKey(memory, BYTES + 1, place, KEY, 0));
    fails!(107008, ["page of 4096"], aclrtIpcMemGetExportKey(odd, 64, place, KEY, 0));
    let small = malloc(64);
    fails!(107008, ["an allocation of 64"], aclrtIpcMemGetExportKey(small, 64, place, KEY, 0));
    let host: *mut c_void = place.cast();
    fails!(107000, ["not device memory"], aclrtIpcMemGetExportKey(host, 1, place, KEY, 0));
    let link = aclrtIpcMemAttrType::ACL_RT_IPC_MEM_ATTR_ACCESS_LINK;
    let text = c(&key);
    ok!(aclrtIpcMemSetAttr(text.as_ptr(), link, ACL_RT_IPC_MEM_ATTR_ACCESS_LINK_HCCS as u64));
    fails!(107000, ["attr is 4"], aclrtIpcMemSetAttr(text.as_ptr(), link, 4));
    fails!(107000, ["type is 1"], aclrtIpcMemSetAttr(text.as_ptr(), aclrtIpcMemAttrType(1), 0));
    let mut servers = aclrtServerPid::default();
    fails!(207000, ["one server"], aclrtIpcMemImportPidInterServer(text.as_ptr(), &mut servers, 1));
    fails!(100000, ["num is 0"], aclrtIpcMemImportPidInterServer(text.as_ptr(), &mut servers, 0));
    assert_eq!(other.ask(&key), "done");
    other.say("end");
    other.end();
}
