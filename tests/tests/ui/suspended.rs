//~ E0599: Communicator<hccl::comm::Suspended>
use hccl::prelude::*;

type State = Suspended; // misuse
// correct: type State = Active;

pub fn barrier(comm: &mut Communicator<State>, stream: &Stream) -> hccl::Result<Work> {
    comm.barrier(stream)
}
