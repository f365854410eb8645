//! 11. A custom operator: one message, by hand.
//!
//! Rank 0 sends its elements to rank 1. A peer can access only the *communication buffer* of a
//! rank. So the sender copies the elements into its buffer, lets the receiver read the buffer, and
//! waits until the receiver has read it. The functions have the names of CANN's resources: a
//! thread, a channel with two notifies, the buffer.
//!
//! The operator is recorded, its resources are counted, it is checked, and then it runs on two
//! emulated NPUs.
//!
//!     cargo run --release --example 11_point_to_point

use hccl::operator::{Engine, Operator};
use hccl::prelude::*;
use hccl_examples::operators::point_to_point::{FROM, TO, point_to_point};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let send = Operator::send("point_to_point", FROM, TO, point_to_point);

    // Before anything runs, print the tasks of every rank and their resources, and check them.
    let recorded = send.record::<f32>(2, 1000)?;
    println!("{recorded}\n");
    println!("{}\n", recorded.plan(Engine::CpuTs));
    let report = recorded.check();
    println!("{report}\n");
    assert!(report.is_good());

    let runtime = Runtime::auto()?;
    runtime.run_job(2, |rank| -> hccl::Result<()> {
        let stream = rank.device().stream()?;
        let mut comm = rank.communicator()?;
        if rank.index() == FROM {
            let data: Vec<f32> = (0..1000).map(|i| i as f32).collect();
            let data = rank.device().upload(&data, &stream)?;
            comm.run(&send).input(&data).submit(&stream)?.wait()?;
        } else {
            let mut data = rank.device().zeros::<f32>(1000, &stream)?;
            comm.run(&send).output(&mut data).submit(&stream)?.wait()?;
            let data = data.to_vec(&stream).wait()?;
            assert!(data.iter().enumerate().all(|(i, x)| *x == i as f32));
            println!("rank 1 has all 1000 elements of rank 0");
        }
        Ok(())
    })?;
    Ok(())
}
