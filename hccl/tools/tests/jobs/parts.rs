//! The functions that run in the processes of the jobs.

use std::error::Error;
use std::time::Duration;

use hccl::job::{JobEnv, Store};
use hccl::kernel::*;
use hccl::operator::Operator;
use hccl::prelude::*;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Calls a part. An error is printed and ends the process, as at the end of a `main`.
pub(crate) fn call(name: &str) {
    let done = match name {
        "sum" => sum(),
        "communicator" => communicator(),
        "fails" => fails("an error of its own"),
        "panics" => fails("panic"),
        "panics by itself" => panics_by_itself(),
        "is killed" => fails("kill"),
        "two communicators" => two_communicators(),
        "elastic" => elastic(),
        "only some" => only_some(),
        "values" => values(),
        "hands over" => hands_over(),
        "alone" => alone(),
        _ => Err(format!("there is no part {name}").into()),
    };
    if let Err(error) = done {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn runtime() -> Result<Runtime> {
    Ok(Runtime::emulator_builder().devices(8).memory(16 << 20).build()?)
}

fn added(rank: &Rank, comm: &mut Communicator, value: i32) -> hccl::Result<i32> {
    let stream = rank.device().stream()?;
    let mut x = rank.device().upload(&[value; 100], &stream)?;
    comm.all_reduce_in_place(&mut x, Sum, &stream)?.wait()?;
    let x = x.to_vec(&stream).wait()?;
    assert!(x.iter().all(|element| *element == x[0]));
    Ok(x[0])
}

fn sum() -> Result<()> {
    runtime()?.run_job(3, |rank| -> hccl::Result<()> {
        let mut comm = rank.communicator()?;
        assert_eq!((comm.rank(), comm.world_size()), (rank.index(), rank.world_size()));
        let sum = added(&rank, &mut comm, rank.index() as i32 + 1)?;
        let launcher = rank.launcher().map_or("nobody".to_owned(), |it| it.to_string());
        let (index, device) = (rank.index(), rank.device().index());
        println!("rank {index} on device {device} by {launcher}: {sum}");
        Ok(())
    })?;
    Ok(())
}

#[kernel(mix = "aiv_only")]
fn sevens(_k: Kernel, y: Output<u64>) {
    y.set(0, 7);
    y.clean(0);
}

/// Runs a kernel on a device of this process, independently of the other ranks.
fn alone() -> Result<()> {
    let runtime = Runtime::emulator(1)?;
    let device = runtime.device(0)?;
    let stream = device.stream()?;
    let mut y = device.zeros::<u64>(8, &stream)?;
    let mut kernel = sevens::record()?.load(&device)?;
    kernel.launch(1).output(&mut y).submit(&stream)?.wait()?;
    Ok(())
}

/// Runs an operator between the first rank and the last one.
fn hands_over() -> Result<()> {
    Runtime::emulator(8)?.run_job(3, |rank| -> hccl::Result<()> {
        let last = rank.world_size() - 1;
        let hand_over = Operator::send("hand_over", 0, last, move |op, main| {
            if op.rank() == 0 {
                main.copy(op.input(), op.buffer().slice(..op.count()));
                let exposed = main.expose(op.channel(last));
                main.reclaim(exposed);
            } else if op.rank() == last {
                let access = main.enter(op.channel(0));
                main.read(access.buffer().slice(..op.count()), op.output());
                main.leave(access);
            }
        });
        let stream = rank.device().stream()?;
        let mut comm = rank.communicator()?;
        let mut x = rank.device().upload(&[rank.index() as i32; 64], &stream)?;
        if rank.index() == 0 {
            comm.run(&hand_over).input(&x).submit(&stream)?.wait()?;
        } else if rank.index() == last {
            comm.run(&hand_over).output(&mut x).submit(&stream)?.wait()?;
        }
        comm.barrier(&stream)?.wait()
    })?;
    Ok(())
}

fn communicator() -> Result<()> {
    let runtime = runtime()?;
    let mut comm = Communicator::from_env(&runtime)?;
    let device = runtime.device(comm.rank() as usize)?;
    let stream = device.stream()?;
    comm.barrier(&stream)?.wait()?;
    println!("rank {} of {}: {}", comm.rank(), comm.world_size(), comm.title());
    Ok(())
}

fn two_communicators() -> Result<()> {
    runtime()?.run_job(2, |rank| -> hccl::Result<()> {
        for number in 0..20 {
            let (mut first, mut second) = (rank.communicator()?, rank.communicator()?);
            let ranks = rank.world_size() as i32;
            assert_eq!(added(&rank, &mut first, number)?, ranks * number);
            assert_eq!(added(&rank, &mut second, 1)?, ranks);
        }
        Ok(())
    })?;
    Ok(())
}

/// Makes the rank of `HCCL_TEST_VICTIM` fail while the other ranks wait for it.
fn fails(how: &str) -> Result<()> {
    let victim: u32 = std::env::var("HCCL_TEST_VICTIM")?.parse()?;
    runtime()?.run_job(3, |rank| -> Result<()> {
        let mut comm = rank.communicator()?;
        added(&rank, &mut comm, 1)?;
        if rank.index() == victim {
            match how {
                "kill" => kill_this_process(),
                "panic" => panic!("a panic of rank {victim}"),
                text => return Err(text.into()),
            }
        }
        let error = added(&rank, &mut comm, 1).unwrap_err();
        println!("rank {}: {:?} {:?}", rank.index(), error.kind(), error.gone_ranks());
        Err(error.into())
    })?;
    Ok(())
}

/// Makes the rank of `HCCL_TEST_VICTIM` panic outside of `run_job`.
fn panics_by_itself() -> Result<()> {
    let victim: u32 = std::env::var("HCCL_TEST_VICTIM")?.parse()?;
    let rank = Rank::from_env(&runtime()?)?;
    let mut comm = rank.communicator()?;
    added(&rank, &mut comm, 1)?;
    assert_ne!(rank.index(), victim, "a panic of rank {victim}");
    let error = added(&rank, &mut comm, 1).unwrap_err();
    println!("rank {}: {:?} {:?}", rank.index(), error.kind(), error.gone_ranks());
    Err(error.into())
}

fn kill_this_process() -> ! {
    let process = std::process::id().to_string();
    let _ = std::process::Command::new("kill").args(["-9", &process]).status();
    std::thread::sleep(Duration::from_secs(60));
    std::process::exit(3)
}

/// Ends the ranks of `HCCL_TEST_ABSENT` before they meet the other ranks.
fn only_some() -> Result<()> {
    let env = JobEnv::from_env()?.ok_or("no launcher")?;
    let absent = std::env::var("HCCL_TEST_ABSENT")?;
    if absent.split(',').any(|rank| rank == env.rank.to_string()) {
        // Stays for as long as the other ranks wait.
        std::thread::sleep(Duration::from_millis(std::env::var("HCCL_TEST_STAYS")?.parse()?));
        return Ok(());
    }
    let error = Rank::from_env(&runtime()?).unwrap_err();
    println!("{:?} {:?} {:?}", error.kind(), error.missing_ranks(), error.gone_ranks());
    Err(error.into())
}

/// Runs steps over several generations. Each rank of `HCCL_TEST_VICTIMS` (`rank@step`) is killed
/// once.
fn elastic() -> Result<()> {
    let runtime = runtime()?;
    let env = JobEnv::from_env()?.ok_or("no launcher")?;
    let victims = std::env::var("HCCL_TEST_VICTIMS")?;
    let wanted: u32 = std::env::var("HCCL_TEST_RANKS_AT_END")?.parse()?;
    let is_victim = |step: u32| victims.split(',').any(|it| *it == format!("{}@{step}", env.rank));
    let mut rank = Rank::from_env(&runtime)?;
    let is_new = rank.generation() > 1;
    let mut step = 0;
    loop {
        let mut comm = rank.communicator()?;
        // All ranks take the step of rank 0, because a newcomer has none.
        let own = if rank.index() == 0 { step } else { 0 };
        step = added(&rank, &mut comm, own as i32)? as u32;
        let ended = loop {
            if step == 60 && rank.world_size() == wanted {
                break Ok(());
            }
            if !is_new && is_victim(step) {
                kill_this_process();
            }
            // Rank 0 queries the newcomers, and the sum gives all ranks its answer.
            let newcomers = if rank.index() == 0 { rank.newcomers()? } else { 0 };
            match added(&rank, &mut comm, 1 + 1000 * newcomers as i32) {
                Ok(sum) if sum < 1000 => {
                    assert_eq!(sum, rank.world_size() as i32);
                    step = (step + 1).min(60);
                }
                Ok(_) => break Err(None),
                Err(error) => break Err(Some(error)),
            }
        };
        drop(comm);
        match ended {
            Ok(()) => break,
            Err(Some(error)) if error.kind() != hccl::ErrorKind::RankGone => {
                return Err(error.into());
            }
            Err(_) => rank = rank.regroup()?,
        }
    }
    println!(
        "rank {} of {} in generation {}, started as {}, {}",
        rank.index(),
        rank.world_size(),
        rank.generation(),
        env.rank,
        if is_new { "new" } else { "old" },
    );
    Ok(())
}

/// Uses values and counters of the store, without a communicator.
fn values() -> Result<()> {
    let env = JobEnv::from_env()?.ok_or("no launcher")?;
    let limit = Duration::from_secs(20);
    let mut store = Store::join(&env, limit)?;
    store.set(&format!("of {}", env.rank), &[env.rank as u8; 1000])?;
    for rank in 0..env.world_size {
        let value = store.get_from(rank, &format!("of {rank}"), limit)?;
        assert_eq!(value, [rank as u8; 1000]);
    }
    store.add("done", 1)?;
    // No rank leaves before all ranks are done.
    while store.add("done", 0)? < i64::from(env.world_size) {
        std::thread::sleep(Duration::from_millis(1));
    }
    println!("rank {} is done", env.rank);
    Ok(())
}
