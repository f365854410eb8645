//! Tests of the requirements on a program, so that its readers need not check them again.

use ascend_program::layout::Number::{self, *};
use ascend_program::step::*;
use ascend_program::*;
use ascend_program_testing::build::{self, Builder};

/// Returns the reason why a program is rejected after `build` has changed it. It was valid before.
fn refused(build: impl FnOnce(&mut Builder)) -> String {
    let mut b = Builder::new(Mix::MixAiv10);
    b.program.tiling = Some(build::tiling_layout(1));
    let client = b.client("hccl", 0, None);
    b.task("tiles", client);
    b.local("a", F32);
    b.local("h", F16);
    b.variable("v", U64);
    b.variable("i", I32);
    b.program.validate().expect("the program so far");
    build(&mut b);
    match b.program.validate() {
        Ok(()) => panic!("taken: {}", b.program),
        Err(why) => {
            // A rejected program is also rejected in encoded form.
            let bytes = b.program.to_bytes();
            assert_eq!(Program::from_bytes(&bytes), Err(DecodeError::Damaged(why.clone())));
            why
        }
    }
}

fn constant(b: &mut Builder, number: Number) -> ValueId {
    b.value(Of::Constant(0), number)
}

const LOCAL: Local = Local { tensor: LocalId(0), offset: None };
const HALF: Local = Local { tensor: LocalId(1), offset: None };

#[test]
fn names_are_identifiers() {
    for name in ["", "1st", "a b", "ü", "a;", "\"\n"] {
        let why = refused(|b| b.program.name = name.into());
        assert_eq!(why, format!("\"{}\" is not an identifier", name.escape_debug()));
    }
    refused(|b| b.program.clients[0].name = "hccl.x".into());
    refused(|b| {
        let value = b.n(1);
        b.program.values[value.0 as usize].name = Some("a-b".into());
    });
}

#[test]
fn values_are_made_of_earlier_ones_of_the_same_type() {
    let itself = refused(|b| {
        b.value(Of::Cast(ValueId(0)), U64);
    });
    assert_eq!(itself, "value 0 is made of value 0, which does not precede it");
    let mixed = refused(|b| {
        let (a, c) = (constant(b, U64), constant(b, U32));
        b.value(Of::Binary(Binary::Add, a, c), U64);
    });
    assert_eq!(mixed, "value 2 mixes U64 and U32");
    let number = refused(|b| {
        let a = constant(b, U64);
        b.value(Of::Binary(Binary::Less, a, a), U64);
    });
    assert_eq!(number, "value 1 mixes U64 and Bool");
    let logic = refused(|b| {
        let a = constant(b, U64);
        b.value(Of::Binary(Binary::And, a, a), U64);
    });
    assert_eq!(logic, "value 1 has an operator that its type lacks");
}

#[test]
fn a_value_is_neither_too_deep_nor_too_wide() {
    let deep = refused(|b| {
        let mut value = b.n(1);
        for _ in 0..257 {
            value = b.value(Of::Cast(value), U64);
        }
    });
    assert_eq!(deep, "value 257 is nested 257 deep; put a part into a variable");
    // A sum of itself with itself, repeated many times: there are few values, but a naive
    // computation of the last one would never end.
    let wide = refused(|b| {
        let mut value = b.n(1);
        for _ in 0..60 {
            value = b.binary(Binary::Add, value, value);
        }
    });
    assert_eq!(wide, "value 12 has 8191 parts; put a part into a variable");
}

#[test]
fn a_program_reads_within_its_tiling_struct() {
    let why = refused(|b| {
        let end = build::tiling_layout(1).size;
        b.field("f", end - 7);
    });
    assert_eq!(why, "value 0 reads beyond the tiling struct");
    let why = refused(|b| {
        b.field("f", 0);
        b.program.tiling = None;
    });
    assert_eq!(why, "value 0 reads a tiling struct that does not exist");
    refused(|b| {
        let end = build::tiling_layout(1).size;
        b.matmul("mm", F16, None, end - 199);
    });
}

