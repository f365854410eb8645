//! 14. Ranks as processes.
//!
//! The program starts itself once more for each rank, as a launcher would, and each process joins
//! with the root info that it gets. On the emulator the devices of the processes are cards of one
//! machine, and each process reads the data of the other processes in place.
//!
//!     cargo run --release --example 14_processes -- [ranks]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, ExitCode, Stdio};

use clap::Parser;
use hccl::prelude::*;

/// Sums over ranks that are processes.
#[derive(Parser)]
struct Options {
    /// The number of processes.
    #[arg(default_value_t = 3)]
    ranks: u32,
    /// This process is the rank of this number; it reads the root info from its standard input.
    #[arg(long, hide = true)]
    rank: Option<u32>,
}

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let options = Options::parse();
    if let Some(rank) = options.rank {
        run(rank, options.ranks)?;
        return Ok(ExitCode::SUCCESS);
    }
    // The process that makes the root info must live until all ranks have joined, because it
    // listens for them.
    let runtime = Runtime::auto()?;
    let root = RootInfo::new(&runtime.device(0)?)?;
    let start = |rank: u32| -> std::io::Result<Child> {
        let mut process = Command::new(std::env::current_exe()?);
        process.args([options.ranks.to_string(), format!("--rank={rank}")]);
        let mut child = process.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let line = root.to_bytes().map(|byte| byte.to_string()).join(" ");
        child.stdin.take().expect("it is piped").write_all(line.as_bytes())?;
        Ok(child)
    };
    let mut children = (0..options.ranks).map(start).collect::<Result<Vec<_>, _>>()?;
    for (rank, child) in children.iter_mut().enumerate() {
        let out = child.stdout.take().expect("it is piped");
        for line in BufReader::new(out).lines() {
            println!("[process {} rank {rank}] {}", child.id(), line?);
        }
    }
    let mut all_well = true;
    for (rank, child) in children.iter_mut().enumerate() {
        let status = child.wait()?;
        if !status.success() {
            eprintln!("rank {rank} ended with {status}");
            all_well = false;
        }
    }
    Ok(if all_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs one rank.
fn run(rank: u32, ranks: u32) -> Result<(), Box<dyn std::error::Error>> {
    let line = std::io::read_to_string(std::io::stdin())?;
    let bytes = line.split_whitespace().map(str::parse).collect::<Result<Vec<u8>, _>>()?;
    let root = RootInfo::from_bytes(&bytes)?;
    // Device d is the same card in every process, so each rank takes a device of its own.
    let runtime = Runtime::auto()?;
    let device = runtime.device(rank as usize)?;
    let stream = device.stream()?;
    let joined =
        Communicator::builder().device(&device).rank(rank).world_size(ranks).root_info(&root);
    let mut comm = joined.build().wait()?;

    let x = device.upload(&vec![rank as f32 + 1.0; 1 << 20], &stream)?;
    let sum = device.alloc(1 << 20)?;
    let (sum, work) = comm.all_reduce(&x, sum, Sum, &stream)?;
    work.wait()?;
    let sum = sum.to_vec(&stream).wait()?;
    println!("the sum of 1 to {ranks} is {}", sum[0]);

    let next = (rank + 1) % ranks;
    let previous = (rank + ranks - 1) % ranks;
    let (own, mut theirs) = (device.upload(&[rank], &stream)?, device.zeros::<u32>(1, &stream)?);
    comm.batch().send(&own, next).recv(&mut theirs, previous).submit(&stream)?.wait()?;
    println!("rank {} says hello", theirs.to_vec(&stream).wait()?[0]);
    stream.synchronize()?;
    Ok(())
}
