//! Tests of communicators: the memory that their operations touch, and the threads that they order.

use super::setup::*;
use ascend_emulator_testing::barrier::Barrier;
use ascend_emulator_testing::common::{self, Block};
use ascend_emulator_testing::ranks::{Rank, SUM, root_info};
use ascend_emulator_testing::{hccl, ok};
use ascend_sys::*;
use std::ffi::c_void;

pub const F32: HcclDataType = HcclDataType::HCCL_DATA_TYPE_FP32;
const COUNT: u64 = SIZE as u64 / 4;

/// A rank with a second stream, and a barrier where the threads of all ranks meet. For checked mode
/// this barrier orders nothing, because the library does not see it.
pub struct Place<'a> {
    pub rank: &'a Rank,
    pub other: aclrtStream,
    threads: &'a Barrier,
    /// A buffer of each rank, for copies between devices.
    buffers: &'a std::sync::Mutex<Vec<usize>>,
}

impl Place<'_> {
    pub fn memory(&self) -> *mut c_void {
        let memory = common::malloc(SIZE);
        ok!(aclrtMemset(memory, SIZE, 0, SIZE));
        memory
    }

    fn all_reduce(&self, send: *mut c_void, recv: *mut c_void, stream: aclrtStream) {
        hccl!(HcclAllReduce(send, recv, COUNT, F32, SUM, self.rank.comm, stream));
    }

    pub fn is(&self, rank: u32) -> bool {
        self.rank.rank == rank
    }

    /// Shares a buffer with the other ranks and waits until they have done the same. Returns the
    /// buffer of rank `of`.
    fn swap(&self, mine: *mut c_void, of: u32) -> *mut c_void {
        self.buffers.lock().unwrap()[self.rank.rank as usize] = mine as usize;
        self.threads.wait();
        self.buffers.lock().unwrap()[of as usize] as *mut c_void
    }
}

