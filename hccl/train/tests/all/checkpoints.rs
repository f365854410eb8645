//! Tests of checkpoints.

use hccl::prelude::*;
use hccl_train::{ArrayPart, Checkpoints, Result, Shards};

use crate::on_ranks;

#[test]
fn a_checkpoint_is_read_with_another_number_of_ranks() {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("checkpoints");
    let _ = std::fs::remove_dir_all(&directory);
    let value = |at: usize| (at as f32).sqrt();
    const TOTAL: usize = 11;
    on_ranks(|rank, comm, stream| {
        let ranks = rank.world_size() as usize;
        let saved = Checkpoints::new(directory.join(ranks.to_string()));
        assert_eq!(saved.latest(), None);
        let shards = Shards::<f32>::new(&[TOTAL], comm, stream)?;
        // The remains of a training that was ended during a save.
        let stale = directory.join(ranks.to_string()).join("unfinished-12");
        std::fs::create_dir_all(&stale).unwrap();
        std::fs::write(stale.join("weights.0-1.part"), b"old").unwrap();
        comm.barrier(stream)?.wait()?;
        for step in [3, 12, 12] {
            let values: Vec<f32> = shards.own().map(|at| value(at) + step as f32).collect();
            let own = shards.own();
            let part = ArrayPart { name: "weights", total: TOTAL, own, values: &values };
            saved.save(step, &[part], comm, stream)?;
            assert_eq!(saved.latest(), Some(step));
        }
        // Any other number of ranks can load it.
        for others in 1..=5 {
            let share = TOTAL.div_ceil(others);
            for other in 0..others {
                let range = TOTAL.min(other * share)..TOTAL.min((other + 1) * share);
                let expected: Vec<f32> = range.clone().map(|at| value(at) + 12.0).collect();
                assert_eq!(saved.load::<f32>(12, "weights", range)?, expected);
            }
        }
        let said = |outcome: Result<Vec<f32>>, piece: &str| {
            let text = outcome.expect_err(piece).to_string();
            assert!(text.contains(piece), "{piece:?} is not in: {text}");
        };
        said(saved.load(12, "weights", 0..12), "has no element 11 of the array \"weights\"");
        said(saved.load(12, "bias", 0..1), "has no element 0 of the array \"bias\"");
        said(saved.load(4, "weights", 0..1), "step-4");
        let wrong = saved.load::<f16>(12, "weights", 0..1).expect_err("another type");
        assert!(wrong.to_string().contains("of another type, f32, not f16"), "{wrong}");
        // If one rank cannot write its part, the save fails on all ranks, and the step does not
        // exist.
        let last = rank.index() + 1 == rank.world_size();
        let name = if last { "no/name" } else { "name" };
        let part = ArrayPart::<f32> { name, total: 0, own: 0..0, values: &[] };
        let failed = saved.save(20, &[part], comm, stream).expect_err("a name").to_string();
        assert!(failed.contains(&format!("rank {}:", ranks - 1)), "{failed}");
        assert_eq!(saved.latest(), Some(12));
        Ok(())
    });
}

