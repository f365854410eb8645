//! Tests that `aclrtHostUnregister` waits for the tasks that use the memory, and for nothing else.

use ascend_emulator_testing::common::*;
use ascend_emulator_testing::ranks::{FP32, SUM, on_ranks};
use ascend_emulator_testing::{fails, hccl, ok};
use ascend_sys::*;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::time::Duration;

const SIZE: usize = 8192;

/// Two pages of memory.
#[repr(align(4096))]
struct Pages([u8; SIZE]);

fn register(pages: &mut Pages) -> *mut c_void {
    let (host, mut mapped) = (pages.0.as_mut_ptr().cast(), null_mut());
    let kind = aclrtHostRegisterType::ACL_HOST_REGISTER_MAPPED;
    ok!(aclrtHostRegister(host, SIZE as u64, kind, &mut mapped));
    host
}

#[test]
fn a_rank_unregisters_memory_while_another_one_waits_for_it_in_a_collective() {
    on_ranks(2, |rank| {
        let buffer = rank.upload(&[0; 16]);
        let reduce = || hccl!(HcclAllReduce(buffer, buffer, 4, FP32, SUM, rank.comm, rank.stream));
        // The first operation makes the links, so that the next call does not wait itself.
        reduce();
        rank.sync();
        if rank.rank == 1 {
            // During this time, rank 0 waits in its collective.
            std::thread::sleep(Duration::from_millis(100));
            let host = register(&mut Pages([0; SIZE]));
            ok!(aclrtHostUnregister(host));
            fails!(507911, [], aclrtHostUnregister(host));
            fails!(507911, [], aclrtHostUnregister(64 as *mut c_void));
        }
        reduce();
        rank.sync();
    });
}

#[test]
fn copies_of_the_memory_are_waited_for_on_every_stream_and_behind_other_tasks() {
    let _block = Block::one();
    let mut pages = Box::new(Pages([7; SIZE]));
    let host = register(&mut pages);
    let (device, mut gates) = (malloc(2 * SIZE), Vec::new());
    for at in 0..2 {
        let (s, gate) = (stream(), Gate::new());
        gate.close(s);
        let from = host.wrapping_byte_add(at * SIZE / 2);
        let to = device.wrapping_byte_add(at * SIZE);
        ok!(aclrtMemcpyAsync(to, SIZE / 2, from, SIZE / 2, H2D, s));
        // A task that does not use the host memory is queued after the copy.
        ok!(aclrtMemsetAsync(to.wrapping_byte_add(SIZE / 2), 8, 1, 8, s));
        gates.push(gate);
    }
    let opener = std::thread::spawn(move || {
        for gate in gates {
            std::thread::sleep(Duration::from_millis(50));
            gate.open();
        }
    });
    ok!(aclrtHostUnregister(host));
    pages.0.fill(0);
    opener.join().unwrap();
    ok!(aclrtSynchronizeDevice());
    for at in 0..2 {
        assert_eq!(read(device.wrapping_byte_add(at * SIZE), SIZE / 2), [7; SIZE / 2]);
    }
}

#[test]
fn copies_of_other_memory_are_not_waited_for() {
    let _block = Block::one();
    let (mut mine, mut other) = (Box::new(Pages([1; SIZE])), Box::new(Pages([2; SIZE])));
    let (host, others) = (register(&mut mine), register(&mut other));
    let (device, s, gate) = (malloc(SIZE), stream(), Gate::new());
    gate.close(s);
    ok!(aclrtMemcpyAsync(device, SIZE, others, SIZE, H2D, s));
    ok!(aclrtHostUnregister(host));
    assert!(!idle(s));
    gate.open();
    ok!(aclrtHostUnregister(others));
    assert_eq!(read(device, SIZE), [2; SIZE]);
}

#[test]
fn no_memory_reaches_beyond_all_addresses() {
    let _block = Block::one();
    let (mut pages, mut mapped) = (Box::new(Pages([0; SIZE])), null_mut());
    let host: *mut c_void = pages.0.as_mut_ptr().cast();
    let kind = aclrtHostRegisterType::ACL_HOST_REGISTER_MAPPED;
    fails!(100000, ["beyond the last"], aclrtHostRegister(host, u64::MAX, kind, &mut mapped));
    assert_eq!(register(&mut pages), host);
    ok!(aclrtHostUnregister(host));
}
