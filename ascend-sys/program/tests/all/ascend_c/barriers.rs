//! The printed source has a barrier where the vector unit uses memory that it has used before,
//! unless a queue has ordered the two uses.

use ascend_program::layout::Number;
use ascend_program::step::*;
use ascend_program::*;

use ascend_program_testing::build::Builder;

/// Returns the number of vector barriers in the source of a kernel for vector cores.
fn barriers(build: impl FnOnce(&mut Builder)) -> usize {
    let mut b = Builder::new(Mix::AivOnly);
    build(&mut b);
    let source = ascend_c::kernel(&b.done()).unwrap();
    source.matches("PipeBarrier<PIPE_V>(); // vectors before have used ").count()
}

fn queue(b: &mut Builder, position: Position) -> (QueueId, LocalId) {
    let length = b.n(64);
    let queue = b.queue("q", Number::F32, position, 1, length);
    b.buffer(Buffer::InitQueue(queue));
    (queue, b.local("a", Number::F32))
}

fn double(b: &mut Builder, tensor: LocalId) {
    let (scalar, count) = (b.float(Number::F32, 2.0), b.n(64));
    let (operator, to) = (VectorBinary::Mul, Local { tensor, offset: None });
    b.step(Step::Vector(Vector::Scalar { operator, to, a: to, scalar, count }));
}

#[test]
fn vectors_in_a_row_have_a_barrier_between_them() {
    let both = barriers(|b| {
        let a = b.filled("a", Number::F32, 64);
        b.sync(Sync::Pipe(Pipe::All));
        double(b, a.tensor);
        double(b, a.tensor);
    });
    assert_eq!(both, 1);
}

/// Vector operations may still write a tensor that is dequeued for the copy out: `DeQue` makes only
/// the copy wait.
#[test]
fn a_queue_of_results_does_not_order_vectors() {
    for (again, expected) in [(false, 0), (true, 1)] {
        let found = barriers(|b| {
            let (outs, a) = queue(b, Position::VecOut);
            b.times(2, |b| {
                b.buffer(Buffer::Alloc(outs, a));
                let (value, count) = (b.float(Number::F32, 1.0), b.n(64));
                let to = Local { tensor: a, offset: None };
                b.step(Step::Vector(Vector::Fill { to, value, count }));
                b.buffer(Buffer::Enqueue(outs, a));
                b.buffer(Buffer::Dequeue(outs, a));
                if again {
                    double(b, a);
                }
                b.buffer(Buffer::Free(outs, a));
            });
        });
        assert_eq!(found, expected);
    }
}

/// The copy into a buffer waits for the vector operations that used it, and the next use waits for
/// the copy.
#[test]
fn a_queue_of_copies_orders_vectors() {
    for (early, expected) in [(false, 0), (true, 1)] {
        let found = barriers(|b| {
            let (ins, a) = queue(b, Position::VecIn);
            b.times(2, |b| {
                b.buffer(Buffer::Alloc(ins, a));
                if early {
                    double(b, a);
                }
                b.buffer(Buffer::Enqueue(ins, a));
                b.buffer(Buffer::Dequeue(ins, a));
                if !early {
                    double(b, a);
                }
                b.buffer(Buffer::Free(ins, a));
            });
        });
        assert_eq!(found, expected);
    }
}
