//! Tests of the walk of a core through a program: the arithmetic of C++, loops, branches, and
//! faults.

use ascend_program::flow::{self, Fault, Launch, Unknown, Walk};
use ascend_program::layout::Number::{self, *};
use ascend_program::step::*;
use ascend_program::*;
use ascend_program_testing::build::{self, Builder};

fn launch(tiling: Vec<u8>) -> Launch {
    Launch { blocks: 3, tiling, groups: vec![(1, 4)] }
}

/// Returns the number of a value on cube core 1 or vector core 3, before the first step.
fn value_on(core: Core, build: impl FnOnce(&mut Builder) -> ValueId) -> Result<u64, Unknown> {
    let mut b = Builder::new(Mix::MixAic12);
    b.program.tiling = Some(build::tiling_layout(0));
    let value = build(&mut b);
    let program = b.done();
    let launch = launch((0..=255).collect());
    let index = if core == Core::Aic { 1 } else { 3 };
    Walk::new(&program, &launch, core, index).value(value)
}

fn value(build: impl FnOnce(&mut Builder) -> ValueId) -> Result<u64, Unknown> {
    value_on(Core::Aiv, build)
}

/// Returns `a operator b`. Both have this type and are given as bits.
fn binary(number: Number, operator: Binary, a: u64, b: u64) -> Result<u64, Unknown> {
    value(|builder| {
        let [a, b] = [a, b].map(|bits| builder.value(Of::Constant(bits), number));
        builder.binary(operator, a, b)
    })
}

fn cast(from: Number, to: Number, bits: u64) -> Result<u64, Unknown> {
    value(|b| {
        let of = b.value(Of::Constant(bits), from);
        b.value(Of::Cast(of), to)
    })
}

fn text(found: Result<u64, Unknown>) -> String {
    match found {
        Err(Unknown::Fault(Fault { text, .. })) => text,
        other => format!("{other:?}"),
    }
}

#[test]
fn unsigned_numbers_wrap_in_their_own_width() {
    assert_eq!(binary(U32, Binary::Add, u64::from(u32::MAX), 2), Ok(1));
    assert_eq!(binary(U8, Binary::Mul, 16, 17), Ok(16));
    assert_eq!(binary(U64, Binary::Sub, 1, 2), Ok(u64::MAX));
    let minus_one = value(|b| {
        let one = b.value(Of::Constant(1), U16);
        b.value(Of::Unary(Unary::Negate, one), U16)
    });
    assert_eq!(minus_one, Ok(65_535));
}

#[test]
fn a_signed_number_that_leaves_its_type_is_a_fault() {
    let minus = |n: i64| n.wrapping_neg() as u64;
    assert_eq!(binary(I8, Binary::Add, 126, 1), Ok(127));
    let over = binary(I8, Binary::Add, 127, 1);
    assert_eq!(
        text(over),
        "127 + 1 is 128, beyond the range of i8; use smaller numbers or a \
                            wider type"
    );
    assert_eq!(binary(I32, Binary::Mul, 46_340, 46_340), Ok(2_147_395_600));
    let over = binary(I32, Binary::Mul, 46_341, 46_341);
    assert_eq!(
        text(over),
        "46341 * 46341 is 2147488281, beyond the range of i32; use smaller numbers or a wider type"
    );
    assert_eq!(binary(I64, Binary::Sub, minus(i64::MAX), 1), Ok(i64::MIN as u64));
    let over = binary(I64, Binary::Sub, minus(i64::MAX), 2);
    assert_eq!(
        text(over),
        "-9223372036854775807 - 2 is -9223372036854775809, beyond the range of i64; use smaller numbers or a wider \
         type"
    );
    for operator in [Binary::Div, Binary::Rem] {
        assert!(binary(I32, operator, minus(i64::from(i32::MAX)), minus(1)).is_ok());
        let over = binary(I32, operator, i64::from(i32::MIN) as u64, minus(1));
        assert_eq!(
            text(over),
            "-2147483648 / -1 is 2147483648, beyond the range of i32; use smaller numbers or a \
             wider type"
        );
    }
    let negative = |n: i64| {
        value(|b| {
            let n = b.value(Of::Constant(n as u64), I16);
            b.value(Of::Unary(Unary::Negate, n), I16)
        })
    };
    assert_eq!(negative(-32_767), Ok(32_767));
    assert_eq!(
        text(negative(-32_768)),
        "0 - -32768 is 32768, beyond the range of i16; use smaller numbers or a wider type"
    );
}

