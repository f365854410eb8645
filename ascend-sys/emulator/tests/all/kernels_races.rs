//! Tests of kernels in checked mode. A kernel counts as one operation that touches all the memory
//! that it and its server touch.

use ascend_emulator_testing::common::*;
use ascend_emulator_testing::kernel::*;
use ascend_emulator_testing::kernel::{self, build::Builder};
use ascend_emulator_testing::{fails, ok};
use ascend_program::layout::Number;
use ascend_program::step::*;
use ascend_program::{Core, Mix};
use ascend_sys::*;
use std::ptr::null_mut;

/// Returns two ranks of a checked block, ready to run a reduce-scatter of two turns.
fn together() -> Together {
    let check = AscendExtCheck::ASCEND_EXT_CHECK_RACES.0;
    let block = Block::with(AscendExtBlockConfig { deviceCount: 2, check, ..Block::config() });
    let call = Call::new(REDUCE_SCATTER, 0, 8, 16, 2);
    Together::on(block, 2, &kernel::kernel(&[call], Number::I32, 2), &[REDUCE_SCATTER], 128)
}

fn findings(together: &Together) -> Vec<String> {
    let (number, mut count) = (together.block.number, 0);
    ok!(ascendExtFindings(number, &mut count));
    let tell = |index| {
        let (mut text, mut length) = (vec![0u8; 4000], 0);
        let form = AscendExtFindingForm::ASCEND_EXT_FINDING_TEXT;
        let to = text.as_mut_ptr().cast();
        ok!(ascendExtFinding(number, index, form, to, text.len(), &mut length));
        text.truncate(length);
        String::from_utf8(text).unwrap()
    };
    (0..count).map(tell).collect()
}

#[test]
fn a_kernel_that_is_waited_for_races_with_nothing() {
    let together = together();
    for round in 0..3 {
        for (rank, _, [x, y]) in &together.ranks {
            ok!(aclrtSetDevice(rank.device));
            write(*x, &ints((0..32).map(|n| n * round)));
            ok!(aclrtMemset(*y, 128, 0xff, 128));
        }
        together.run_all(2);
        for (rank, _, [_, y]) in &together.ranks {
            ok!(aclrtSetDevice(rank.device));
            assert_eq!(to_ints(&read(*y, 64))[0], 2 * rank.rank as i32 * 16 * round);
        }
    }
    assert_eq!(findings(&together), Vec::<String>::new());
    together.end();
}

#[test]
fn what_nothing_orders_against_a_kernel_is_found() {
    let together = together();
    for (rank, ready, tensors) in &together.ranks {
        ok!(aclrtSetDevice(rank.device));
        ready.serve();
        ready.run(rank, 2, tensors);
    }
    let (rank, _, [_, y]) = &together.ranks[0];
    ok!(aclrtSetDevice(rank.device));
    let other = stream();
    ok!(aclrtMemsetAsync(*y, 128, 0, 64, other));
    ok!(aclrtSynchronizeDevice());
    let found = findings(&together);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].contains("kernel kernel") && found[0].contains("fill of 64"), "{found:#?}");
    together.end();
}

/// Checks a product whose number of rows is read from memory, so that it can be any number. The
/// memory that a product touches must be recorded only after the check that this memory exists.
#[test]
fn a_product_of_more_rows_than_there_is_memory_is_refused() {
    let mut b = Builder::new(Mix::MixAic11);
    b.program.groups = 0;
    b.program.tiling = Some(build::tiling_layout(0));
    let (x, y) = (b.input("x", Number::F16), b.output("y", Number::F16));
    let (counts, v) = (b.input("counts", Number::U64), b.variable("v", Number::U64));
    let from = b.at(counts, 0);
    b.step(Step::Read(v, Read::Global(from)));
    let (rows, n, matmul) = (b.get(v), b.n(16), b.matmul("mm", Number::F16, None, 64));
    let [left, right, c] = [x, x, y].map(|base| b.at(base, 0));
    let (a, b_of, bias, pitches) = (left, right, None, [n; 3]);
    let multiply = Multiply { matmul, a, b: b_of, c, bias, rows, columns: n, depth: n, pitches };
    b.on(Core::Aic, |b| b.step(Step::Matmul(multiply)));

    let check = AscendExtCheck::ASCEND_EXT_CHECK_RACES.0;
    let _block = Block::one_with(AscendExtBlockConfig { check, ..Block::config() });
    let mut tiling = build::tiling(&[]);
    let cube = build::cube(Number::F16, None, [16; 3], 1);
    tiling[64..264].copy_from_slice(&build::cube_bytes(&cube));
    let [x, y, counts, workspace] = [512, 512, 8, 32].map(malloc);
    write(x, &[0; 512]);
    write(counts, &(1u64 << 60).to_le_bytes());
    let program = b.done();
    let (binary, stream) = (load(&program), stream());
    let mut given: Vec<_> = [x, y, counts, workspace].map(Given::Pointer).into();
    given.push(Given::Bytes(&tiling));
    let list = list(function(binary, &program.name), &given);
    let function = function(binary, &program.name);
    ok!(aclrtLaunchKernelWithConfig(function, 1, stream, null_mut(), list, null_mut()));
    fails!(
        ACL_ERROR_RT_AICORE_EXCEPTION,
        ["of y are touched", " beyond its end: it has 512"],
        aclrtSynchronizeStream(stream)
    );
}
