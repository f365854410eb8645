//~ E0382: borrow of moved value: `comm`
use hccl::prelude::*;

pub fn pause(mut comm: Communicator, stream: &Stream) -> hccl::Result<Communicator<Suspended>> {
    // correct: let _ = comm.barrier(stream)?;
    let suspended = comm.suspend()?;
    let _ = comm.barrier(stream)?; // misuse
    Ok(suspended)
}
