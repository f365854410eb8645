//! A custom operator that sends one message.

use hccl::operator::*;

/// The rank that sends.
pub const FROM: u32 = 0;
/// The rank that receives.
pub const TO: u32 = 1;

/// Sends the input of rank `FROM` to rank `TO`, in pieces that fit the communication buffer.
pub fn point_to_point(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    let (rank, room) = (op.rank(), op.buffer().len());
    if rank == FROM {
        let channel = op.channel(TO);
        for piece in op.input().chunks(room) {
            let shared = op.buffer().slice(..piece.len());
            main.copy(piece, shared);
            let exposed = main.expose(channel); // the receiver may read it now
            main.reclaim(exposed); // and has read it now
        }
    } else if rank == TO {
        let channel = op.channel(FROM);
        for piece in op.output().chunks(room) {
            let access = main.enter(channel); // waits until the sender has exposed it
            main.read(access.buffer().slice(..piece.len()), piece);
            main.leave(access);
        }
    }
}
