//~ E0599: no method named `resume` found for struct `hccl::Communicator`
use hccl::prelude::*;

type State = Active; // misuse
// correct: type State = Suspended;

pub fn go_on(comm: Communicator<State>) {
    let _ = comm.resume();
}