#[test]
fn signed_numbers_divide_and_compare_as_such() {
    let minus = |n: i64| -n as u64;
    assert_eq!(binary(I32, Binary::Div, minus(7), 2), Ok(minus(3)));
    assert_eq!(binary(I32, Binary::Rem, minus(7), 2), Ok(minus(1)));
    assert_eq!(binary(I32, Binary::Less, minus(1), 1), Ok(1));
    assert_eq!(binary(U64, Binary::Less, minus(1), 1), Ok(0));
    assert_eq!(binary(I32, Binary::Min, minus(1), 1), Ok(minus(1)));
    assert_eq!(binary(U32, Binary::Max, u64::from(u32::MAX), 1), Ok(u64::from(u32::MAX)));
}

#[test]
fn floating_point_numbers_round_to_their_own_precision() {
    let bits = f64::to_bits;
    assert_eq!(binary(F32, Binary::Add, bits(16_777_216.0), bits(1.0)), Ok(bits(16_777_216.0)));
    assert_eq!(binary(F16, Binary::Mul, bits(300.0), bits(300.0)), Ok(bits(f64::INFINITY)));
    assert_eq!(binary(Bf16, Binary::Add, bits(256.0), bits(1.0)), Ok(bits(256.0)));
    assert_eq!(binary(F64, Binary::Div, bits(1.0), bits(0.0)), Ok(bits(f64::INFINITY)));
    let nan = bits(f64::NAN);
    for (operator, wanted) in
        [(Binary::Equal, 0), (Binary::NotEqual, 1), (Binary::Less, 0), (Binary::GreaterEqual, 0)]
    {
        assert_eq!(binary(F32, operator, nan, nan), Ok(wanted), "{operator:?}");
    }
}

#[test]
fn casts_wrap_between_integers_and_saturate_from_floats() {
    assert_eq!(cast(I64, U8, -1_i64 as u64), Ok(255));
    assert_eq!(cast(U8, I8, 200), Ok(-56_i64 as u64));
    assert_eq!(cast(I32, U64, -1_i64 as u64), Ok(u64::MAX));
    assert_eq!(cast(F32, U8, 300.7_f64.to_bits()), Ok(255));
    assert_eq!(cast(F32, I8, (-300.7_f64).to_bits()), Ok(-128_i64 as u64));
    assert_eq!(cast(F64, U64, f64::NAN.to_bits()), Ok(0));
    assert_eq!(cast(U64, F32, 16_777_217), Ok(16_777_216_f64.to_bits()));
    assert_eq!(cast(I32, F64, -3_i64 as u64), Ok((-3_f64).to_bits()));
    assert_eq!(cast(U32, Bool, 7), Ok(1));
}

#[test]
fn casts_to_floats_round_as_often_as_in_cpp() {
    // The number is between two neighbouring `float` values. It is above their middle by less than
    // an `f64` can express.
    let above = (1_u64 << 60) + (1 << 36) + 1;
    assert_eq!(cast(U64, F32, above), Ok(f64::from(above as f32).to_bits()));
    assert_ne!(above as f32, above as f64 as f32);
    // A half is converted by way of `float`, so this number is rounded twice.
    let twice = 1.0 + 2_f64.powi(-11) + 2_f64.powi(-30);
    assert_eq!(cast(F64, F16, twice.to_bits()), Ok(1_f64.to_bits()));
    assert_eq!(cast(F64, F64, twice.to_bits()), Ok(twice.to_bits()));
}