#[test]
fn a_checkpoint_that_could_not_be_loaded_is_not_saved() {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("not-covered");
    let _ = std::fs::remove_dir_all(&directory);
    on_ranks(|rank, comm, stream| {
        if rank.world_size() != 2 {
            return Ok(());
        }
        let saved = Checkpoints::new(&directory);
        let own = rank.index() as usize;
        let mut fails =
            |steps: [u64; 2], totals: [usize; 2], parts: &[[(usize, usize); 2]], text| {
                let values = [1.0_f32; 9];
                let parts: Vec<_> = parts
                    .iter()
                    .map(|part| part[own])
                    .map(|(start, end)| ArrayPart {
                        name: "w",
                        total: totals[own],
                        own: start..end,
                        values: &values[start..end],
                    })
                    .collect();
                let why = saved.save(steps[own], &parts, comm, stream).expect_err(text).to_string();
                assert!(why.contains(text), "{text:?} is not in: {why}");
            };
        let halves = [(0, 3), (3, 6)];
        fails([1, 1], [9, 9], &[halves], "no rank has element 6 of the array \"w\"");
        fails([1, 1], [6, 6], &[[(1, 3), (3, 6)]], "no rank has element 0");
        fails([1, 1], [6, 6], &[[(0, 2), (3, 6)]], "no rank has element 2");
        fails([1, 1], [6, 6], &[[(0, 5), (1, 6)]], "ranks 0 and 1 both have element 1");
        fails([1, 1], [6, 6], &[[(0, 6), (0, 6)]], "both have element 0");
        fails([1, 1], [6, 6], &[halves, halves], "both have element 0");
        fails([1, 1], [6, 7], &[halves], "is 6 on rank 0, but 7 on rank 1");
        fails([10, 11], [6, 6], &[halves], "saves step 1");
        assert_eq!(saved.latest(), None);
        assert!(!directory.join("unfinished-1").exists());
        Ok(())
    });
}

#[test]
fn a_save_never_deletes_an_array_of_the_same_step() {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("twice");
    on_ranks(|rank, comm, stream| {
        let saved = Checkpoints::new(directory.join(comm.world_size().to_string()));
        if rank.index() == 0 {
            let _ = std::fs::remove_dir_all(directory.join(comm.world_size().to_string()));
        }
        let own = if rank.index() == 0 { 0..2 } else { 2..2 };
        let save = |names: &[&str], value: f32, comm: &mut Communicator| {
            let values = vec![value; own.len()];
            let part = |name| ArrayPart { name, total: 2, own: own.clone(), values: &values };
            let parts: Vec<_> = names.iter().map(|name| part(*name)).collect();
            saved.save(5, &parts, comm, stream)
        };
        save(&["w"], 1.0, comm)?;
        let why = save(&["state"], 2.0, comm).unwrap_err().to_string();
        assert!(
            why.contains("has the array \"w\" already") && why.contains("in one call"),
            "{why}"
        );
        assert_eq!(saved.load::<f32>(5, "w", 0..2)?, [1.0; 2]);
        save(&["state", "w"], 3.0, comm)?;
        assert_eq!(saved.load::<f32>(5, "w", 0..2)?, [3.0; 2]);
        Ok(())
    });
}

#[test]
fn a_part_of_a_checkpoint_that_was_damaged_is_refused() {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("damaged");
    let _ = std::fs::remove_dir_all(&directory);
    let step = directory.join("step-1");
    std::fs::create_dir_all(&step).unwrap();
    let saved = Checkpoints::new(&directory);
    for (bytes, piece) in [
        (&b"short"[..], "failed to fill"),
        (b"another!f32\0\0\0\0\0\0\0\0\0\0\0\0\0", "not a part of a checkpoint"),
        (b"hccltr02f32\0\0\0\0\0\0\0\0\0\0\0\0", "does not fit the range"),
        (b"hccltr02bf16\0\0\0\0\0\0\0\0\0\0\0\0", "of another type, bf16, not f32"),
        (b"hccltr02f32\0\0\0\0\0\0\0\x80\x3f\0\0\0\0", "elements 0 to 0 of this part were damaged"),
    ] {
        std::fs::write(step.join("w.0-1.part"), bytes).unwrap();
        let why = saved.load::<f32>(1, "w", 0..1).expect_err(piece).to_string();
        assert!(why.contains(piece), "{piece:?} is not in: {why}");
    }
}

