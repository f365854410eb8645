//! Generates random valid programs that have every kind of step, with operands of the right types.

use ascend_program::layout::Number::{self, *};
use ascend_program::step::*;
use ascend_program::*;

use crate::build::{Builder, tiling_layout};

const NUMBERS: [Number; 13] = [I8, I16, I32, I64, U8, U16, U32, U64, F16, Bf16, F32, F64, Bool];

/// Returns a random program. Its loops are short, and its results have no meaning.
pub fn program(random: &mut fastrand::Rng) -> Program {
    let mixes =
        [Mix::AivOnly, Mix::AicOnly, Mix::MixAiv10, Mix::MixAic10, Mix::MixAic11, Mix::MixAic12];
    let mut b = Builder::new(*random.choice(&mixes).unwrap());
    b.program.tiling = Some(tiling_layout(random.u32(0..3)));
    let parts = Parts::new(&mut b, random);
    let steps = random.usize(1..40);
    parts.steps(&mut b, random, steps, 0);
    let mut program = b.done();
    if random.bool() {
        add_calls(&mut program, random, 0, 0);
    }
    program
}

/// Puts some of the consecutive steps into calls, at random.
fn add_calls(program: &mut Program, random: &mut fastrand::Rng, block: usize, around: u32) {
    let mut call = around;
    for at in 0..program.blocks[block].len() {
        match random.u32(0..8) {
            0 => call = around,
            1 => {
                let from = Source { call: around, ..program.blocks[block][at].source };
                let function = format!("part_{}", random.u32(0..4));
                program.calls.push(FunctionCall { function, doc: String::new(), from });
                call = program.calls.len() as u32;
            }
            _ => {}
        }
        let node = &mut program.blocks[block][at];
        node.source.call = call;
        let inner = match node.step {
            Step::Loop { body, .. } => [Some(body), None],
            Step::If { then, otherwise, .. } => [Some(then), otherwise],
            Step::On(_, inner) => [Some(inner), None],
            _ => [None, None],
        };
        for inner in inner.into_iter().flatten() {
            add_calls(program, random, inner.0 as usize, call);
        }
    }
}

/// The declared objects that random steps use.
struct Parts {
    bases: Vec<Base>,
    client: ClientId,
    task: TaskId,
    queue: QueueId,
    scratch: ScratchId,
    matmul: MatmulId,
    locals: [LocalId; 3],
    variable: VariableId,
    turns: VariableId,
    queues: VariableId,
    float: VariableId,
}

impl Parts {
    fn new(b: &mut Builder, random: &mut fastrand::Rng) -> Parts {
        let core = random.bool().then_some((Core::Aiv, random.u32(0..2)));
        let length = b.n(random.u64(0..100));
        let client = b.client("hccl", random.u32(0..2), core);
        let rank = b.n(random.u64(0..5));
        Parts {
            bases: vec![
                b.input("x", F32),
                b.output("y", *random.choice(&NUMBERS).unwrap()),
                Base::Workspace,
                Base::WindowIn(client, rank),
                Base::WindowOut(client, rank),
            ],
            client,
            task: b.task("tiles", client),
            queue: b.queue("ins", F32, Position::VecIn, random.u8(0..5), length),
            scratch: b.scratch("sums", F32, length),
            matmul: b.matmul("mm", F32, random.bool().then_some(F32), 64),
            locals: ["a", "b", "c"].map(|name| b.local(name, F32)),
            variable: b.variable("v", U64),
            turns: b.variable("turns", I32),
            queues: b.variable("queues", U16),
            float: b.variable("f", F32),
        }
    }