#[test]
fn the_smaller_and_the_larger_are_what_cpp_chooses() {
    let (nan, one) = (f64::NAN.to_bits(), 1_f64.to_bits());
    for operator in [Binary::Min, Binary::Max] {
        let first = binary(F64, operator, nan, one).map(f64::from_bits);
        assert!(first.is_ok_and(f64::is_nan), "{operator:?}");
        assert_eq!(binary(F64, operator, one, nan), Ok(one), "{operator:?}");
    }
}

#[test]
fn a_named_value_is_computed_where_it_gets_its_name() {
    let (_, why) = trail(Mix::MixAiv10, Core::Aiv, |b| {
        let [one, none] = [1, 0].map(|n| b.n(n));
        let quotient = b.binary(Binary::Div, one, none);
        b.name("quotient", quotient);
        b.times(0, |b| b.step(Step::Name(quotient)));
    });
    let Some(Unknown::Fault(fault)) = why else { panic!("{why:?}") };
    assert_eq!(
        (fault.text.as_str(), fault.source.line),
        ("a division by zero; check the divisor first", 1)
    );
}

#[test]
fn numbers_survive_memory() {
    let mut random = fastrand::Rng::with_seed(5);
    for number in [I8, I16, I32, I64, U8, U16, U32, U64, F16, Bf16, F32, F64, Bool] {
        for _ in 0..200 {
            let bytes = match number {
                Bool => u64::from(random.bool()).to_le_bytes(),
                _ => random.u64(..).to_le_bytes(),
            };
            let size = number.size() as usize;
            let bits = flow::load(number, &bytes[..size]);
            let float = matches!(number, F16 | Bf16 | F32 | F64);
            if float && f64::from_bits(bits).is_nan() {
                continue;
            }
            assert_eq!(flow::store(number, bits)[..size], bytes[..size], "{number:?}");
            assert_eq!(flow::fit(number, bits), bits, "{number:?}");
        }
    }
}

#[test]
fn a_core_knows_its_place() {
    let of = |core, of: Of, number| value_on(core, |b| b.value(of, number));
    assert_eq!(of(Core::Aiv, Of::BlockIndex, I64), Ok(3));
    assert_eq!(of(Core::Aiv, Of::SubBlockIndex, I64), Ok(1));
    assert_eq!(of(Core::Aiv, Of::TaskRatio, I64), Ok(2));
    assert_eq!(of(Core::Aiv, Of::BlockCount, I64), Ok(3));
    assert_eq!(of(Core::Aic, Of::BlockIndex, I64), Ok(1));
    assert_eq!(of(Core::Aic, Of::SubBlockIndex, I64), Ok(0));
    assert_eq!(of(Core::Aic, Of::TaskRatio, I64), Ok(1));
    let with_client = |of: fn(ClientId) -> Of| {
        value(|b| {
            let client = b.client("hccl", 0, None);
            b.value(of(client), U32)
        })
    };
    assert_eq!(with_client(Of::Rank), Ok(1));
    assert_eq!(with_client(Of::Ranks), Ok(4));
    let missing = value(|b| {
        let client = b.client("hccl", 1, None);
        b.value(Of::Ranks(client), U32)
    });
    assert_eq!(text(missing), "there is no context for group 1, so there is no rank");
}

#[test]
fn fields_and_elements_of_the_tiling_are_read_as_bytes() {
    let field = |offset, number| {
        value(|b| b.value(Of::Tiling { offset, path: "f".into(), element: None }, number))
    };
    assert_eq!(field(2, U16), Ok(0x0302));
    assert_eq!(field(255, I8), Ok(-1_i64 as u64));
    assert_eq!(
        text(field(252, U64)),
        "the kernel reads byte 252 of its tiling, which has 256; pass the whole tiling struct"
    );
    let element = |at: u64| {
        value(|b| {
            let index = b.n(at);
            let element = Some((index, 3));
            b.value(Of::Tiling { offset: 16, path: "list".into(), element }, U32)
        })
    };
    assert_eq!(element(2), Ok(0x1b1a_1918));
    assert_eq!(text(element(3)), "element 3 of an array of 3; use an index below 3");
}

