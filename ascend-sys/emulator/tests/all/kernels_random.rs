//! Random small kernels: vectors and collectives in any order, on several ranks and blocks. Each
//! kernel runs twice, and both results must equal, bit for bit, those of a plain loop over the
//! elements. `HCCL_TEST_FULL=1` runs more of them.

use ascend_emulator_testing::random_kernel::{Sample, bytes};
use ascend_emulator_testing::ranks;
use fastrand::Rng;

#[test]
fn a_random_kernel_gives_the_same_bits_twice_and_the_right_ones() {
    let rounds = if ranks::full() { 1000 } else { 60 };
    for seed in 0..rounds {
        let mut random = Rng::with_seed(seed);
        let sample = Sample::new(&mut random);
        let program = sample.program();
        let mut input = || (0..sample.length).map(|_| random.f32() * 3.0 - 1.5).collect();
        let inputs: Vec<Vec<f32>> = (0..sample.ranks).map(|_| input()).collect();
        let expected = sample.expected(&inputs);
        for round in 0..2 {
            let found = sample.run(&program, &inputs);
            for (rank, (found, expected)) in found.iter().zip(&expected).enumerate() {
                for (stage, (found, expected)) in found.iter().zip(expected).enumerate() {
                    let expected = bytes(expected);
                    let differs = found.iter().zip(&expected).position(|(a, b)| a != b);
                    assert!(
                        *found == expected,
                        "seed {seed}, run {round}, rank {rank}, stage {stage}, byte {differs:?} of\n{program}"
                    );
                }
            }
        }
    }
}
