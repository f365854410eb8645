//! Random programs of values: the printed source computes the same numbers on the host as a walk
//! does.

use std::collections::HashMap;

use ascend_program::flow::{Launch, Walk};
use ascend_program::layout::Number::{self, *};
use ascend_program::step::*;
use ascend_program::*;
use fastrand::Rng;

use ascend_program_testing::build::Builder;
use ascend_program_testing::compiler::full;
use ascend_program_testing::run::{self, run_with};

const NUMBERS: [Number; 13] = [I8, I16, I32, I64, U8, U16, U32, U64, F16, Bf16, F32, F64, Bool];
/// The number of results that fit. Later results replace earlier ones.
const RESULTS: u64 = 1024;

fn is_float(number: Number) -> bool {
    matches!(number, F16 | Bf16 | F32 | F64)
}

struct Values {
    b: Builder,
    random: Rng,
    /// A variable of each type.
    variables: Vec<VariableId>,
    /// The values with names, including names in blocks that have ended.
    named: Vec<ValueId>,
    next: VariableId,
    outputs: [Base; 2],
}

impl Values {
    fn new(seed: u64) -> Self {
        let mut b = Builder::new(Mix::AivOnly);
        b.program.workspace = false;
        let outputs = [b.output("whole", I64), b.output("real", F64)];
        let variables =
            NUMBERS.map(|number| b.variable(&format!("v_{number:?}").to_lowercase(), number));
        let next = b.variable("next", U64);
        let variables = variables.to_vec();
        Values { b, random: Rng::with_seed(seed), variables, named: Vec::new(), next, outputs }
    }

    fn number(&self, value: ValueId) -> Number {
        self.b.program.values[value.0 as usize].number
    }

    /// Returns an awkward number, in a range in which sums and products of floats stay finite.
    fn constant(&mut self, number: Number) -> ValueId {
        let bits = match number {
            Bool => u64::from(self.random.bool()),
            _ if is_float(number) => {
                self.random.choice([0.5_f64, -2.0, 3.0, 0.125, -1.5]).unwrap().to_bits()
            }
            _ => {
                let some =
                    [0, 1, 2, 3, 7, 100, 127, 128, 255, 1 << 31, u64::MAX, u64::MAX - 6, 1 << 63];
                flow::fit(number, *self.random.choice(&some).unwrap())
            }
        };
        self.b.value(Of::Constant(bits), number)
    }

    fn value(&mut self, number: Number, depth: u32) -> ValueId {
        let leaf = depth > 4;
        match self.random.u32(0..if leaf { 5 } else { 16 }) {
            0 => self.constant(number),
            1 | 2 => {
                let at = NUMBERS.iter().position(|other| *other == number).unwrap();
                self.b.get(self.variables[at])
            }
            3 | 4 => {
                let named: Vec<_> = self
                    .named
                    .iter()
                    .copied()
                    .filter(|value| self.number(*value) == number)
                    .collect();
                match self.random.choice(&named) {
                    Some(value) => *value,
                    None => self.constant(number),
                }
            }
            5 => {
                let operator = if number == Bool { Unary::Not } else { Unary::Negate };
                let a = self.value(number, depth + 1);
                let a = self.small(a);
                self.b.value(Of::Unary(operator, a), number)
            }
            6 => {
                let condition = self.value(Bool, depth + 1);
                let [a, b] = [0; 2].map(|_| self.value(number, depth + 1));
                self.b.value(Of::Select(condition, a, b), number)
            }
            7 | 8 => {
                let from = *self.random.choice(&NUMBERS).unwrap();
                let a = self.value(from, depth + 1);
                self.b.value(Of::Cast(a), number)
            }
            _ => self.binary(number, depth),
        }
    }