#[test]
fn what_is_not_needed_is_not_computed() {
    let wrong = |b: &mut Builder| {
        let [one, none] = [1, 0].map(|n| b.n(n));
        let quotient = b.binary(Binary::Div, one, none);
        b.binary(Binary::Equal, quotient, one)
    };
    assert_eq!(text(value(wrong)), "a division by zero; check the divisor first");
    let truth = |b: &mut Builder, truth: u64| b.value(Of::Constant(truth), Bool);
    let joined = |operator, first: u64| {
        value(|b| {
            let (first, second) = (truth(b, first), wrong(b));
            b.value(Of::Binary(operator, first, second), Bool)
        })
    };
    assert_eq!(joined(Binary::And, 0), Ok(0));
    assert_eq!(joined(Binary::Or, 1), Ok(1));
    assert!(joined(Binary::And, 1).is_err());
    let selected = value(|b| {
        let (condition, other, wrong) = (truth(b, 1), truth(b, 0), wrong(b));
        b.value(Of::Select(condition, other, wrong), Bool)
    });
    assert_eq!(selected, Ok(0));
}

#[test]
fn a_negative_number_counts_nothing() {
    let mut b = Builder::new(Mix::MixAiv10);
    let negative = b.value(Of::Constant(-5_i64 as u64), I32);
    let float = b.float(F32, 2.5);
    let program = b.done();
    let launch = launch(Vec::new());
    let walk = Walk::new(&program, &launch, Core::Aiv, 0);
    assert_eq!(
        text(walk.count(negative)),
        "-5 is not a number of elements; use a whole number of 0 or more"
    );
    assert_eq!(
        text(walk.count(float)),
        "2.5 is not a number of elements; use a whole number of 0 or more"
    );
}

/// Returns the flags that a core of this kind awaits, in order. These steps show the path of the
/// walk.
fn trail(mix: Mix, core: Core, build: impl FnOnce(&mut Builder)) -> (Vec<u16>, Option<Unknown>) {
    let mut b = Builder::new(mix);
    build(&mut b);
    let program = b.done();
    let launch = launch(Vec::new());
    let mut walk = Walk::new(&program, &launch, core, 2);
    let mut passed = Vec::new();
    loop {
        match walk.advance() {
            Ok(None) => return (passed, None),
            Err(why) => return (passed, Some(why)),
            Ok(Some(node)) => match node.step {
                Step::Sync(Sync::Await { flag }) => passed.push(flag),
                Step::Read(variable, _) => walk.set(variable, None),
                _ => {}
            },
        }
    }
}

fn mark(b: &mut Builder, flag: u16) {
    b.sync(Sync::Await { flag });
}

#[test]
fn loops_and_branches_are_followed_with_numbers() {
    let found = trail(Mix::MixAic11, Core::Aiv, |b| {
        let three = b.n(3);
        b.range("i", three, |b, i| {
            mark(b, 1);
            let one = b.n(1);
            let odd = b.binary(Binary::Equal, i, one);
            b.when(odd, |b| mark(b, 2));
        });
        b.times(0, |b| mark(b, 3));
        b.on(Core::Aic, |b| mark(b, 4));
        b.on(Core::Aiv, |b| mark(b, 5));
        b.on_block(2, |b| mark(b, 6));
        b.on_block(1, |b| mark(b, 7));
    });
    assert_eq!(found, (vec![1, 1, 2, 1, 5, 6], None));
}

