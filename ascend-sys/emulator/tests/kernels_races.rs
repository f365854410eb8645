//! Kernels where races are looked for: one operation each, with what it and its server have touched.
mod common;
mod kernel;
mod ranks;

use ascend_program::layout::Number;
use ascend_sys::*;
use common::*;
use kernel::*;

/// A reduce-scatter of two turns on two ranks of a checked block.
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
