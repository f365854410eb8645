//! Tests of communicators that are made from rank tables by `HcclCommInitClusterInfo` and
//! `HcclCommInitClusterInfoConfig`.

use ascend_emulator_testing::common::*;
use ascend_emulator_testing::ranks;
use ascend_emulator_testing::{call, hccl, ok, refuses};
use ascend_sys::*;
use std::ffi::CString;
use std::path::PathBuf;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

/// A file that is removed when the value is dropped.
struct File(PathBuf);

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl File {
    fn new(name: &str, text: &str) -> File {
        let path = std::env::temp_dir().join(format!("{name}-{}.json", std::process::id()));
        std::fs::write(&path, text).unwrap();
        File(path)
    }

    fn path(&self) -> CString {
        CString::new(self.0.to_str().unwrap()).unwrap()
    }
}

/// Returns the file of a table of version 1.0: one server, with one device for each rank.
fn one_server(name: &str, ranks: u32) -> File {
    let device = |rank| format!("{{\"device_id\": \"{rank}\", \"rank_id\": \"{rank}\"}}");
    let devices: Vec<_> = (0..ranks).map(device).collect();
    // The process id makes the table unique, because ranks with equal tables meet even across
    // processes.
    let text = format!(
        "{{\"version\": \"1.0\", \"status\": \"completed\", \"server_count\": \"1\",\n\
         \"server_list\": [{{\"server_id\": \"{name}-{}\", \"device\": [{}]}}]}}",
        std::process::id(),
        devices.join(", ")
    );
    File::new(name, &text)
}

fn join(path: &CString, rank: u32) -> HcclComm {
    let mut comm = null_mut();
    hccl!(HcclCommInitClusterInfo(path.as_ptr(), rank, &mut comm));
    comm
}

/// Returns the rank and the number of ranks that a communicator reports, and the sum of the numbers
/// of all ranks.
fn sum_of_ranks(comm: HcclComm) -> [u32; 3] {
    let (mut rank, mut ranks) = (0, 0);
    hccl!(HcclGetRankId(comm, &mut rank));
    hccl!(HcclGetRankSize(comm, &mut ranks));
    let (x, stream) = (malloc(4), stream());
    write(x, &rank.to_le_bytes());
    let (dtype, sum) = (HcclDataType::HCCL_DATA_TYPE_INT32, HcclReduceOp::HCCL_REDUCE_SUM);
    hccl!(HcclAllReduce(x, x, 1, dtype, sum, comm, stream));
    ok!(aclrtSynchronizeStream(stream));
    [rank, ranks, u32::from_le_bytes(read(x, 4).try_into().unwrap())]
}