#[test]
fn a_variable_changes_where_it_is_set() {
    let found = trail(Mix::MixAiv10, Core::Aiv, |b| {
        let sum = b.variable("sum", U8);
        let (now, hundred) = (b.get(sum), b.value(Of::Constant(100), U8));
        let next = b.binary(Binary::Add, now, hundred);
        b.times(3, |b| b.step(Step::Set(sum, next)));
        let (now, wanted) = (b.get(sum), b.value(Of::Constant(44), U8));
        let wrapped = b.binary(Binary::Equal, now, wanted);
        b.when(wrapped, |b| mark(b, 1));
    });
    assert_eq!(found, (vec![1], None));
}

#[test]
fn a_loop_beyond_the_end_of_its_type_is_a_fault() {
    let walked = |step: u64| {
        trail(Mix::MixAiv10, Core::Aiv, |b| {
            let i = b.variable("i", U8);
            let [from, to, step] = [250, 255, step].map(|n| b.value(Of::Constant(n), U8));
            b.inside(|body| Step::Loop { variable: i, from, to, step, body }, |b| mark(b, 1));
        })
    };
    assert_eq!(walked(5), (vec![1], None));
    let (passed, why) = walked(4);
    let Some(Unknown::Fault(fault)) = why else { panic!("{why:?}") };
    assert_eq!(
        (passed, fault.text.as_str()),
        (
            vec![1, 1],
            "a loop goes from 254 by 4, beyond its type's range; use a wider type or a \
                      smaller end"
        )
    );
}

#[test]
fn a_loop_without_a_step_is_a_fault() {
    let (_, why) = trail(Mix::MixAiv10, Core::Aiv, |b| {
        let i = b.variable("i", U64);
        let [from, to] = [0, 5].map(|n| b.n(n));
        b.program.blocks.push(Vec::new());
        b.step(Step::Loop { variable: i, from, to, step: from, body: BlockId(1) });
    });
    let Some(Unknown::Fault(fault)) = why else { panic!("{why:?}") };
    assert_eq!(
        (fault.text.as_str(), fault.source.line),
        ("the step of the loop is 0; give it another step", 1)
    );
}

#[test]
fn a_loop_that_does_nothing_for_ever_is_a_fault() {
    let (_, why) = trail(Mix::MixAiv10, Core::Aiv, |b| b.times(u64::MAX, |_| {}));
    assert!(matches!(why, Some(Unknown::Fault(_))), "{why:?}");
}

/// Returns the numbers of the variables after a loop, the text of the fault if there is one, and
/// the number of passed steps. With `slow`, an additional step forces a walk through every
/// iteration.
fn sums(random: u64, slow: bool) -> (Vec<Result<u64, Unknown>>, String, u64) {
    let mut random = fastrand::Rng::with_seed(random);
    let types = [U8, I8, U16, I16, U32, I32, U64, I64];
    let mut b = Builder::new(Mix::MixAiv10);
    let number = random.choice([U16, I16, U32, I64]).expect("a type");
    let from = random.u64(0..3000);
    let (to, by) = (from + random.u64(0..3000), random.u64(1..5));
    let i = b.variable("i", number);
    let [from, to, by] = [from, to, by].map(|n| b.value(Of::Constant(n), number));
    let mut sets = Vec::new();
    for name in ["a", "b", "c"] {
        let of = *random.choice(&types).expect("a type");
        let v = b.variable(name, of);
        let start = b.value(Of::Constant(flow::fit(of, random.u64(0..100))), of);
        b.step(Step::Set(v, start));
        let now = b.get(v);
        let each = if random.bool() { random.u64(0..4) } else { random.u64(..) };
        let each = b.value(Of::Constant(flow::fit(of, each)), of);
        let term = if of == number && random.bool() { b.get(i) } else { each };
        let next = match random.u8(0..3) {
            0 => b.binary(Binary::Sub, now, term),
            1 => b.binary(Binary::Add, term, now),
            _ => b.binary(Binary::Add, now, term),
        };
        sets.push((v, next));
    }
    let last = b.variable("last", F32);
    let one = b.value(Of::Constant(1.0_f64.to_bits()), F32);
    b.inside(
        |body| Step::Loop { variable: i, from, to, step: by, body },
        |b| {
            sets.iter().for_each(|(v, next)| b.step(Step::Set(*v, *next)));
            if slow {
                b.step(Step::Set(last, one));
            }
        },
    );
    let values: Vec<_> =
        sets.iter().map(|(v, _)| *v).chain([i]).map(|variable| b.get(variable)).collect();
    let program = b.done();
    let launch = launch(Vec::new());
    let mut walk = Walk::new(&program, &launch, Core::Aiv, 0);
    let end = walk.advance();
    let fault = match end {
        Err(Unknown::Fault(fault)) => fault.text,
        _ => String::new(),
    };
    (values.iter().map(|value| walk.value(*value)).collect(), fault, walk.passed())
}

