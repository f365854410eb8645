//! Tests that every operation of a communicator touches exactly the bytes that it should.

use super::comms::{F32, Place, between_as};
use super::setup::*;
use ascend_emulator_testing::common;
use ascend_emulator_testing::ranks::SUM;
use ascend_emulator_testing::{hccl, ok};
use std::ffi::c_void;

type Bytes = &'static [[usize; 2]];
type Operation = fn(&Place<'_>, *mut c_void, *mut c_void);

/// Each operation with the beginning of its call in texts, the byte ranges that rank 1 reads, and
/// those that it writes. Each of the two ranks has two blocks of 256 elements. If the operation has
/// displacements, the blocks are one element apart.
const OPERATIONS: [(&str, Operation, Bytes, Bytes); 13] = {
    const HALF: &[[usize; 2]] = &[[0, 1024]];
    const WHOLE: &[[usize; 2]] = &[[0, 2048]];
    const APART: &[[usize; 2]] = &[[0, 1024], [1028, 2052]];
    const COUNTS: [u64; 2] = [256; 2];
    const PLACES: [u64; 2] = [0, 257];
    const MATRIX: [u64; 4] = [256; 4];
    fn list(words: &'static [u64]) -> *const c_void {
        words.as_ptr().cast()
    }
    [
        (
            "HcclAllReduce(",
            |p, s, r| {
                hccl!(HcclAllReduce(s, r, 256, F32, SUM, p.rank.comm, p.rank.stream));
            },
            HALF,
            HALF,
        ),
        (
            "HcclReduce(",
            |p, s, r| {
                hccl!(HcclReduce(s, r, 256, F32, SUM, 1, p.rank.comm, p.rank.stream));
            },
            HALF,
            HALF,
        ),
        (
            "HcclBroadcast(",
            |p, _, r| {
                hccl!(HcclBroadcast(r, 256, F32, 0, p.rank.comm, p.rank.stream));
            },
            &[],
            HALF,
        ),
        (
            "HcclAllGather(",
            |p, s, r| {
                hccl!(HcclAllGather(s, r, 256, F32, p.rank.comm, p.rank.stream));
            },
            HALF,
            WHOLE,
        ),
        (
            "HcclReduceScatter(",
            |p, s, r| {
                hccl!(HcclReduceScatter(s, r, 256, F32, SUM, p.rank.comm, p.rank.stream));
            },
            WHOLE,
            HALF,
        ),
        (
            "HcclScatter(",
            |p, s, r| {
                hccl!(HcclScatter(s, r, 256, F32, 0, p.rank.comm, p.rank.stream));
            },
            &[],
            HALF,
        ),
        (
            "HcclAlltoAll(",
            |p, s, r| {
                hccl!(HcclAlltoAll(s, 256, F32, r, 256, F32, p.rank.comm, p.rank.stream));
            },
            WHOLE,
            WHOLE,
        ),
        (
            "HcclAllGatherV(",
            |p, s, r| {
                let (counts, places) = (list(&COUNTS), list(&PLACES));
                hccl!(HcclAllGatherV(s, 256, r, counts, places, F32, p.rank.comm, p.rank.stream));
            },
            HALF,
            APART,
        ),
        (
            "HcclReduceScatterV(",
            |p, s, r| {
                let (counts, places) = (list(&COUNTS), list(&PLACES));
                hccl!(HcclReduceScatterV(
                    s,
                    counts,
                    places,
                    r,
                    256,
                    F32,
                    SUM,
                    p.rank.comm,
                    p.rank.stream
                ));
            },
            APART,
            HALF,
        ),
        (
            "HcclAlltoAllV(",
            |p, s, r| {
                let (counts, places) = (list(&COUNTS), list(&PLACES));
                let (comm, stream) = (p.rank.comm, p.rank.stream);
                hccl!(HcclAlltoAllV(s, counts, places, F32, r, counts, places, F32, comm, stream));
            },
            APART,
            APART,
        ),
        (
            "HcclAlltoAllVC(",
            |p, s, r| {
                hccl!(HcclAlltoAllVC(s, list(&MATRIX), F32, r, F32, p.rank.comm, p.rank.stream));
            },
            WHOLE,
            WHOLE,
        ),
        (
            "HcclSend of 1 message",
            |p, s, r| {
                if p.is(1) {
                    hccl!(HcclSend(s, 256, F32, 0, p.rank.comm, p.rank.stream));
                } else {
                    hccl!(HcclRecv(r, 256, F32, 1, p.rank.comm, p.rank.stream));
                }
            },
            HALF,
            &[],
        ),
        (
            "HcclRecv of 1 message",
            |p, s, r| {
                if p.is(0) {
                    hccl!(HcclSend(s, 256, F32, 1, p.rank.comm, p.rank.stream));
                } else {
                    hccl!(HcclRecv(r, 256, F32, 0, p.rank.comm, p.rank.stream));
                }
            },
            &[],
            HALF,
        ),
    ]
};

/// Checks that another access to a byte of the operation is found, and that an access to the bytes
/// before and after is not.
#[track_caller]
fn touches(name: &str, operation: Operation, bytes: &[[usize; 2]], written: bool) {
    for [start, end] in bytes {
        for (byte, is_in) in
            [(start.wrapping_sub(1), false), (*start, true), (end - 1, true), (*end, false)]
        {
            if byte >= SIZE {
                continue;
            }
            let pieces = [&*format!("race: bytes {byte}..{}", byte + 1), "are written twice", name];
            let read = [pieces[0], "are read and written", name];
            between_as(!is_in, if written { &pieces } else { &read }, |place| {
                let (send, recv) = (place.memory(), place.memory());
                operation(place, send, recv);
                if place.is(1) {
                    let memory = if written { recv } else { send };
                    ok!(aclrtMemsetAsync(at(memory, byte), 1, 0, 1, place.other));
                }
            });
        }
    }
}

#[test]
fn every_operation_touches_exactly_its_bytes() {
    for (name, operation, reads, writes) in OPERATIONS {
        touches(name, operation, reads, false);
        touches(name, operation, writes, true);
    }
}

#[test]
fn what_an_operation_writes_is_written() {
    for (_, operation, _, writes) in OPERATIONS {
        between_as(true, &[], |place| {
            let (send, recv) = (place.memory(), malloc());
            // If the operation has one rank with data, that is rank 0.
            if place.is(0) {
                ok!(aclrtMemset(recv, SIZE, 0, SIZE));
            }
            operation(place, send, recv);
            if place.is(1) {
                let to = place.memory();
                for [start, end] in writes {
                    let (bytes, kind) = (end - start, common::D2D);
                    let from = at(recv, *start);
                    ok!(aclrtMemcpyAsync(to, bytes, from, bytes, kind, place.rank.stream));
                }
            }
        });
    }
}

#[test]
fn blocks_that_are_received_into_the_same_bytes_are_found() {
    static PLACES: [[u64; 2]; 2] = [[0, 255], [0, 256]];
    static COUNTS: [u64; 2] = [256; 2];
    const APART: [u64; 2] = [0, 256];
    let list = |words: &[u64; 2]| words.as_ptr().cast::<c_void>();
    for repaired in [false, true] {
        let places = &PLACES[usize::from(repaired)];
        let pieces =
            |name| ["overlap: bytes 1020..1024 of allocation #", "are touched twice", name];
        between_as(repaired, &pieces("HcclAllGatherV("), |p| {
            let (s, r, counts) = (p.memory(), p.memory(), list(&COUNTS));
            let (comm, stream) = (p.rank.comm, p.rank.stream);
            // One rank alone has the mistake, so there is one finding.
            let places = if p.is(1) { places } else { &APART };
            hccl!(HcclAllGatherV(s, 256, r, counts, list(places), F32, comm, stream));
        });
        between_as(repaired, &pieces("HcclAlltoAllV("), |p| {
            let (s, r, counts) = (p.memory(), p.memory(), list(&COUNTS));
            let (comm, stream) = (p.rank.comm, p.rank.stream);
            let to = if p.is(1) { places } else { &APART };
            // The blocks that are sent may share bytes.
            let from = list(&PLACES[0]);
            hccl!(HcclAlltoAllV(s, counts, from, F32, r, counts, list(to), F32, comm, stream));
        });
    }
}

#[test]
fn an_exchange_that_receives_into_what_it_sends_is_found() {
    for repaired in [false, true] {
        let pieces = ["overlap: bytes ", "are touched twice", "HcclAlltoAll("];
        between_as(repaired, &pieces, |p| {
            let both = p.memory();
            // Two blocks of 1,024 bytes are sent. One rank alone has the mistake.
            let to = at(both, if p.is(1) && !repaired { 2044 } else { 2048 });
            let (comm, stream) = (p.rank.comm, p.rank.stream);
            hccl!(HcclAlltoAll(both, 256, F32, to, 256, F32, comm, stream));
        });
        // An all-reduce may work in place.
        between_as(true, &[], |p| {
            let both = p.memory();
            hccl!(HcclAllReduce(both, both, 256, F32, SUM, p.rank.comm, p.rank.stream));
        });
    }
}
