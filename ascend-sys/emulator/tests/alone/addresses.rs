//! Tests of blocks that take all addresses of the process, and of blocks that are created after
//! them.

use ascend_emulator_testing::common::*;
use ascend_emulator_testing::{alone, call, ok};
use ascend_sys::*;

const GIB: u64 = 1 << 30;

fn config(count: u32, memory: u64) -> AscendExtBlockConfig {
    AscendExtBlockConfig { deviceCount: count, memoryBytes: memory, ..Block::config() }
}

fn total(block: &Block) -> u64 {
    let (mut free, mut total) = (0, 0);
    ok!(aclrtSetDevice(block.first));
    ok!(aclrtGetMemInfo(aclrtMemAttr::ACL_HBM_MEM, &mut free, &mut total));
    ok!(aclrtResetDevice(block.first));
    total as u64
}

#[test]
fn a_block_that_asks_for_no_size_gets_what_is_left() {
    alone!();
    let _roomy = Block::with(config(2, 0));
    let mut taken = Vec::new();
    let mut memory = 16 << 40;
    // These blocks take all addresses except 64 GiB, in smaller and smaller pieces.
    while memory >= 2 * GIB {
        let (mut number, mut first) = (0, 0);
        if call!(ascendExtBlockCreate(&config(1, memory), &mut number, &mut first)) == 0 {
            taken.push(Block { number, first });
        } else {
            assert!(message().contains("no address space left for a block of 1"), "{}", message());
            memory /= 2;
        }
    }
    let spare = taken.iter().rposition(|block| total(block) >= 32 * GIB).unwrap();
    let mut left = total(&taken[spare]);
    drop(taken.remove(spare));
    // The smallest size of the last piece depends on the other mappings of the process.
    while left > 64 * GIB {
        left /= 2;
        taken.push(Block::with(config(1, left)));
    }
    let block = Block::with(config(4, 0));
    let found = total(&block);
    assert!((2 * GIB..64 * GIB).contains(&found), "{found}");
    drop(block);
    // A request for a size must get the whole size or an error.
    let (mut number, mut first) = (0, 0);
    let code = call!(ascendExtBlockCreate(&config(4, 64 * GIB), &mut number, &mut first));
    assert_ne!(code, 0);
    for absurd in [u64::MAX, u64::MAX / 2, 1 << 63] {
        let code = call!(ascendExtBlockCreate(&config(4, absurd), &mut number, &mut first));
        assert_ne!(code, 0, "{absurd}");
    }
}

#[test]
fn many_small_devices_fit_into_a_process_with_little_room() {
    alone!();
    // Each block has two ranges for devices and one for the host. Each range takes at most a fourth
    // of this limit.
    let limit = libc::rlimit { rlim_cur: 64 * GIB, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the limit applies to this process, in which only this test runs.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
    let blocks: Vec<_> = (0..16).map(|_| Block::with(config(2, GIB / 16))).collect();
    assert_eq!(total(&blocks[15]), GIB / 16);
}
