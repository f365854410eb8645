//! The CANN path: `Runtime::load_from` opens libraries with CANN's names by `dlopen` and fills the table from their
//! symbols, as on a server. Behind the symbols is the emulator.

use hccl::Backend;
use hccl::prelude::*;
use hccl_tests::installed_emulator;

fn runtime() -> Runtime {
    Runtime::load_from(installed_emulator()).unwrap()
}

#[test]
fn a_program_runs_over_dlopened_libraries() {
    let runtime = runtime();
    assert_eq!(runtime.backend(), Backend::Cann);
    let results = runtime
        .run_ranks(4, |rank| -> hccl::Result<(Vec<f32>, Vec<i32>, Vec<u8>)> {
            let device = rank.device();
            let stream = device.stream()?;
            let mut comm = rank.communicator()?;
            let (me, n) = (comm.rank(), comm.world_size());
            let x = device.upload(&vec![me as f32; 100_000], &stream)?;
            let mut sum = device.zeros::<f32>(100_000, &stream)?;
            comm.all_reduce(&x, &mut sum, Sum, &stream)?.wait()?;

            let right = device.upload(&[me as i32; 8], &stream)?;
            let mut left = device.zeros::<i32>(8, &stream)?;
            comm.batch()
                .send(&right, (me + 1) % n)
                .recv(&mut left, (me + n - 1) % n)
                .submit(&stream)?;

            let mut word = device.upload(&[me as u8; 3], &stream)?;
            comm.broadcast(&mut word, 2, &stream)?;
            comm.barrier(&stream)?.wait()?;
            Ok((
                sum.to_vec(&stream).wait()?,
                left.to_vec(&stream).wait()?,
                word.to_vec(&stream).wait()?,
            ))
        })
        .unwrap();
    for (me, (sum, left, word)) in results.into_iter().enumerate() {
        assert_eq!(sum, vec![6.0; 100_000]);
        assert_eq!(left, [(me as i32 + 3) % 4; 8]);
        assert_eq!(word, [2; 3]);
    }
}

#[test]
fn a_mismatch_over_dlopened_libraries_names_both_sides() {
    let error = runtime()
        .run_ranks(2, |rank| -> hccl::Result<()> {
            let stream = rank.device().stream()?;
            let mut comm = rank.communicator()?;
            comm.barrier(&stream)?.wait()?;
            let mut x =
                rank.device().zeros::<f32>(if rank.index() == 0 { 48 } else { 73 }, &stream)?;
            comm.all_reduce_in_place(&mut x, Sum, &stream)?.wait()
        })
        .unwrap_err()
        .to_string();
    for part in ["all_reduce", "48", "73"] {
        assert!(error.contains(part), "no {part} in: {error}");
    }
}

#[test]
fn a_folder_without_libraries_is_an_error_that_lists_what_was_tried() {
    let empty = installed_emulator().join("nothing-here");
    std::fs::create_dir_all(&empty).unwrap();
    let error = Runtime::load_from(&empty).expect_err("there is nothing").to_string();
    assert!(error.contains("libhccl.so") || error.contains("libacl_rt.so"), "{error}");
    assert!(error.contains("nothing-here"), "{error}");
}
