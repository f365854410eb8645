//! Communicators of rank tables, through the safe layer.

use std::path::PathBuf;
use std::time::Duration;

use hccl::prelude::*;
use hccl_tests::{both_backends, own_devices};

/// A file that is removed together with this value.
struct TableFile(PathBuf);

impl Drop for TableFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Makes a table of one server with `ranks` devices.
fn table(name: &str, ranks: u32) -> TableFile {
    let device = |rank| format!("{{\"device_id\": \"{rank}\", \"rank_id\": \"{rank}\"}}");
    let devices: Vec<_> = (0..ranks).map(device).collect();
    // Ranks with equal tables meet, also those of another process that runs these tests. So the
    // name is unique.
    let text = format!(
        "{{\"version\": \"1.0\", \"status\": \"completed\", \"server_count\": \"1\", \
         \"server_list\": [{{\"server_id\": \"{name}-{}\", \"device\": [{}]}}]}}",
        std::process::id(),
        devices.join(", ")
    );
    written(name, &text)
}

fn written(name: &str, text: &str) -> TableFile {
    let path = std::env::temp_dir().join(format!("hccl-{name}-{}.json", std::process::id()));
    std::fs::write(&path, text).unwrap();
    TableFile(path)
}

#[test]
fn ranks_of_a_table_compute_together_and_meet_again() {
    both_backends(|runtime| {
        let file = table("together", 2);
        for _ in 0..3 {
            let sums = runtime.run_ranks(2, |rank| {
                let config = CommConfig::builder().name("tables").build();
                let comm =
                    Communicator::from_rank_table(rank.device(), &file.0, rank.index(), config);
                let mut comm = comm.wait()?;
                assert_eq!((comm.rank(), comm.world_size()), (rank.index(), 2));
                assert_eq!(comm.name(), "tables");
                let stream = rank.device().stream()?;
                let mut x = rank.device().upload(&[1 + i64::from(rank.index())], &stream)?;
                let mut x32 = rank.device().upload(&[1 + rank.index() as i32], &stream)?;
                comm.all_reduce_in_place(&mut x32, Sum, &stream)?.wait()?;
                let mut half = comm.split(Some(0), rank.index()).wait()?;
                if let Some(half) = &mut half {
                    half.broadcast(&mut x, 0, &stream)?.wait()?;
                }
                Ok::<_, hccl::Error>((x32.to_vec(&stream).wait()?[0], x.to_vec(&stream).wait()?[0]))
            });
            assert_eq!(sums.unwrap(), [(3, 1), (3, 1)]);
        }
        // A helper thread calls the first operation of a communicator. Its own last steps may still
        // run when the operation is complete.
        let again_and_again = runtime.run_ranks(2, |rank| {
            let (stream, index) = (rank.device().stream()?, rank.index());
            for _ in 0..200 {
                let config = CommConfig::default();
                let comm = Communicator::from_rank_table(rank.device(), &file.0, index, config);
                comm.wait()?.barrier(&stream)?.wait()?;
            }
            Ok::<_, hccl::Error>(())
        });
        again_and_again.unwrap();
    });
}

#[test]
fn what_is_wrong_with_a_table_is_told_with_its_field() {
    both_backends(|runtime| {
        let device = runtime.device(0).unwrap();
        let make = |file: &TableFile, rank| {
            let pending =
                Communicator::from_rank_table(&device, &file.0, rank, CommConfig::default());
            pending.wait().map(drop).unwrap_err().to_string()
        };
        let good = table("good", 2);
        let text = std::fs::read_to_string(&good.0).unwrap();
        let bad = written("bad", &text.replace("\"device_id\": \"1\"", "\"device_id\": \"one\""));
        let error = make(&bad, 0);
        let piece = "server_list[0].device[1].device_id is \"one\", but must be a number";
        assert!(error.contains(piece), "{error}");
        assert!(error.contains("Communicator::from_rank_table"), "{error}");
        let error = make(&good, 1);
        assert!(error.contains("rank 1 is on device 1 in the rank table"), "{error}");
        let error = make(&good, 7);
        assert!(error.contains("rank 7 is not in the rank table; pass a rank below 2"), "{error}");
        let config = CommConfig::builder().name("").build();
        let refused = Communicator::from_rank_table(&device, &good.0, 0, config).wait();
        assert_eq!(refused.map(drop).unwrap_err().kind(), hccl::ErrorKind::Misuse);
        let path = "no\0table";
        let refused = Communicator::from_rank_table(&device, path, 0, CommConfig::default()).wait();
        assert!(refused.map(drop).unwrap_err().to_string().contains("has a NUL"));
    });
}

#[test]
fn ranks_of_a_table_that_do_not_come_are_missing_ranks() {
    let builder = own_devices().devices(3);
    let runtime = builder.connect_timeout(Duration::from_secs(3)).build().unwrap();
    let file = table("missing", 3);
    let ranks = [0, 2].map(|rank: u32| {
        let device = runtime.device(rank as usize).unwrap();
        Communicator::from_rank_table(&device, &file.0, rank, CommConfig::default())
    });
    for pending in ranks {
        let error = pending.wait().map(drop).unwrap_err();
        assert_eq!(error.kind(), hccl::ErrorKind::Timeout, "{error}");
        assert_eq!(error.missing_ranks(), [1], "{error}");
    }
}
