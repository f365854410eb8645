//! Tests of the waits that the recorder inserts. The checker accepts random kernels of scratch
//! buffers without waits of their own, and a second pass inserts nothing.

use ascend_program::check::{Product, Setting, Severity, check};
use ascend_program::flow::Launch;
use ascend_program::layout::Number;
use ascend_program::step::*;
use ascend_program::*;
use ascend_program_testing::build::Builder;
use fastrand::Rng;

/// The number of elements of a buffer, and of an argument.
const TILE: u64 = 64;

/// A generator of random copies and vector operations on some buffers, in loops and branches.
struct Random {
    random: Rng,
    locals: Vec<Local>,
    inputs: Vec<Base>,
    outputs: Vec<Base>,
}

impl Random {
    fn kernel(seed: u64) -> Program {
        let mut b = Builder::new(Mix::MixAiv10);
        let mut random = Rng::with_seed(seed);
        let inputs = vec![b.input("x0", Number::F32), b.input("x1", Number::F32)];
        let outputs = vec![b.output("y0", Number::F32), b.output("y1", Number::F32)];
        let tile = b.n(TILE);
        let locals = (0..random.usize(2..5))
            .map(|at| b.held(&format!("a{at}"), Number::F32, tile))
            .collect();
        let mut made = Random { random, locals, inputs, outputs };
        // Every buffer is written once, so that no step reads unwritten memory.
        for to in made.locals.clone() {
            let from = b.at(made.inputs[0], 0);
            b.copy_in(to, from, tile);
        }
        made.steps(&mut b, 2);
        b.program.groups = 0;
        b.program.tiling = None;
        b.done()
    }

    fn one<T: std::marker::Copy>(&mut self, of: &[T]) -> T {
        of[self.random.usize(0..of.len())]
    }

    fn steps(&mut self, b: &mut Builder, depth: u32) {
        for _ in 0..self.random.u32(2..7) {
            let (tile, locals) = (b.n(TILE), self.locals.clone());
            let (to, a, other) = (self.one(&locals), self.one(&locals), self.one(&locals));
            let (inputs, outputs) = (self.inputs.clone(), self.outputs.clone());
            match self.random.u32(0..10) {
                0 | 1 => {
                    let from = b.at(self.one(&inputs), 0);
                    b.copy_in(to, from, tile);
                }
                2 | 3 => {
                    // No wait is inserted between copies of one unit to one place, so the test adds
                    // a barrier.
                    let place = b.at(self.one(&outputs), 0);
                    b.sync(Sync::Pipe(Pipe::Out));
                    b.copy_out(place, a, tile);
                }
                4 => {
                    let from = b.at(self.one(&outputs), 0);
                    b.copy_in(to, from, tile);
                }
                5 => {
                    let value = b.float(Number::F32, 2.0);
                    b.step(Step::Copy(Copy::SetLocal { to, value }));
                }
                6 => {
                    let v = b.variable("v", Number::F32);
                    b.step(Step::Read(v, Read::Local(a)));
                }
                7 if depth > 0 => {
                    let turns = self.random.u64(0..4);
                    b.times(turns, |b| self.steps(b, depth - 1));
                }
                8 if depth > 0 => {
                    let now = b.block_index();
                    let index = b.n(self.random.u64(0..2));
                    let condition = b.binary(Binary::Equal, now, index);
                    b.when(condition, |b| self.steps(b, depth - 1));
                }
                _ => {
                    let operator = VectorBinary::Add;
                    b.step(Step::Vector(Vector::Binary { operator, to, a, b: other, count: tile }));
                }
            }
        }
    }
}

fn errors(program: &Program) -> Vec<String> {
    let setting = Setting {
        parameters: vec![Some(TILE * 4); 4],
        workspace: Some(0),
        ..Setting::strict(Product::A3)
    };
    let launch = Launch { blocks: 1, tiling: Vec::new(), groups: Vec::new() };
    let found = check(program, &launch, &setting).unwrap_or_else(|errors| errors);
    let errors = found.iter().filter(|finding| finding.severity == Severity::Error);
    errors.filter(|finding| finding.rule == "units").map(ToString::to_string).collect()
}

#[test]
fn random_kernels_without_waits_get_all_that_they_need() {
    let mut broken = 0;
    for seed in 0..400 {
        let mut program = Random::kernel(seed);
        broken += u32::from(!errors(&program).is_empty());
        waits::insert(&mut program);
        assert_eq!(program.validate(), Ok(()));
        assert_eq!(errors(&program), Vec::<String>::new(), "seed {seed}:\n{program}");
        let mut again = program.clone();
        waits::insert(&mut again);
        assert_eq!(again, program, "seed {seed}");
    }
    assert!(broken > 300, "{broken}");
}

