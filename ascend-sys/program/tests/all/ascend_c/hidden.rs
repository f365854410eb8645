//! A tensor that shadows one of the same name takes its place in the source, if the shadowed tensor
//! is no longer used.

use ascend_program::layout::Number::{self, F16, F32};
use ascend_program::step::*;
use ascend_program::*;

use ascend_program_testing::build::Builder;

/// Returns the lines that give tensors their memory. `a` is allocated, and `a_2` comes out of the
/// queue, in a branch (`inside`) or next to it.
fn obtained(second: Number, used_behind: bool, inside: bool) -> Vec<String> {
    let mut b = Builder::new(Mix::AivOnly);
    b.program.workspace = false;
    let y = b.output("y", F32);
    let length = b.n(64);
    let queue = b.queue("q", F32, Position::VecOut, 2, length);
    let (a, again) = (b.local("a", F32), b.local("a_2", second));
    b.buffer(Buffer::InitQueue(queue));
    b.buffer(Buffer::Alloc(queue, a));
    b.buffer(Buffer::Enqueue(queue, a));
    let out = |b: &mut Builder| {
        b.buffer(Buffer::Dequeue(queue, again));
        b.buffer(Buffer::Free(queue, again));
    };
    match inside {
        true => b.on_block(0, out),
        false => out(&mut b),
    }
    if used_behind {
        let pieces = Pieces { length, count: None, gap: None };
        let (from, to) = (Local { tensor: a, offset: None }, b.at(y, 0));
        b.step(Step::Copy(Copy::Out { to, from, pieces, add: false }));
    }
    let source = ascend_c::kernel(&b.done()).unwrap();
    let lines = source.lines().map(str::trim).filter(|line| line.contains(" = q."));
    lines.map(str::to_owned).collect()
}

const ALLOCATED: &str = "LocalTensor<float> a = q.AllocTensor<float>();";

#[test]
fn a_tensor_takes_the_place_of_one_that_is_over() {
    assert_eq!(obtained(F32, false, false), [ALLOCATED, "a = q.DeQue<float>();"]);
}

#[test]
fn a_tensor_has_a_place_of_its_own_beside_one_that_is_needed() {
    let own = [ALLOCATED, "LocalTensor<float> a2 = q.DeQue<float>();"];
    assert_eq!(obtained(F32, true, false), own);
    // If a branch replaced the tensor, it might still be needed where the branch is not taken.
    assert_eq!(obtained(F32, false, true), own);
    let other = [ALLOCATED, "LocalTensor<half> a2 = q.DeQue<half>();"];
    assert_eq!(obtained(F16, false, false), other);
}