    fn whole(&self, b: &mut Builder, random: &mut fastrand::Rng, depth: u32) -> ValueId {
        match random.u32(0..if depth > 3 { 4 } else { 10 }) {
            0 | 1 => b.n(random.u64(0..20)),
            2 => b.field("tileLen", 64),
            3 => b.get(self.variable),
            4 => b.block_index(),
            5 => {
                let ranks = b.value(Of::Ranks(self.client), U32);
                b.value(Of::Cast(ranks), U64)
            }
            6 => {
                let index = self.whole(b, random, depth + 1);
                let of = Of::Tiling { offset: 64, path: "list".into(), element: Some((index, 8)) };
                b.value(of, U64)
            }
            7 => {
                let condition = self.truth(b, random, depth + 1);
                let [one, two] = [0; 2].map(|_| self.whole(b, random, depth + 1));
                b.value(Of::Select(condition, one, two), U64)
            }
            _ => {
                use Binary::*;
                let operators = [Add, Sub, Mul, Div, Rem, Min, Max];
                let [one, two] = [0; 2].map(|_| self.whole(b, random, depth + 1));
                b.binary(*random.choice(&operators).unwrap(), one, two)
            }
        }
    }

    fn truth(&self, b: &mut Builder, random: &mut fastrand::Rng, depth: u32) -> ValueId {
        use Binary::*;
        let [one, two] = [0; 2].map(|_| self.whole(b, random, depth + 1));
        let operators = [Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual];
        let compared = b.binary(*random.choice(&operators).unwrap(), one, two);
        match random.bool() {
            true => compared,
            false => b.value(Of::Unary(Unary::Not, compared), Bool),
        }
    }

    fn place(&self, b: &mut Builder, random: &mut fastrand::Rng) -> Place {
        Place { base: *random.choice(&self.bases).unwrap(), offset: self.whole(b, random, 2) }
    }

    fn local(&self, b: &mut Builder, random: &mut fastrand::Rng) -> Local {
        let offset = random.bool().then(|| self.whole(b, random, 2));
        Local { tensor: *random.choice(&self.locals).unwrap(), offset }
    }

    fn steps(&self, b: &mut Builder, random: &mut fastrand::Rng, count: usize, depth: u32) {
        for _ in 0..count {
            let inside = random.usize(0..6);
            match random.u32(0..if depth > 3 { 10 } else { 13 }) {
                10 => {
                    let to = b.n(random.u64(0..5));
                    let name = format!("i{}", b.program.variables.len());
                    let mut body = random.fork();
                    b.range(&name, to, |b, _| self.steps(b, &mut body, inside, depth + 1));
                }
                11 => {
                    let condition = self.truth(b, random, 1);
                    let mut body = random.fork();
                    b.when(condition, |b| self.steps(b, &mut body, inside, depth + 1));
                }
                12 => {
                    let core = if random.bool() { Core::Aic } else { Core::Aiv };
                    let mut body = random.fork();
                    b.on(core, |b| self.steps(b, &mut body, inside, depth + 1));
                }
                _ => {
                    let step = self.step(b, random);
                    b.step(step);
                }
            }
        }
    }

