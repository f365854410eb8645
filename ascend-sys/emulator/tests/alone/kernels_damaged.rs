//! Tests of recorded kernels that were damaged: each is refused, fails, or computes something else,
//! but nothing panics.

use ascend_emulator_testing::common::*;
use ascend_emulator_testing::kernel::build::Builder;
use ascend_emulator_testing::kernel::*;
use ascend_emulator_testing::{alone, call, ok};
use ascend_program::layout::Number;
use ascend_program::step::*;
use ascend_program::{Mix, Position, Program};
use ascend_sys::*;
use std::ptr::null_mut;

/// Returns a kernel that scales three tiles through a queue, with a barrier after each tile.
fn scaled() -> Program {
    let mut b = Builder::new(Mix::MixAiv10);
    b.program.groups = 0;
    let (x, y) = (b.input("x", Number::F32), b.output("y", Number::F32));
    let (length, tensor) = (b.n(64), b.local("a", Number::F32));
    let ins = b.queue("ins", Number::F32, Position::VecIn, 2, length);
    let a = Local { tensor, offset: None };
    let pieces = Pieces { length, count: None, gap: None };
    b.buffer(Buffer::InitQueue(ins));
    b.times(3, |b| {
        b.buffer(Buffer::Alloc(ins, tensor));
        let (from, to, scalar) = (b.at(x, 0), b.at(y, 0), b.float(Number::F32, 2.0));
        b.step(Step::Copy(Copy::In { to: a, from, pieces }));
        b.buffer(Buffer::Enqueue(ins, tensor));
        b.buffer(Buffer::Dequeue(ins, tensor));
        let operator = VectorBinary::Mul;
        b.step(Step::Vector(Vector::Scalar { operator, to: a, a, scalar, count: length }));
        b.step(Step::Copy(Copy::Out { to, from: a, pieces, add: false }));
        b.buffer(Buffer::Free(ins, tensor));
        b.sync_vectors();
    });
    b.done()
}

#[test]
fn a_damaged_kernel_is_refused_or_ends() {
    alone!();
    // SAFETY: this is the only test of this process, and nothing has read the environment yet. With
    // this variable, kernels are not checked before they run.
    unsafe { std::env::set_var("ASCEND_EMULATOR_KERNELS", "unchecked") };
    let _block = Block::one();
    let whole = scaled().to_bytes();
    let mut random = fastrand::Rng::with_seed(7);
    let (stream, tensors) = (stream(), [malloc(4096), malloc(4096), malloc(4096)]);
    tensors.iter().for_each(|tensor| write(*tensor, &[0; 4096]));
    let (mut refused, mut ran, mut failed) = (0, 0, 0);
    for round in 0..8000 {
        let mut bytes = whole.clone();
        for _ in 0..random.usize(1..3) {
            let at = random.usize(0..bytes.len());
            match random.u32(0..20) {
                0 => bytes.truncate(at.max(1)),
                1 => bytes.insert(at, random.u8(..)),
                2 if bytes.len() > 1 => drop(bytes.remove(at)),
                3 => bytes[at] = 0xff,
                _ => bytes[at] ^= 1 << random.u32(0..8),
            }
        }
        let mut binary = null_mut();
        let from = bytes.as_ptr().cast();
        if call!(aclrtBinaryLoadFromData(from, bytes.len(), std::ptr::null(), &mut binary)) != 0 {
            refused += 1;
            continue;
        }
        let program = Program::from_bytes(&bytes).expect("what was loaded");
        let function = function(binary, &program.name);
        let mut given: Vec<_> = (0..program.groups).map(|_| Given::Pointer(null_mut())).collect();
        let others = program.parameters.len() + 2;
        let tensors = tensors.iter().cycle().map(|tensor| Given::Pointer(*tensor));
        given.extend(tensors.take(others));
        let list = list(function, &given);
        let _ = message();
        let launched =
            call!(aclrtLaunchKernelWithConfig(function, 2, stream, null_mut(), list, null_mut()));
        let ended = call!(aclrtSynchronizeStreamWithTimeout(stream, 500));
        let text = message();
        assert!(!text.contains("panicked"), "round {round}: {text}\n{program}");
        match (launched, ended) {
            (0, 0) => ran += 1,
            (0, _) => failed += 1,
            (_, _) => refused += 1,
        }
        // The damage may have made a loop endless.
        if ended == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT {
            ok!(aclrtStreamAbort(stream));
            let _ = call!(aclrtSynchronizeStream(stream));
        }
        ok!(aclrtBinaryUnLoad(binary));
    }
    assert!(refused > 1000 && ran > 300 && failed > 60, "{refused}, {ran}, {failed}");
}