#[test]
fn a_changed_bit_anywhere_in_a_part_is_refused_by_those_who_read_it() {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("bits");
    let _ = std::fs::remove_dir_all(&directory);
    let saved = Checkpoints::new(&directory);
    // Two whole blocks of 65,536 elements, and 3 more.
    let values: Vec<bf16> = (0..2 * 65_536 + 3).map(|at| bf16::from_bits(at as u16)).collect();
    let runtime = Runtime::emulator(1).unwrap();
    let written = runtime.run_ranks(1, |rank| -> Result<()> {
        let (stream, mut comm) = (rank.device().stream()?, rank.communicator()?);
        let own = 0..values.len();
        let part = ArrayPart { name: "w", total: values.len(), own, values: &values };
        saved.save(1, &[part], &mut comm, &stream)
    });
    written.unwrap();
    let bits = |values: &[bf16]| values.iter().map(|it| it.to_bits()).collect::<Vec<_>>();
    let load = |range: std::ops::Range<usize>| saved.load::<bf16>(1, "w", range);
    for range in [0..values.len(), 5..5, 7..8, 65_535..65_537, 65_536..131_072, 131_070..131_075] {
        assert_eq!(bits(&load(range.clone()).unwrap()), bits(&values[range]));
    }
    let file = directory.join(format!("step-1/w.0-{}.part", values.len()));
    let whole = std::fs::read(&file).unwrap();
    for at in [0, 8, 16, 100_000, 131_088, 200_000, whole.len() - 1] {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        std::fs::write(&file, bytes).unwrap();
        assert!(load(0..values.len()).is_err(), "byte {at}");
    }
    // The last changed byte is the checksum of the last block, which this range does not need.
    assert_eq!(bits(&load(0..65_537).unwrap()), bits(&values[..65_537]));
    std::fs::write(&file, &whole[..whole.len() - 1]).unwrap();
    assert!(load(0..1).is_err());
}

#[test]
fn a_checkpoint_whose_replacement_was_cut_short_is_the_older_one() {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("replaced");
    let _ = std::fs::remove_dir_all(&directory);
    let saved = Checkpoints::new(&directory);
    let runtime = Runtime::emulator(1).unwrap();
    let save = |value: f32| {
        let done = runtime.run_ranks(1, |rank| -> Result<()> {
            let (stream, mut comm) = (rank.device().stream()?, rank.communicator()?);
            let part = ArrayPart { name: "w", total: 2, own: 0..2, values: &[value; 2] };
            saved.save(3, &[part], &mut comm, &stream)
        });
        done.unwrap();
    };
    save(1.0);
    // The training ended between the two renames.
    std::fs::rename(directory.join("step-3"), directory.join("replaced-3")).unwrap();
    assert_eq!(saved.latest(), Some(3));
    assert_eq!(saved.load::<f32>(3, "w", 0..2).unwrap(), [1.0; 2]);
    for value in [2.0, 3.0] {
        save(value);
        assert_eq!(saved.load::<f32>(3, "w", 0..2).unwrap(), [value; 2]);
        assert!(!directory.join("replaced-3").exists());
    }
    let why = saved.load::<f32>(3, "w", 0..usize::MAX).unwrap_err().to_string();
    assert!(why.contains("has no element 2"), "{why}");
}

#[test]
fn ranks_that_save_different_types_are_told_so() {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("types");
    let _ = std::fs::remove_dir_all(&directory);
    let saved = Checkpoints::new(&directory);
    let runtime = Runtime::emulator(2).unwrap();
    let texts = runtime.run_ranks(2, |rank| -> Result<String> {
        let (stream, mut comm) = (rank.device().stream()?, rank.communicator()?);
        let (name, total) = ("w", 4);
        let failed = match rank.index() {
            0 => {
                let part = ArrayPart { name, total, own: 0..2, values: &[1.0_f32; 2] };
                saved.save(1, &[part], &mut comm, &stream)
            }
            _ => {
                let part = ArrayPart { name, total, own: 2..4, values: &[1.0_f64; 2] };
                saved.save(1, &[part], &mut comm, &stream)
            }
        };
        Ok(failed.unwrap_err().to_string())
    });
    let texts = texts.unwrap();
    assert!(
        texts[0].contains("rank 0 saves elements of type f32, but rank 1 of type f64"),
        "{texts:?}"
    );
    assert!(
        texts[1].contains("rank 1 saves elements of type f64, but rank 0 of type f32"),
        "{texts:?}"
    );
    assert_eq!(saved.latest(), None);
}