/// Runs ranks on the devices of a block, each in a thread of its own.
fn on_devices<R: Send>(block: &Block, ranks: u32, run: impl Fn(u32) -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..ranks)
            .map(|rank| {
                let run = &run;
                scope.spawn(move || {
                    ok!(aclrtSetDevice(block.first + rank as i32));
                    run(rank)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn the_ranks_of_a_table_meet_and_meet_again() {
    let (file, block) = (one_server("meets", 4), Block::new(4));
    let path = file.path();
    for _ in 0..3 {
        let sums = on_devices(&block, 4, |rank| {
            let comm = join(&path, rank);
            let sums = sum_of_ranks(comm);
            let mut name = [0_u8; 128];
            hccl!(HcclGetCommName(comm, name.as_mut_ptr().cast()));
            assert!(name.starts_with(b"hccl_world_group\0"));
            // A device can be in only one such communicator at a time.
            let mut other = null_mut();
            refuses!(
                HCCL_E_UNAVAIL,
                ["is already in a communicator of a rank table"],
                HcclCommInitClusterInfo(path.as_ptr(), rank, &mut other)
            );
            hccl!(HcclCommDestroy(comm));
            sums
        });
        assert_eq!(sums, [[0, 4, 6], [1, 4, 6], [2, 4, 6], [3, 4, 6]]);
    }
}

/// Joins by two files with the same contents in different layouts, and by a third file with other
/// contents.
#[test]
fn tables_are_the_same_by_their_contents() {
    let block = Block::new(4);
    let first = one_server("same", 2);
    let text = std::fs::read_to_string(&first.0).unwrap().replace(", ", ",\n\t");
    let second = File::new("same-again", &text);
    let text = text.replace("same", "other").replace("\"0\"", "\"2\"").replace("\"1\"", "\"3\"");
    let text = text
        .replace("\"rank_id\": \"2\"", "\"rank_id\": \"0\"")
        .replace("\"rank_id\": \"3\"", "\"rank_id\": \"1\"")
        .replace("\"server_count\": \"3\"", "\"server_count\": \"1\"");
    let other = File::new("other", &text);
    let paths = [first.path(), second.path(), other.path(), other.path()];
    let sums = on_devices(&block, 4, |device| {
        let comm = join(&paths[device as usize], device % 2);
        let sums = sum_of_ranks(comm);
        hccl!(HcclCommDestroy(comm));
        sums
    });
    assert_eq!(sums, [[0, 2, 1], [1, 2, 1], [0, 2, 1], [1, 2, 1]]);
}

/// Checks a table of several servers. They are other machines, so the devices here need not have
/// the numbers that the table gives.
#[test]
fn tables_of_several_servers_have_any_devices() {
    let server = |number: u32| {
        format!(
            "{{\"server_id\": \"node-{number}-{}\", \"device\": [{{\"device_id\": \"0\", \"device_ip\": \"10.0.0.{number}\", \"rank_id\": \"{number}\"}}]}}",
            std::process::id()
        )
    };
    let text = format!(
        "{{\"version\": \"1.0\", \"status\": \"completed\", \"server_count\": \"2\", \"server_list\": [{}, {}]}}",
        server(0),
        server(1)
    );
    let (file, block) = (File::new("servers", &text), Block::new(2));
    let path = file.path();
    let sums = on_devices(&block, 2, |rank| sum_of_ranks(join(&path, rank)));
    assert_eq!(sums, [[0, 2, 1], [1, 2, 1]]);
}

/// Makes the calls of all ranks in one thread.
#[test]
fn a_group_joins_for_several_ranks() {
    let (file, block) = (one_server("grouped", 2), Block::new(2));
    let path = file.path();
    let mut comms = [null_mut(); 2];
    hccl!(HcclGroupStart());
    for (rank, comm) in comms.iter_mut().enumerate() {
        ok!(aclrtSetDevice(block.first + rank as i32));
        hccl!(HcclCommInitClusterInfo(path.as_ptr(), rank as u32, comm));
    }
    hccl!(HcclGroupEnd());
    for (rank, comm) in comms.into_iter().enumerate() {
        let mut found = 9;
        hccl!(HcclGetRankId(comm, &mut found));
        assert_eq!(found, rank as u32);
        hccl!(HcclCommDestroy(comm));
    }
}

#[test]
fn a_configuration_names_the_communicator_and_ranks_agree_about_it() {
    let (file, block) = (one_server("named", 2), Block::new(2));
    let path = file.path();
    let named = |rank: u32, name: &str| {
        let mut config = ranks::config(name);
        let mut comm = null_mut();
        let code =
            call!(HcclCommInitClusterInfoConfig(path.as_ptr(), rank, &mut config, &mut comm));
        (code, comm, message())
    };
    let names = on_devices(&block, 2, |rank| {
        let (code, comm, text) = named(rank, "tables");
        assert_eq!(code, HcclResult::HCCL_SUCCESS, "{text}");
        let mut name = [0_u8; 128];
        hccl!(HcclGetCommName(comm, name.as_mut_ptr().cast()));
        hccl!(HcclCommDestroy(comm));
        name.starts_with(b"tables\0")
    });
    assert_eq!(names, [true, true]);
    let texts = on_devices(&block, 2, |rank| named(rank, ["one", "two"][rank as usize]).2);
    assert!(texts.iter().all(|text| text.contains("the configurations differ")), "{texts:?}");
}

#[test]
fn what_is_wrong_with_a_call_is_told_before_anybody_waits() {
    let (file, block) = (one_server("wrong", 2), Block::new(3));
    let (path, mut comm) = (file.path(), null_mut());
    let null = std::ptr::null();
    ok!(aclrtSetDevice(block.first));
    refuses!(HCCL_E_PTR, ["clusterInfo"], HcclCommInitClusterInfo(null, 0, &mut comm));
    refuses!(HCCL_E_PTR, ["comm"], HcclCommInitClusterInfo(path.as_ptr(), 0, null_mut()));
    refuses!(
        HCCL_E_PTR,
        ["config"],
        HcclCommInitClusterInfoConfig(path.as_ptr(), 0, null_mut(), &mut comm)
    );
    refuses!(
        HCCL_E_PARA,
        ["rank 2 is not in the rank table; pass a rank below 2"],
        HcclCommInitClusterInfo(path.as_ptr(), 2, &mut comm)
    );
    refuses!(
        HCCL_E_PARA,
        [
            "rank 1 is on device 1 in the rank table, and the current device is 0",
            "aclrtSetDevice(1)"
        ],
        HcclCommInitClusterInfo(path.as_ptr(), 1, &mut comm)
    );
    let long = CString::new("x".repeat(4096)).unwrap();
    refuses!(
        HCCL_E_PARA,
        ["has 4096 bytes, and 4095 are the most"],
        HcclCommInitClusterInfo(long.as_ptr(), 0, &mut comm)
    );
    for (text, piece) in [
        ("", "is not JSON: EOF while parsing"),
        ("{\"version\": \"1.0\",\n ]", "at line 2 column 2"),
        ("\u{0}", "is not JSON"),
    ] {
        let file = File::new("no-json", text);
        refuses!(
            HCCL_E_INTERNAL,
            ["EI0004", "cannot be read", piece],
            HcclCommInitClusterInfo(file.path().as_ptr(), 0, &mut comm)
        );
    }
    let directory = CString::new(std::env::temp_dir().to_str().unwrap()).unwrap();
    for (path, piece) in
        [(c"/no/such/file", "No such file"), (directory.as_c_str(), "it is not a regular file")]
    {
        refuses!(
            HCCL_E_INTERNAL,
            ["EI0004", piece],
            HcclCommInitClusterInfo(path.as_ptr(), 0, &mut comm)
        );
    }
    let file = File::new("missing", "{\"version\": \"1.0\", \"status\": \"completed\"}");
    refuses!(
        HCCL_E_PARA,
        ["EI0017", "missing-", "server_count is missing"],
        HcclCommInitClusterInfo(file.path().as_ptr(), 0, &mut comm)
    );
}

#[test]
fn ranks_that_do_not_come_are_named() {
    let file = one_server("alone", 3);
    let block = Block::with(ranks::impatient_to_meet(3));
    let path = file.path();
    let texts = on_devices(&block, 2, |rank| {
        let mut comm = null_mut();
        let code = call!(HcclCommInitClusterInfo(path.as_ptr(), rank, &mut comm));
        (code, message())
    });
    for (code, text) in texts {
        assert_eq!(code, HcclResult::HCCL_E_TIMEOUT, "{text}");
        let seconds = f64::from(ranks::limit()) / 1000.0;
        let said =
            format!("rank 2 of 3 did not call HcclCommInitClusterInfo within {seconds:.1} s");
        assert!(text.contains(&said), "{text}");
    }
}

/// Checks that a pipe without a writer is not a table, and that a group does not join the same
/// device to two tables.
#[test]
fn a_pipe_is_no_table_and_a_group_does_not_join_twice() {
    let (first, second, block) = (one_server("first", 1), one_server("second", 1), Block::new(1));
    ok!(aclrtSetDevice(block.first));
    let pipe = CString::new(first.0.with_extension("pipe").to_str().unwrap()).unwrap();
    // SAFETY: the path ends with a NUL.
    assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
    let mut comms = [null_mut(); 2];
    refuses!(
        HCCL_E_INTERNAL,
        ["it is not a regular file"],
        HcclCommInitClusterInfo(pipe.as_ptr(), 0, &mut comms[0])
    );
    std::fs::remove_file(pipe.to_str().unwrap()).unwrap();
    hccl!(HcclGroupStart());
    for (comm, file) in comms.iter_mut().zip([&first, &second]) {
        hccl!(HcclCommInitClusterInfo(file.path().as_ptr(), 0, comm));
    }
    hccl!(HcclGroupEnd());
    assert!(!comms[0].is_null() && comms[1].is_null(), "{comms:?}");
    hccl!(HcclCommDestroy(comms[0]));
}

/// Resets the device of a rank while the rank waits in the call for the other rank. The call must
/// return at once, and the table can be used again.
#[test]
fn ranks_on_a_device_that_ends_are_gone_and_the_table_can_be_used_again() {
    let (file, block) = (one_server("ends", 2), Block::new(2));
    let path = file.path();
    let text = std::thread::scope(|scope| {
        // If the device is reset before the thread is in the call, the loop tries again.
        let waits = scope.spawn(|| {
            let began = Instant::now();
            loop {
                ok!(aclrtSetDevice(block.first));
                let mut comm = null_mut();
                let _ = message();
                let code = call!(HcclCommInitClusterInfo(path.as_ptr(), 0, &mut comm));
                let text = message();
                if code == HcclResult::HCCL_E_REMOTE {
                    break text;
                }
                assert!(began.elapsed() < Duration::from_secs(120), "{text}");
            }
        });
        while !waits.is_finished() {
            std::thread::sleep(Duration::from_millis(50));
            ok!(aclrtSetDevice(block.first));
            ok!(aclrtResetDeviceForce(block.first));
        }
        waits.join().unwrap()
    });
    let piece = "rank 0 is gone (aclrtResetDeviceForce ended its device)";
    assert!(text.contains(piece), "{text}");
    let sums = on_devices(&block, 2, |rank| sum_of_ranks(join(&path, rank)));
    assert_eq!(sums, [[0, 2, 1], [1, 2, 1]]);
}

/// Lets two blocks use the same table. Their ranks join in an order in which they could mix.
#[test]
fn ranks_of_two_blocks_do_not_meet_by_one_table() {
    let (file, blocks) = (one_server("blocks", 2), [Block::new(2), Block::new(2)]);
    let path = file.path();
    std::thread::scope(|scope| {
        for (block, rank) in [(0, 0), (1, 1), (1, 0), (0, 1)] {
            let (path, blocks) = (&path, &blocks);
            scope.spawn(move || {
                ok!(aclrtSetDevice(blocks[block].first + rank as i32));
                let comm = join(path, rank);
                assert_eq!(sum_of_ranks(comm), [rank, 2, 1]);
                hccl!(HcclCommDestroy(comm));
            });
        }
    });
}