    fn step(&self, b: &mut Builder, random: &mut fastrand::Rng) -> Step {
        let [one, two, three] = [0; 3].map(|_| self.whole(b, random, 1));
        let float = b.get(self.float);
        let (task, client) = (self.task, self.client);
        let tensor = *random.choice(&self.locals).unwrap();
        let pieces = Pieces {
            length: one,
            count: random.bool().then_some(two),
            gap: random.bool().then_some(three),
        };
        let [to, a, c] = [0; 3].map(|_| self.local(b, random));
        let [from, into, third] = [0; 3].map(|_| self.place(b, random));
        let pipes = [Pipe::Scalar, Pipe::Vector, Pipe::In, Pipe::Out, Pipe::Fix, Pipe::All];
        let [pipe, other] = [0; 2].map(|_| *random.choice(&pipes).unwrap());
        let mode = *random.choice(&[Mode::Kind, Mode::Pair, Mode::Block]).unwrap();
        let (flag, some) = (random.u16(0..16), random.bool());
        let operators =
            [VectorBinary::Add, VectorBinary::Mul, VectorBinary::Max, VectorBinary::Min];
        let operator = *random.choice(&operators).unwrap();
        match random.u32(0..14) {
            0 => Step::Comment("it".into()),
            1 => Step::Set(self.variable, one),
            2 => Step::Read(self.float, Read::Local(a)),
            3 => {
                let reads = [
                    (self.turns, Read::Finished(task)),
                    (self.queues, Read::Queues(client)),
                    (self.queues, Read::Slice(task, some)),
                    (self.variable, Read::Global(from)),
                ];
                let (variable, read) = *random.choice(&reads).unwrap();
                Step::Read(variable, read)
            }
            4 | 5 => Step::Buffer(
                *random
                    .choice(&[
                        Buffer::InitQueue(self.queue),
                        Buffer::InitScratch(self.scratch),
                        Buffer::Alloc(self.queue, tensor),
                        Buffer::Enqueue(self.queue, tensor),
                        Buffer::Dequeue(self.queue, tensor),
                        Buffer::Free(self.queue, tensor),
                        Buffer::Get(self.scratch, tensor),
                    ])
                    .unwrap(),
            ),
            6 | 7 => Step::Copy(
                *random
                    .choice(&[
                        Copy::In { to, from, pieces },
                        Copy::Out { to: into, from: a, pieces, add: some },
                        Copy::Set { to: into, value: float },
                        Copy::SetLocal { to, value: float },
                        Copy::Clean(into),
                    ])
                    .unwrap(),
            ),
            8 => Step::Vector(
                *random
                    .choice(&[
                        Vector::Fill { to, value: float, count: one },
                        Vector::Binary { operator, to, a, b: c, count: one },
                        Vector::Scalar { operator, to, a, scalar: float, count: one },
                        Vector::Unary { operator: VectorUnary::Exp, to, a, count: one },
                        Vector::Cast { to, from: a, round: Round::Nearest, count: one },
                        Vector::Reduce {
                            operator: VectorReduce::Max,
                            to,
                            from: a,
                            work: c,
                            count: one,
                        },
                    ])
                    .unwrap(),
            ),
            9 => Step::Sync(
                *random
                    .choice(&[
                        Sync::Pipe(pipe),
                        Sync::Units(pipe, other),
                        Sync::Raise { mode, pipe, flag },
                        Sync::Await { flag },
                        Sync::All { vector: some },
                    ])
                    .unwrap(),
            ),
            10 => Step::Matmul(Multiply {
                matmul: self.matmul,
                a: from,
                b: into,
                c: third,
                bias: random.bool().then_some(third),
                rows: one,
                columns: two,
                depth: three,
                pitches: [one, two, three],
            }),
            _ => Step::Hccl(self.call(b, random, [from, into], [one, two, three])),
        }
    }

    fn call(
        &self,
        b: &mut Builder,
        random: &mut fastrand::Rng,
        [send, recv]: [Place; 2],
        [one, two, three]: [ValueId; 3],
    ) -> Hccl {
        let (task, client) = (self.task, self.client);
        match random.u32(0..10) {
            0 => Hccl::Init(client, 64 * random.u32(0..2)),
            1 => Hccl::Configure(client, 64, "cc".into()),
            2 => Hccl::Commit(task),
            3 | 4 => Hccl::Wait(task),
            5 => Hccl::After(client, task),
            6 => Hccl::Barrier(client, one),
            7 => Hccl::Finalize(client, random.bool()),
            _ => {
                let e = Exchange { send, recv, count: one, dtype: random.u32(0..20) };
                let tiling = || PerRank::Tiling(64, "counts".into(), 4);
                let values: Vec<ValueId> = (0..4).map(|_| self.whole(b, random, 3)).collect();
                let operation = match random.u32(0..7) {
                    0 => Operation::AllReduce(e, Reduction::Sum),
                    1 => Operation::AllGather(e, two),
                    2 => Operation::ReduceScatter(e, Reduction::Prod, two),
                    3 => Operation::AlltoAll(e, two),
                    4 => Operation::AlltoAllV {
                        send,
                        recv,
                        dtype: 3,
                        send_counts: tiling(),
                        send_displs: PerRank::Values(values.clone()),
                        recv_counts: tiling(),
                        recv_displs: PerRank::Values(values),
                    },
                    5 => Operation::BatchWrite { items: send, count: two, queue: three },
                    _ => Operation::AlltoAllvWrite {
                        send,
                        offsets: recv,
                        sizes: send,
                        window: two,
                        local: three,
                    },
                };
                Hccl::Prepare { task, operation, repeat: three, commit: random.bool() }
            }
        }
    }
}