    fn binary(&mut self, number: Number, depth: u32) -> ValueId {
        use Binary::*;
        let (operators, of): (&[Binary], _) = match number {
            Bool if self.random.bool() => (&[And, Or, Equal, NotEqual], Bool),
            Bool => {
                let of = *self.random.choice(&NUMBERS[..12]).unwrap();
                (&[Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual], of)
            }
            _ if is_float(number) => (&[Add, Sub, Mul, Min, Max], number),
            _ => (&[Add, Add, Sub, Mul, Mul, Div, Rem, Min, Max], number),
        };
        let operator = *self.random.choice(operators).unwrap();
        let [mut a, mut b] = [0; 2].map(|_| self.value(of, depth + 1));
        if matches!(operator, Add | Sub | Mul) {
            [a, b] = [a, b].map(|side| self.small(side));
        }
        if matches!(operator, Div | Rem) {
            let one = self.b.value(Of::Constant(1), of);
            b = self.b.value(Of::Binary(Max, b, one), of);
        }
        self.b.value(Of::Binary(operator, a, b), number)
    }

    /// Returns a value in a small range. So a signed number stays in its type, even if it is
    /// multiplied by another such number.
    fn small(&mut self, value: ValueId) -> ValueId {
        let number = self.number(value);
        let root = match number {
            I8 => 11,
            I16 => 181,
            I32 => 46_340,
            I64 => 3_037_000_499,
            _ => return value,
        };
        let root = self.b.value(Of::Constant(root), number);
        self.b.value(Of::Binary(Binary::Rem, value, root), number)
    }

    /// Returns the number of values that a value is made of. A value counts as often as it is used.
    fn parts(&self, value: ValueId) -> u64 {
        let parts = |of: &[ValueId]| of.iter().map(|part| self.parts(*part)).sum::<u64>();
        1 + match &self.b.program.values[value.0 as usize].of {
            Of::Unary(_, a) | Of::Cast(a) => parts(&[*a]),
            Of::Binary(_, a, b) => parts(&[*a, *b]),
            Of::Select(condition, a, b) => parts(&[*condition, *a, *b]),
            _ => 0,
        }
    }

    fn steps(&mut self, count: usize, depth: u32) {
        for _ in 0..count {
            match self.random.u32(0..if depth > 2 { 7 } else { 10 }) {
                0 | 1 => {
                    let at = self.random.usize(0..NUMBERS.len());
                    let mut value = self.value(NUMBERS[at], 1);
                    if is_float(NUMBERS[at]) {
                        // The limits keep a loop from making the value infinite.
                        for (operator, bound) in [(Binary::Min, 4.0_f64), (Binary::Max, -4.0)] {
                            let bound = self.b.float(NUMBERS[at], bound);
                            value = self.b.binary(operator, value, bound);
                        }
                    }
                    self.b.step(Step::Set(self.variables[at], value));
                }
                2 | 3 => {
                    let number = *self.random.choice(&NUMBERS).unwrap();
                    let value = self.value(number, 0);
                    // A float must not be multiplied again and again.
                    if matches!(self.b.program.values[value.0 as usize].of, Of::Variable(_))
                        || self.named.contains(&value)
                        || is_float(number)
                        || self.parts(value) > 100
                    {
                        continue;
                    }
                    let name = format!("n_{}", self.random.u32(0..20));
                    self.b.name(&name, value);
                    self.named.push(value);
                }
                4..=6 => self.result(),
                7 => self.call(depth),
                8 => {
                    let number = *self.random.choice(&[U8, I32, U64]).unwrap();
                    let variable = self.b.variable("i", number);
                    let [from, to, step] = [self.random.u64(0..2), self.random.u64(0..4), 1]
                        .map(|n| self.b.value(Of::Constant(n), number));
                    self.inside(|body| Step::Loop { variable, from, to, step, body }, depth);
                }
                _ => {
                    let condition = self.value(Bool, 1);
                    let otherwise = self.random.bool();
                    if !otherwise {
                        self.inside(|then| Step::If { condition, then, otherwise: None }, depth);
                        continue;
                    }
                    // The other branch comes first in the numbering and last in the source.
                    let other = BlockId(self.b.program.blocks.len() as u32);
                    self.b.program.blocks.push(Vec::new());
                    let value = self.value(I64, 2);
                    self.inside(|then| Step::If { condition, then, otherwise: Some(other) }, depth);
                    let source = Source { file: 0, line: 1, column: 1, call: 0 };
                    let step = Step::Set(self.variables[3], value);
                    self.b.program.blocks[other.0 as usize].push(Node { step, source });
                }
            }
        }
    }