/// Runs a program with two ranks like [`race`], without and with its repair.
#[track_caller]
fn between(pieces: &[&str], program: impl Fn(&Place<'_>, bool) + Sync) {
    for repaired in [false, true] {
        between_as(repaired, pieces, |place| program(place, repaired));
    }
}

/// Runs a program with two ranks once, either without or with its repair.
#[track_caller]
pub fn between_as(repaired: bool, pieces: &[&str], program: impl Fn(&Place<'_>) + Sync) {
    let block = Block::with(config(2));
    let numbers = Numbers::of(&block, 2);
    let (info, threads) = (root_info(), Barrier::new(2));
    let buffers = std::sync::Mutex::new(vec![0; 2]);
    std::thread::scope(|scope| {
        for rank in 0..2 {
            let (block, info, threads, buffers, program) =
                (&block, &info, &threads, &buffers, &program);
            scope.spawn(move || {
                let mut rank = Rank::without_comm(block, info, rank, 2);
                rank.join();
                let place = Place { rank: &rank, other: common::stream(), threads, buffers };
                program(&place);
                // Each rank waits for its work only after all ranks have issued theirs.
                threads.wait();
                ok!(aclrtSynchronizeDevice());
                threads.wait();
                hccl!(HcclCommDestroy(rank.comm));
            });
        }
    });
    judge(&block, &numbers, pieces, repaired);
}

#[test]
fn the_result_is_read_before_the_collective_is_complete() {
    let pieces = [
        "race: bytes 0..4096 of allocation #2",
        "1 write: HcclAllReduce(count 1024, FP32, SUM) #1 of communicator",
        "rank 0, task",
        "HcclAllReduce on thread",
        "2 read: copy",
    ];
    between(&pieces, |place, repaired| {
        let (x, y, z) = (place.memory(), place.memory(), place.memory());
        place.all_reduce(x, y, place.rank.stream);
        if place.is(0) {
            if repaired {
                order(place.rank.stream, place.other);
            }
            copy(z, y, place.other);
        }
    });
}

#[test]
fn a_finding_shows_the_lone_zero_before_an_operation() {
    let zero = "rank 0, after a call with nothing to move, which takes no number: \
                HcclAllReduce(count 0, FP32, SUM) after #0";
    between(&["race: bytes 0..4096 of allocation #2", zero], |place, repaired| {
        let (x, y, z) = (place.memory(), place.memory(), place.memory());
        let Rank { comm, stream, .. } = *place.rank;
        if place.is(0) {
            hccl!(HcclAllReduce(x, y, 0, F32, SUM, comm, stream));
        }
        place.all_reduce(x, y, stream);
        if place.is(0) {
            if repaired {
                order(stream, place.other);
            }
            copy(z, y, place.other);
        }
    });
}

#[test]
fn the_send_buffer_is_used_again_too_early() {
    let pieces = ["race: bytes 0..4096 of allocation #1", "1 read: HcclAllReduce", "2 write: fill"];
    between(&pieces, |place, repaired| {
        let (x, y) = (place.memory(), place.memory());
        place.all_reduce(x, y, place.rank.stream);
        if place.is(1) {
            if repaired {
                order(place.rank.stream, place.other);
            }
            fill(x, place.other);
        }
    });
}

#[test]
fn the_input_is_still_being_written() {
    let pieces = ["race: bytes 0..4096 of allocation #1", "1 write: fill", "2 read: HcclAllReduce"];
    between(&pieces, |place, repaired| {
        let (x, y) = (place.memory(), place.memory());
        if place.is(1) {
            fill(x, place.other);
            if repaired {
                order(place.other, place.rank.stream);
            }
        }
        place.all_reduce(x, y, place.rank.stream);
    });
}

#[test]
fn one_communicator_on_two_streams() {
    let pieces = [
        "communicator: two operations of rank 0 of communicator",
        "are on two streams",
        "1 write: HcclAllReduce(count 1024, FP32, SUM) #1",
        "2 write: HcclAllReduce(count 1024, FP32, SUM) #2",
        "help: use one stream",
    ];
    between(&pieces, |place, repaired| {
        let buffers = [place.memory(), place.memory(), place.memory(), place.memory()];
        place.all_reduce(buffers[0], buffers[1], place.rank.stream);
        let stream = if place.is(0) { place.other } else { place.rank.stream };
        if repaired && place.is(0) {
            order(place.rank.stream, stream);
        }
        place.all_reduce(buffers[2], buffers[3], stream);
    });
}

/// Lets rank 1 write, both ranks take part in a broadcast, and rank 0 copy the data that rank 1 has
/// written.
fn fetch_behind_a_broadcast(place: &Place<'_>, root: u32) {
    let (x, y, shared) = (place.memory(), place.memory(), place.memory());
    let theirs = place.swap(x, 1);
    if place.is(1) {
        fill(x, place.rank.stream);
    }
    hccl!(HcclBroadcast(shared, COUNT, F32, root, place.rank.comm, place.rank.stream));
    if place.is(0) {
        copy(y, theirs, place.rank.stream);
    }
}

#[test]
fn a_broadcast_tells_the_root_nothing() {
    let pieces =
        ["race: bytes 0..4096 of allocation #1", "1 write: fill", "2 read: copy", UNORDERED];
    between(&pieces, |place, repaired| {
        fetch_behind_a_broadcast(place, if repaired { 1 } else { 0 });
    });
}

#[test]
fn a_barrier_orders_the_ranks() {
    let pieces = ["race: bytes 0..4096 of allocation #1", "1 write: fill", "2 read: copy"];
    between(&pieces, |place, repaired| {
        let (x, y) = (place.memory(), place.memory());
        let theirs = place.swap(x, 1);
        if place.is(1) {
            fill(x, place.rank.stream);
        }
        if repaired {
            hccl!(HcclBarrier(place.rank.comm, place.rank.stream));
        }
        place.threads.wait();
        if place.is(0) {
            copy(y, theirs, place.rank.stream);
        }
    });
}

#[test]
fn a_collective_says_nothing_of_what_others_do_behind_it() {
    // Either access may be the first one.
    let pieces = ["race: bytes 0..4096 of allocation #1", "are read and written", " ordered "];
    between(&pieces, |place, repaired| {
        let (x, y) = (place.memory(), place.memory());
        let theirs = place.swap(x, 1);
        let fill_it = || {
            if place.is(1) {
                fill(x, place.rank.stream);
            }
        };
        if repaired {
            fill_it();
        }
        hccl!(HcclBarrier(place.rank.comm, place.rank.stream));
        if !repaired {
            fill_it();
        }
        if place.is(0) {
            copy(y, theirs, place.rank.stream);
        }
    });
}

fn item(send: bool, buffer: *mut c_void, count: u64, peer: u32) -> HcclSendRecvItem {
    let kind = if send { HcclSendRecvType::HCCL_SEND } else { HcclSendRecvType::HCCL_RECV };
    HcclSendRecvItem { sendRecvType: kind, buf: buffer, count, dataType: F32, remoteRank: peer }
}

fn batch(place: &Place<'_>, items: &mut [HcclSendRecvItem], stream: aclrtStream) {
    let count = items.len() as u32;
    hccl!(HcclBatchSendRecv(items.as_mut_ptr(), count, place.rank.comm, stream));
}

#[test]
fn two_receives_of_one_batch_overlap() {
    let pieces = [
        "overlap: bytes 2044..2048 of allocation #1",
        "1 write: HcclBatchSendRecv of 2 messages of communicator",
        "bytes 0..2048;",
        "2 write: HcclBatchSendRecv of 2 messages",
        "bytes 2044..4092;",
    ];
    between(&pieces, |place, repaired| {
        let x = place.memory();
        let (half, peer) = (COUNT / 2, 1 - place.rank.rank);
        let second = at(x, if place.is(0) && !repaired { 2044 } else { 2048 });
        let send = place.is(1);
        batch(
            place,
            &mut [item(send, x, half, peer), item(send, second, half, peer)],
            place.rank.stream,
        );
    });
}

#[test]
fn what_is_being_sent_is_overwritten() {
    let pieces =
        ["race: bytes 0..4096 of allocation #1", "1 read: HcclBatchSendRecv", "2 write: fill"];
    between(&pieces, |place, repaired| {
        let x = place.memory();
        batch(place, &mut [item(place.is(0), x, COUNT, 1 - place.rank.rank)], place.rank.stream);
        if place.is(0) {
            if repaired {
                order(place.rank.stream, place.other);
            }
            fill(x, place.other);
        }
    });
}

#[test]
fn a_message_orders_what_was_before_it() {
    // Rank 1 copies from a buffer that rank 0 writes before or after the message. In the second
    // case, either access may be the first one.
    let pieces = ["race: bytes 0..4096 of allocation #1", "are read and written", " ordered "];
    between(&pieces, |place, repaired| {
        let (x, y, z) = (place.memory(), place.memory(), place.memory());
        let theirs = place.swap(x, 0);
        let write = || {
            if place.is(0) {
                fill(x, place.rank.stream);
            }
        };
        if repaired {
            write();
        }
        batch(place, &mut [item(place.is(0), z, COUNT, 1 - place.rank.rank)], place.rank.stream);
        if !repaired {
            write();
        }
        if place.is(1) {
            copy(y, theirs, place.rank.stream);
        }
    });
}

#[test]
fn a_collective_reads_what_nobody_wrote() {
    let pieces = ["unwritten: bytes 0..4096 of allocation #2", "1 read: HcclAllReduce"];
    between(&pieces, |place, repaired| {
        let x = place.memory();
        let y = if place.is(0) && !repaired { malloc() } else { place.memory() };
        place.all_reduce(y, x, place.rank.stream);
    });
}

/// Runs `queue` and `meanwhile` on rank 0 while its stream is blocked. The stream waits in a
/// broadcast whose root is rank 0, and such a broadcast does not order the root after the other
/// rank.
fn while_the_root_waits(place: &Place<'_>, queue: impl Fn(), meanwhile: impl Fn()) {
    let (shared, Rank { comm, stream, .. }) = (place.memory(), place.rank);
    // Without this barrier, the call of the next operation would wait for the other rank.
    hccl!(HcclBarrier(*comm, *stream));
    sync(*stream);
    if place.is(0) {
        hccl!(HcclBroadcast(shared, COUNT, F32, 0, *comm, *stream));
        queue();
        meanwhile();
    }
    place.threads.wait();
    if place.is(1) {
        hccl!(HcclBroadcast(shared, COUNT, F32, 0, *comm, *stream));
    }
}

#[test]
fn the_host_writes_before_what_it_has_enqueued_begins() {
    let pieces = [
        "race: bytes 0..4096 of allocation #1",
        "1 write: fill of 4096 bytes, the host",
        "2 read: copy of 4096 bytes, task",
        "2 was enqueued before 1 was called",
        "help: wait for 2",
    ];
    between(&pieces, |place, repaired| {
        let (x, y) = (place.memory(), place.memory());
        let queue = || copy(y, x, place.rank.stream);
        let write = || ok!(aclrtMemset(x, SIZE, 0, SIZE));
        if repaired {
            while_the_root_waits(place, queue, || ());
            sync(place.rank.stream);
            write();
        } else {
            while_the_root_waits(place, queue, write);
        }
    });
}

#[test]
fn the_host_reads_before_what_it_has_enqueued_begins() {
    let pieces = ["of pinned host memory", "1 read: access to 16 bytes, the host", "2 write: copy"];
    between(&pieces, |place, repaired| {
        let (x, host) = (place.memory(), common::malloc_host(SIZE));
        let stream = place.rank.stream;
        let queue = || copy(host, x, stream);
        let read = || ok!(ascendExtHostAccess(host, 16, 0));
        if repaired {
            read();
            while_the_root_waits(place, queue, || ());
        } else {
            while_the_root_waits(place, queue, read);
        }
    });
}
