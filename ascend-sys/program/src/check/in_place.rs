//! Checks tasks that receive into the memory from which they send.

use super::traffic::Touched;
use super::view::View;
use crate::declared::TaskId;
use crate::step::Operation;

/// Reports a task that writes where it reads, unless both are the same block of the same rank.
pub(super) fn look(
    view: &mut View<'_, '_>,
    (task, operation, repeat): (TaskId, &Operation, u64),
    rank: usize,
    touched: &[Touched],
) {
    let [send, recv @ Touched { write: true, .. }] = touched else { return };
    let ((a, from), (b, to)) = (send.space, recv.space);
    // In an exchange, no block stays in its place.
    let stays = match operation {
        Operation::AllReduce(..) => Some((0, 0)),
        Operation::AllGather(..) => Some((0, rank)),
        Operation::ReduceScatter(..) => Some((rank, 0)),
        _ => None,
    };
    let repeat = u128::from(repeat);
    let shares = |(i, (start, bytes)): (usize, &(u128, u128))| {
        let (start, end) = (from + start, from + start + bytes * repeat);
        recv.blocks.iter().enumerate().find_map(|(j, (other, bytes))| {
            let (other, behind) = (to + other, to + other + bytes * repeat);
            let meet = start < behind && other < end;
            let same = stays == Some((i, j)) && (start, end) == (other, behind);
            (meet && !same).then(|| start.max(other) - from)
        })
    };
    if a == b
        && let Some(byte) = send.blocks.iter().enumerate().find_map(shares)
    {
        let words = view.words();
        let other = match send.base == recv.base {
            true => String::new(),
            false => format!(", as `{}`", words.base(recv.base)),
        };
        let message = format!(
            "`{}` sends element {} of `{}`, which is memory that it receives into{other}",
            words.task(task),
            byte / u128::from(send.size.max(1)),
            words.base(send.base)
        );
        let help = match stays {
            Some(_) => {
                "receive into other memory, or make this rank's own block the same on both sides"
            }
            None => "receive into other memory",
        };
        view.error("overlap", message, help);
    }
}