    /// Adds some steps in a function.
    fn call(&mut self, depth: u32) {
        let (count, name) =
            (self.random.usize(1..6), *self.random.choice(&["scale", "add_up"]).unwrap());
        let mut builder = std::mem::replace(&mut self.b, Builder::new(Mix::AivOnly));
        builder.call(name, |b| {
            std::mem::swap(&mut self.b, b);
            self.steps(count, depth + 1);
            std::mem::swap(&mut self.b, b);
        });
        self.b = builder;
    }

    fn inside(&mut self, step: impl FnOnce(BlockId) -> Step, depth: u32) {
        let count = self.random.usize(1..8);
        let mut other = Values {
            b: std::mem::replace(&mut self.b, Builder::new(Mix::AivOnly)),
            random: self.random.fork(),
            variables: self.variables.clone(),
            named: self.named.clone(),
            ..*self
        };
        let mut builder = std::mem::replace(&mut other.b, Builder::new(Mix::AivOnly));
        builder.inside(step, |b| {
            std::mem::swap(&mut other.b, b);
            other.steps(count, depth + 1);
            std::mem::swap(&mut other.b, b);
        });
        self.b = builder;
        self.named = other.named;
    }

    /// Writes one more number to compare.
    fn result(&mut self) {
        let number = *self.random.choice(&NUMBERS).unwrap();
        let value = self.value(number, 0);
        let now = self.b.get(self.next);
        let room = self.b.n(RESULTS);
        let offset = self.b.binary(Binary::Rem, now, room);
        let (base, into) = match is_float(number) {
            true => (self.outputs[1], F64),
            false => (self.outputs[0], I64),
        };
        let value = self.b.value(Of::Cast(value), into);
        self.b.step(Step::Copy(Copy::Set { to: Place { base, offset }, value }));
        let one = self.b.n(1);
        let more = self.b.binary(Binary::Add, now, one);
        self.b.step(Step::Set(self.next, more));
    }
}

/// Returns the numbers that a walk writes, by place.
fn walked(program: &Program) -> HashMap<(Base, u64), u64> {
    let launch = Launch { blocks: 1, tiling: Vec::new(), groups: Vec::new() };
    let mut walk = Walk::new(program, &launch, Core::Aiv, 0);
    let mut results = HashMap::new();
    while let Some(node) = walk.advance().unwrap() {
        if let Step::Copy(Copy::Set { to, value }) = &node.step {
            let at = (to.base, walk.count(to.offset).unwrap());
            results.insert(at, walk.value(*value).unwrap());
        }
    }
    results
}

#[test]
fn a_printed_source_computes_what_a_walk_computes() {
    let (mut compared, mut functions) = (0, 0);
    let seeds = if full() { 8 } else { 1 };
    for seed in 1..=seeds {
        let mut values = Values::new(seed);
        values.steps(160, 0);
        let program = values.b.done();
        let results = walked(&program);
        let source = ascend_c::kernel(&program).unwrap();
        functions += source.matches("__aicore__ inline void Kernel").count();
        let outputs = vec![8 * RESULTS as usize; 2];
        let launch = run::Launch { ranks: 1, blocks: 1, outputs, ..Default::default() };
        // The sources have no meaning, and a compiler would warn about that. Operations that C++
        // leaves undefined end the run.
        let flags = [
            "-w",
            "-fsanitize=undefined,float-cast-overflow",
            "-fsanitize-undefined-trap-on-error",
        ];
        let Some(outcome) = run_with(&program, &launch, &flags) else { return };
        for ((base, at), expected) in results {
            let Base::Parameter(output) = base else { continue };
            let bytes = &outcome.outputs[output as usize][0][8 * at as usize..][..8];
            let found = u64::from_le_bytes(bytes.try_into().unwrap());
            assert_eq!(found, expected, "seed {seed}, number {at} of output {output}");
            compared += 1;
        }
    }
    assert!(compared > 100 * seeds && functions > 2 * seeds as usize, "{compared}, {functions}");
}
