//! Programs as bytes: decoding returns the encoded program. Damaged bytes give an error or another
//! program, but never a panic.

use ascend_program::check::{Product, Setting, check};
use ascend_program::flow::Launch;
use ascend_program::*;
use ascend_program_testing::random;
use fastrand::Rng;

/// Calls every function that reads a program.
fn read(program: &Program, random: &mut Rng) {
    program.validate().expect("what was decoded is valid");
    assert!(!program.to_string().is_empty());
    let launch = Launch {
        blocks: random.u32(0..4),
        tiling: (0..random.usize(0..700)).map(|_| random.u8(..)).collect(),
        groups: vec![(random.u32(0..4), random.u32(0..5)); random.usize(0..3)],
    };
    let product = *random.choice(&[Product::A2, Product::A3, Product::Ascend950]).unwrap();
    let mut setting = Setting::strict(product);
    setting.tolerant = random.bool();
    setting.parameters = vec![Some(random.u64(0..1000)), None];
    let once = check(program, &launch, &setting);
    assert_eq!(once, check(program, &launch, &setting), "the same launch, the same verdict");
}

#[test]
fn a_program_survives_its_encoding() {
    let mut random = Rng::with_seed(1);
    for _ in 0..300 {
        let program = random::program(&mut random);
        let bytes = program.to_bytes();
        assert!(Program::is_one(&bytes));
        assert_eq!(Program::from_bytes(&bytes).as_ref(), Ok(&program));
        read(&program, &mut random);
    }
}

#[test]
fn the_largest_numbers_are_checked_without_overflow() {
    let mut random = Rng::with_seed(4);
    let large =
        [u64::MAX, u64::MAX - 1, u64::MAX / 2, u32::MAX as u64, 1 << 32, i64::MAX as u64, 1 << 63];
    for _ in 0..500 {
        let mut program = random::program(&mut random);
        // A loop that would take too long is removed from the test.
        let loops: Vec<ValueId> = (program.blocks.iter().flatten())
            .filter_map(|node| match node.step {
                step::Step::Loop { from, to, step, .. } => Some([from, to, step]),
                _ => None,
            })
            .flatten()
            .collect();
        for (at, value) in (0..).zip(&mut program.values) {
            if let Of::Constant(bits) = &mut value.of
                && value.number == layout::Number::U64
                && !loops.contains(&ValueId(at))
                && random.u32(0..3) == 0
            {
                *bits = *random.choice(&large).unwrap();
            }
        }
        read(&program, &mut random);
    }
}

#[test]
fn damaged_bytes_are_an_error_or_another_program() {
    let mut random = Rng::with_seed(2);
    let (mut refused, mut taken) = (0, 0);
    for _ in 0..2000 {
        let mut bytes = random::program(&mut random).to_bytes();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(0..bytes.len());
            match random.u32(0..10) {
                0 => bytes.truncate(at.max(1)),
                1 => bytes.insert(at, random.u8(..)),
                2 => drop(bytes.remove(at)),
                3 => bytes.extend((0..random.usize(1..40)).map(|_| random.u8(..))),
                4 => bytes[at] = 0xff,
                _ => bytes[at] ^= 1 << random.u32(0..8),
            }
            if bytes.is_empty() {
                break;
            }
        }
        match Program::from_bytes(&bytes) {
            Err(why) => {
                refused += 1;
                assert!(!why.to_string().is_empty());
            }
            Ok(program) => {
                taken += 1;
                read(&program, &mut random);
            }
        }
    }
    assert!(refused > 300 && taken > 100, "{refused} refused, {taken} taken");
}

#[test]
fn what_is_no_program_is_told_apart_from_what_is_damaged() {
    let bytes = random::program(&mut Rng::with_seed(3)).to_bytes();
    assert!(!Program::is_one(b"\x7fELF"));
    assert_eq!(Program::from_bytes(b"\x7fELF"), Err(DecodeError::NoProgram));
    assert_eq!(Program::from_bytes(&[]), Err(DecodeError::NoProgram));
    assert!(matches!(Program::from_bytes(&bytes[..10]), Err(DecodeError::Damaged(_))));
    let mut other = bytes.clone();
    other[MAGIC.len()..MAGIC.len() + 4].copy_from_slice(&(VERSION + 1).to_le_bytes());
    let why = Program::from_bytes(&other);
    assert_eq!(why, Err(DecodeError::Version(VERSION + 1)));
    let text = why.map_err(|why| why.to_string());
    assert_eq!(
        text,
        Err(format!(
            "the recorded kernel has version {}, but this program reads version {VERSION}: \
             record it again",
            VERSION + 1
        ))
    );
    assert!(matches!(Program::from_bytes(&bytes[..bytes.len() - 1]), Err(DecodeError::Damaged(_))));
}
