//! Runs printed kernels on the host.

use std::process::Command;

use ascend_program::cube::Field;
use ascend_program::layout::{Item, Layout, Number};
use ascend_program::{Core, Program};
use half::f16;

use crate::build;
use crate::compiler::{Directory, compiler, program_of_host};

/// The arguments of a launch. All ranks have the same ones, except the bytes.
#[derive(Default)]
pub struct Launch {
    pub ranks: usize,
    pub blocks: u32,
    /// The tiling of each rank. If there is only one, it is for all ranks.
    pub tilings: Vec<Vec<u8>>,
    /// The bytes of each input in order, for each rank.
    pub inputs: Vec<Vec<Vec<u8>>>,
    /// The size of each output in order, in bytes.
    pub outputs: Vec<usize>,
}

/// The outcome of a run.
pub struct Outcome {
    /// The calls to the client of each rank.
    pub calls: Vec<Vec<String>>,
    /// The bytes of each output in order, for each rank.
    pub outputs: Vec<Vec<Vec<u8>>>,
}

/// Compiles a kernel and runs it. Returns `None` without a compiler.
pub fn run(program: &Program, launch: &Launch) -> Option<Outcome> {
    run_with(program, launch, &[])
}

/// Compiles a kernel and runs it, as [`run`] does, with more options for the compiler.
pub fn run_with(program: &Program, launch: &Launch, more: &[&str]) -> Option<Outcome> {
    compiler()?;
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let directory = Directory::new(&format!("run-{}-{number}", program.name));
    let run = program_of_host(|| compiler().unwrap(), more, program, &directory);
    let ratio = |core| program.mix.ratio(core);
    let mut text = format!(
        "ranks {}\nblocks {}\naic {}\naiv {}\ngroups {}\nwindow 4096\nworkspace 4096\n",
        launch.ranks,
        launch.blocks,
        ratio(Core::Aic),
        ratio(Core::Aiv),
        program.groups,
    );
    let (mut inputs, mut outputs) = (launch.inputs.iter(), launch.outputs.iter());
    for parameter in &program.parameters {
        let name = &parameter.name;
        if parameter.output {
            text += &format!("output {name} {}\n", outputs.next().unwrap());
            continue;
        }
        text += &format!("input {name}\n");
        for (rank, bytes) in inputs.next().unwrap().iter().enumerate() {
            directory.write(&format!("{name}.{rank}"), bytes);
        }
    }
    for rank in 0..launch.ranks {
        let bytes = launch.tilings.get(rank).or(launch.tilings.first());
        directory.write(&format!("tiling.{rank}"), bytes.map_or(&[][..], |bytes| bytes));
    }
    directory.write("launch", text);
    let output = Command::new(run).arg(&directory.0).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", program.name);
    let mut calls = vec![Vec::new(); launch.ranks];
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let (rank, call) = line.split_once(' ').unwrap();
        calls[rank.parse::<usize>().unwrap()].push(call.to_owned());
    }
    let read = |name: &str| {
        let file = |rank| std::fs::read(directory.0.join(format!("{name}.{rank}"))).unwrap();
        (0..launch.ranks).map(file).collect()
    };
    let outputs = program.parameters.iter().filter(|p| p.output).map(|p| read(&p.name)).collect();
    Some(Outcome { calls, outputs })
}

/// Returns the bytes of a tiling struct: CANN's structs as CANN's host side fills them, and these
/// numbers.
pub fn tiling(layout: &Layout, operation: u32, numbers: &[(&str, &[u64])]) -> Vec<u8> {
    let mut bytes = vec![0; layout.size as usize];
    let side = |of: &str| {
        let found = numbers.iter().find(|(name, _)| *name == of);
        found.map_or(1, |(_, list)| list[0] as usize)
    };
    let mut put = |at: u32, number: u32| {
        bytes[at as usize..at as usize + 4].copy_from_slice(&number.to_le_bytes());
    };
    for field in layout.fields() {
        match &field.item {
            Item::Struct(inner) if inner.name == "Mc2InitTiling" => put(field.offset, 100),
            Item::Struct(inner) if inner.name == "Mc2CcTiling" => {
                put(4, 1);
                put(8, field.offset);
                put(field.offset + 272, operation);
            }
            Item::Struct(_) => {
                let mut cube = build::cube(Number::F16, None, ["m", "n", "k"].map(side), 1);
                // The blocks are small, so that there are several.
                cube.0[Field::BaseM as usize] = 16;
                cube.0[Field::BaseN as usize] = 16;
                for (at, number) in (0_u32..).zip(cube.0) {
                    put(field.offset + 4 * at, number.cast_unsigned());
                }
            }
            Item::Number(_) => {}
        }
    }
    for (name, list) in numbers {
        let at = layout.field(name).unwrap().offset as usize;
        for (i, number) in list.iter().enumerate() {
            bytes[at + 8 * i..at + 8 * i + 8].copy_from_slice(&number.to_le_bytes());
        }
    }
    bytes
}

pub fn bytes(numbers: impl IntoIterator<Item = f32>) -> Vec<u8> {
    numbers.into_iter().flat_map(|number| f16::from_f32(number).to_le_bytes()).collect()
}

pub fn numbers(bytes: &[u8]) -> Vec<f32> {
    let read = |two: &[u8]| f16::from_le_bytes([two[0], two[1]]).to_f32();
    bytes.chunks_exact(2).map(read).collect()
}