/// A wait is inserted once where it is missing, together with its reason.
#[test]
fn inserted_waits_say_why_they_are_there() {
    let mut b = Builder::new(Mix::MixAiv10);
    let (x, y) = (b.input("x", Number::F32), b.output("y", Number::F32));
    let length = b.n(TILE);
    let local = b.held("a_all", Number::F32, length);
    let (from, to) = (b.at(x, 0), b.at(y, 0));
    b.copy_in(local, from, length);
    b.copy_out(to, local, length);
    b.copy_out(to, local, length);
    b.program.groups = 0;
    let mut program = b.done();
    waits::insert(&mut program);
    let inserted: Vec<_> = program.blocks[0]
        .windows(2)
        .filter_map(|two| match (&two[0].step, &two[1].step) {
            (Step::Comment(why), Step::Sync(sync)) => Some((why.as_str(), *sync)),
            _ => None,
        })
        .collect();
    let why = "inserted: MTE3 reads `a_all`, which MTE2 has written";
    assert_eq!(inserted, [(why, Sync::Units(Pipe::In, Pipe::Out))]);
}

/// Checks that a kernel with a queue and a buffer of its own lacks waits, and lacks none after the
/// waits have been inserted. `steps` adds the steps of the kernel.
fn queued(
    position: Position,
    steps: impl FnOnce(&mut Builder, QueueId, Local, [Place; 2], ValueId),
) {
    let mut b = Builder::new(Mix::MixAiv10);
    let (x, y) = (b.input("x", Number::F32), b.output("y", Number::F32));
    let length = b.n(TILE);
    let queue = b.queue("q", Number::F32, position, 1, length);
    b.buffer(Buffer::InitQueue(queue));
    let local = b.held("a", Number::F32, length);
    let places = [b.at(x, 0), b.at(y, 0)];
    steps(&mut b, queue, local, places, length);
    b.program.groups = 0;
    b.program.tiling = None;
    let mut program = b.done();
    assert!(!errors(&program).is_empty());
    waits::insert(&mut program);
    assert_eq!(errors(&program), Vec::<String>::new(), "{program}");
}

/// A queue orders the uses that were known when the tensor went into it, but no later uses.
#[test]
fn a_queue_hands_on_only_what_was_known_before() {
    let of = |tensor| Local { tensor, offset: None };
    let add = |b: &mut Builder, a: Local| {
        let count = b.n(TILE);
        b.step(Step::Vector(Vector::Binary { operator: VectorBinary::Add, to: a, a, b: a, count }));
    };
    queued(Position::VecOut, |b, queue, a, [x, y], length| {
        let (o, taken) = (b.local("o", Number::F32), b.local("o2", Number::F32));
        b.buffer(Buffer::Alloc(queue, o));
        b.copy_in(of(o), x, length);
        b.buffer(Buffer::Enqueue(queue, o));
        b.copy_in(a, x, length);
        add(b, a);
        b.buffer(Buffer::Dequeue(queue, taken));
        b.copy_out(y, of(taken), length);
        b.buffer(Buffer::Free(queue, taken));
    });
    queued(Position::VecIn, |b, queue, a, [x, y], length| {
        b.copy_in(a, x, length);
        let (o, taken) = (b.local("o", Number::F32), b.local("o2", Number::F32));
        b.times(3, |b| {
            b.buffer(Buffer::Alloc(queue, o));
            b.copy_in(of(o), x, length);
            b.buffer(Buffer::Enqueue(queue, o));
            b.buffer(Buffer::Dequeue(queue, taken));
            b.copy_out(y, of(taken), length);
            b.sync(Sync::Pipe(Pipe::Out));
            b.buffer(Buffer::Free(queue, taken));
            add(b, a);
        });
    });
}

/// If both cube and vector cores reach a step, a wait for the cube unit is only for the cube cores.
#[test]
fn a_wait_of_one_kind_of_cores_is_for_that_kind() {
    let mut b = Builder::new(Mix::MixAic11);
    let (x, y) = (b.input("x", Number::F16), b.output("y", Number::F16));
    let (n, v) = (b.n(16), b.variable("v", Number::F16));
    let matmul = b.matmul("mm", Number::F16, None, 64);
    let [a, second, c] = [x, x, y].map(|base| b.at(base, 0));
    let sizes = (n, n, n);
    let multiply = Multiply {
        matmul,
        a,
        b: second,
        c,
        bias: None,
        rows: sizes.0,
        columns: sizes.1,
        depth: sizes.2,
        pitches: [n; 3],
    };
    b.on(Core::Aic, |b| b.step(Step::Matmul(multiply)));
    let place = b.at(y, 0);
    b.step(Step::Read(v, Read::Global(place)));
    b.program.groups = 0;
    b.program.tiling = Some(ascend_program_testing::build::tiling_layout(0));
    let mut program = b.done();
    waits::insert(&mut program);
    assert_eq!(program.validate(), Ok(()));
    let is_wait = |node: &Node| matches!(node.step, Step::Sync(Sync::Units(Pipe::Fix, _)));
    assert!(!program.blocks[0].iter().any(is_wait), "{program}");
    let on = program.blocks[0].iter().filter_map(|node| match node.step {
        Step::On(Core::Aic, block) => Some(block),
        _ => None,
    });
    assert!(on.into_iter().any(|block| program.blocks[block.0 as usize].iter().any(is_wait)));
}
