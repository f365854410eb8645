//! Steps of candle's models on one to four ranks, compared with the results of one rank alone.

mod data_parallel;
mod digits;
mod tensor_parallel;

use candle_core::{Device, Tensor};
use hccl::prelude::*;
use hccl_candle::Result;

/// Runs a closure on each rank, and returns the results of all ranks.
fn on_ranks<T: Send>(
    ranks: u32,
    run: impl Fn(&Rank, Communicator, Stream) -> Result<T> + Sync,
) -> Vec<T> {
    let runtime = Runtime::emulator(ranks as usize).unwrap();
    let of_ranks = runtime.run_ranks(ranks, |rank| {
        let (comm, stream) = (rank.communicator()?, rank.device().stream()?);
        run(&rank, comm, stream)
    });
    of_ranks.unwrap()
}

/// Returns a tensor of numbers between -1 and 1 without an evident pattern.
fn numbers(rows: usize, columns: usize, seed: usize) -> Tensor {
    let number = |at: usize| ((at * 7919 + seed * 104_729) % 1000) as f32 / 500.0 - 1.0;
    let numbers: Vec<f32> = (0..rows * columns).map(number).collect();
    Tensor::from_vec(numbers, (rows, columns), &Device::Cpu).unwrap()
}

fn flat(tensor: &Tensor) -> Vec<f32> {
    let tensor = tensor.to_dtype(candle_core::DType::F32).unwrap();
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

fn assert_near(given: &Tensor, expected: &Tensor) {
    assert_eq!(given.dims(), expected.dims());
    for (given, expected) in flat(given).into_iter().zip(flat(expected)) {
        assert!((given - expected).abs() <= 1e-4, "{given} is not {expected}");
    }
}

/// Asserts that the outcome is an error whose text contains this piece.
fn said<T>(outcome: Result<T>, piece: &str) {
    let text = outcome.err().expect(piece).to_string();
    assert!(text.contains(piece), "{piece:?} is not in: {text}");
}
