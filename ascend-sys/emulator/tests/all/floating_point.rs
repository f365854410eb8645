//! Tests that results have the same bits on every thread, whatever floating-point settings the
//! thread of a rank has.

#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]

use ascend_emulator_testing::hccl;
use ascend_emulator_testing::ranks::on_ranks;
use ascend_sys::*;

/// Makes this thread round up and flush subnormal numbers to zero. The settings end with the
/// thread.
fn round_up_and_flush() {
    #[cfg(target_arch = "x86_64")]
    let control: u32 = 0x1F80 | 1 << 15 | 0b10 << 13 | 1 << 6;
    // SAFETY: the instruction loads four bytes of a local variable, and the value sets no reserved
    // bit.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const control, options(nostack));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the instruction writes a register that user code may write.
    unsafe {
        std::arch::asm!("msr fpcr, {}", in(reg) (1u64 << 24 | 0b01 << 22), options(nostack));
    }
}

/// Pairs of addends, each with its sum. 1 + 2^-24 is halfway to the next number and rounds to 1;
/// the other three sums involve subnormal numbers.
const PAIRS: [(u32, u32, u32); 4] = [
    (0x3F80_0000, 0x3380_0000, 0x3F80_0000),
    (1, 2, 3),
    (0x0040_0000, 0x0040_0000, 0x0080_0000),
    (0x0080_0000, 0x8000_0001, 0x007F_FFFF),
];

#[test]
fn a_rank_that_rounds_up_and_flushes_to_zero_changes_no_bit() {
    // The small count is sent with the arrival, and each rank reduces it for itself. The large
    // count is split into chunks that any rank may reduce.
    for count in [8, 600_000] {
        let of = |pick: fn(&(u32, u32, u32)) -> u32| -> Vec<u8> {
            (0..count).flat_map(|i| pick(&PAIRS[i % PAIRS.len()]).to_le_bytes()).collect()
        };
        let want = of(|pair| pair.2);
        let results = on_ranks(2, |rank| {
            let values = if rank.rank == 0 { of(|pair| pair.0) } else { of(|pair| pair.1) };
            let buffer = rank.upload(&values);
            if rank.rank == 1 {
                round_up_and_flush();
            }
            // Errors are counted instead of asserted: if one rank panicked, the other would wait
            // forever.
            let mut wrong = 0;
            for _ in 0..20 {
                let recv = rank.upload(&vec![0; values.len()]);
                let (fp32, sum) = (HcclDataType(4), HcclReduceOp(0));
                let (comm, stream) = (rank.comm, rank.stream);
                hccl!(HcclAllReduce(buffer, recv, count as u64, fp32, sum, comm, stream));
                rank.sync();
                wrong += u32::from(rank.download(recv, values.len()) != want);
                rank.free(recv);
            }
            wrong
        });
        assert_eq!(results, [0, 0], "{count} elements");
    }
}
