use std::path::Path;

use ascend_emulator_testing::common::{Block, write};
use ascend_emulator_testing::cpu_kernels::{compile, host_reads, load};
use ascend_emulator_testing::ok;

use super::pair::other;
use super::{c, exported, import};

const BYTES: usize = 4096;

/// Checks that a CPU kernel finds the exporter's data at the address of imported memory. The import
/// may come before or after the process loads CPU kernels.
#[test]
fn imported_memory_is_opened_to_cpu_kernels_too() {
    let Some(mut other) =
        other("ipc::opened::imported_memory_is_opened_to_cpu_kernels_too", |talk| {
            let first_key = talk.next();
            let first = import(&first_key);
            assert_eq!(host_reads(first, BYTES), None);
            load(&compile(Path::new(env!("CARGO_TARGET_TMPDIR"))));
            assert_eq!(host_reads(first, BYTES), Some(vec![3; BYTES]));
            talk.say("opened");
            let second = import(&talk.next());
            assert_eq!(host_reads(second, BYTES), Some(vec![4; BYTES]));
            // It is the same memory, and not a copy.
            write(second, &[5; BYTES]);
            assert_eq!(host_reads(second, BYTES), Some(vec![5; BYTES]));
            ok!(aclrtIpcMemClose(c(&first_key).as_ptr()));
            talk.say("written");
            talk.next();
        })
    else {
        return;
    };
    let _block = Block::one();
    let (_, first) = exported(&[3; BYTES]);
    let (memory, second) = exported(&[4; BYTES]);
    assert_eq!(other.ask(&first), "opened");
    assert_eq!(other.ask(&second), "written");
    // This process has loaded no CPU kernels.
    assert_eq!(host_reads(memory, BYTES), None);
    assert_eq!(ascend_emulator_testing::common::read(memory, BYTES), [5; BYTES]);
    other.say("end");
    other.end();
}