#[test]
fn everything_that_is_counted_is_there() {
    let line = |why: String| assert!(why.ends_with("(a step in line 1)"), "{why}");
    let step = |step: Step| line(refused(|b| b.step(step)));
    step(Step::Name(ValueId(9)));
    step(Step::Set(VariableId(9), ValueId(0)));
    step(Step::Buffer(Buffer::InitQueue(QueueId(0))));
    step(Step::Buffer(Buffer::Get(ScratchId(0), LocalId(0))));
    step(Step::Hccl(Hccl::Commit(TaskId(1))));
    step(Step::Hccl(Hccl::Init(ClientId(1), 0)));
    step(Step::Sync(Sync::Await { flag: 16 }));
    line(refused(|b| {
        let place = b.at(Base::Parameter(0), 0);
        b.step(Step::Copy(Copy::Clean(place)));
    }));
    line(refused(|b| {
        b.program.workspace = false;
        let place = b.at(Base::Workspace, 0);
        b.step(Step::Copy(Copy::Clean(place)));
    }));
    let why = refused(|b| b.program.clients[0].what.group = 1);
    assert_eq!(why, "the client hccl is of group 1, but the number of groups is 1");
    let why = refused(|b| b.program.blocks.clear());
    assert_eq!(why, "there is no block");
}

#[test]
fn steps_have_parts_of_the_right_type() {
    let wrong = |build: &dyn Fn(&mut Builder) -> Step, wanted: &str| {
        let why = refused(|b| {
            let step = build(b);
            b.step(step);
        });
        assert_eq!(why, format!("{wanted} (a step in line 1)"));
    };
    wrong(&|b| Step::Set(VariableId(0), constant(b, U32)), "value 0 is U32, not U64");
    wrong(
        &|_| Step::Read(VariableId(0), Read::Finished(TaskId(0))),
        "a variable of U64 receives a value of I32",
    );
    wrong(
        &|b| Step::Vector(Vector::Fill { to: LOCAL, value: constant(b, F16), count: b.n(1) }),
        "value 0 is F16, not F32",
    );
    let operator = VectorBinary::Add;
    wrong(
        &|b| Step::Vector(Vector::Binary { operator, to: LOCAL, a: LOCAL, b: HALF, count: b.n(1) }),
        "a vector operation on elements of different types: [F32, F32, F16]",
    );
    wrong(
        &|b| {
            let (scalar, count) = (constant(b, F32), b.n(1));
            let operator = VectorBinary::Div;
            Step::Vector(Vector::Scalar { operator, to: LOCAL, a: LOCAL, scalar, count })
        },
        "there is no Div with a scalar",
    );
    wrong(
        &|b| {
            let operator = VectorUnary::Exp;
            Step::Vector(Vector::Unary { operator, to: LOCAL, a: LOCAL, count: constant(b, F32) })
        },
        "value 0 is F32, not a whole number",
    );
}

#[test]
fn a_block_belongs_to_one_earlier_step() {
    let condition = |b: &mut Builder| constant(b, Bool);
    let unused = refused(|b| b.program.blocks.push(Vec::new()));
    assert_eq!(unused, "no step contains block 1");
    let itself = refused(|b| {
        let condition = condition(b);
        b.step(Step::If { condition, then: BlockId(0), otherwise: None });
    });
    assert_eq!(itself, "block 0 is not a new block of block 0 (a step in line 1)");
    let twice = refused(|b| {
        b.program.blocks.push(Vec::new());
        let condition = condition(b);
        b.step(Step::If { condition, then: BlockId(1), otherwise: Some(BlockId(1)) });
    });
    assert_eq!(twice, "block 1 is not a new block of block 0 (a step in line 1)");
}

#[test]
fn blocks_are_not_nested_too_deeply() {
    fn nest(b: &mut Builder, depth: u32) {
        if depth > 0 {
            b.on(Core::Aiv, |b| nest(b, depth - 1));
        }
    }
    let mut b = Builder::new(Mix::MixAiv10);
    nest(&mut b, 256);
    assert_eq!(b.program.validate(), Ok(()));
    let why = refused(|b| nest(b, 257));
    assert!(why.starts_with("blocks are nested 257 deep"), "{why}");
}

#[test]
fn a_kernel_has_as_many_arguments_as_a_launch_takes() {
    let contexts = |groups| refused(|b| b.program.groups = groups);
    assert_eq!(
        contexts(127),
        "129 arguments, but a launch takes at most 128; declare fewer, or pass numbers in the \
         tiling"
    );
    assert_eq!(
        contexts(u32::MAX),
        "4294967297 arguments, but a launch takes at most 128; declare fewer, or pass numbers in \
         the tiling"
    );
    let mut b = Builder::new(Mix::MixAiv10);
    b.program.groups = 126;
    b.program.validate().expect("128 arguments");
}