#[test]
fn a_loop_that_only_adds_is_what_its_turns_are() {
    let mut seen = [0; 3];
    for random in 0..2000 {
        let (fast, slow) = (sums(random, false), sums(random, true));
        // If several sums leave their types, the reported one may differ.
        assert_eq!(fast.1.is_empty(), slow.1.is_empty(), "{random}: {fast:?} {slow:?}");
        if slow.1.is_empty() {
            assert_eq!(fast.0, slow.0, "{random}");
        }
        seen[0] += usize::from(fast.2 < 50 && slow.2 > 200);
        seen[1] += usize::from(!slow.1.is_empty());
        seen[2] += usize::from(fast.1 == slow.1 && !slow.1.is_empty());
    }
    assert!(seen.iter().all(|seen| *seen > 100), "{seen:?}");
}

#[test]
fn a_loop_of_any_length_that_only_adds_takes_one_step() {
    let found = trail(Mix::MixAiv10, Core::Aiv, |b| {
        let sum = b.variable("sum", U64);
        let (now, three) = (b.get(sum), b.n(3));
        let next = b.binary(Binary::Add, now, three);
        b.times(1 << 36, |b| b.step(Step::Set(sum, next)));
        let (now, wanted) = (b.get(sum), b.n(3 << 36));
        let is_sum = b.binary(Binary::Equal, now, wanted);
        b.when(is_sum, |b| mark(b, 1));
    });
    assert_eq!(found, (vec![1], None));
}

/// The caller of the walk decides how long it continues.
#[test]
fn a_long_computation_is_interrupted_and_goes_on() {
    let mut b = Builder::new(Mix::MixAiv10);
    let x = b.variable("x", F32);
    let (now, one) = (b.get(x), b.value(Of::Constant(1.0_f64.to_bits()), F32));
    let next = b.binary(Binary::Add, now, one);
    b.times(1_100_000, |b| b.step(Step::Set(x, next)));
    let program = b.done();
    let launch = launch(Vec::new());
    let mut walk = Walk::new(&program, &launch, Core::Aiv, 0);
    let mut interrupted = 0;
    while walk.advance() != Ok(None) {
        interrupted += 1;
    }
    assert_eq!((interrupted, walk.value(now)), (33, Ok(1_100_000.0_f64.to_bits())));
}

#[test]
fn what_comes_from_data_is_not_known_and_not_a_fault() {
    let found = trail(Mix::MixAiv10, Core::Aiv, |b| {
        let x = b.input("x", U64);
        let v = b.variable("v", U64);
        let place = b.at(x, 0);
        b.step(Step::Read(v, Read::Global(place)));
        let (now, one) = (b.get(v), b.n(1));
        let next = b.binary(Binary::Add, now, one);
        // Values computed from it are unknown too. That matters only if the walk needs one of them.
        b.step(Step::Set(v, next));
        mark(b, 1);
        let last = b.get(v);
        let condition = b.binary(Binary::Equal, last, one);
        b.when(condition, |b| mark(b, 2));
    });
    assert_eq!(found, (vec![1], Some(Unknown::Data)));
}
