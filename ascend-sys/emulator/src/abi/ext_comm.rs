//! The emulator's own entries for communicators: their titles, their ends and failures, and the
//! states of their ranks.
#![allow(non_snake_case, reason = "names in CANN's style")]

use ascend_sys::{AscendExtCommCause, AscendExtPresence, AscendExtRank};
use std::ffi::c_char;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::arguments::{CText, Handle, Out, OutText};
use super::entries::{Hccl, entries};
use crate::collective::comm_error::{Cause, CommError, Origin, Presence, RankState};
use crate::fabric::Member;
use crate::fabric::{attempt, registry};
use crate::message::{Failure, refuse};

entries! {
    Hccl;

    fn ascendExtCommLeave(comm: Handle<Member>, reason: CText) {
        let reason = reason.required("reason")?;
        let member = comm.find()?;
        member.comm.leave(member.rank, reason);
        Ok(())
    }

    fn ascendExtCommTitle(comm: Handle<Member>, title: CText) {
        let title = title.required("title")?;
        comm.find()?.comm.set_title(&title);
        Ok(())
    }

    fn ascendExtCommNumbersZeros(comm: Handle<Member>) {
        comm.find()?.numbers_zeros.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn ascendExtCommAbort(comm: Handle<Member>) {
        let member = comm.find()?;
        registry::abort(&member);
        Ok(())
    }

    fn ascendExtCommFailure(
        comm: Handle<Member>,
        cause: Out<AscendExtCommCause>,
        number: Out<u64>,
    ) {
        use AscendExtCommCause as Told;
        let (cause, number) = (cause.required("cause")?, number.required("number")?);
        let error = failure_of(&comm)?;
        cause.write(match error.as_ref().map(|error| error.cause) {
            None => Told::ASCEND_EXT_COMM_WELL,
            Some(Cause::Mismatch | Cause::Message) => Told::ASCEND_EXT_COMM_MISMATCH,
            Some(Cause::Timeout | Cause::Unrecorded) => Told::ASCEND_EXT_COMM_TIMEOUT,
            Some(Cause::Deadlock) => Told::ASCEND_EXT_COMM_DEADLOCK,
            Some(Cause::Gone) => Told::ASCEND_EXT_COMM_GONE,
            Some(Cause::Aborted) => Told::ASCEND_EXT_COMM_ABORTED,
        });
        number.write(match error.map(|error| error.origin) {
            Some(Origin::Collective(number)) => number,
            None | Some(Origin::Call | Origin::Batch | Origin::Operator) => 0,
        });
        Ok(())
    }

    fn ascendExtCommRank(
        comm: Handle<Member>,
        number: u64,
        rank: u32,
        state: Out<AscendExtRank>,
        text: OutText[text_len],
        text_len: usize,
    ) {
        let state = state.required("state")?;
        let at = rank as usize;
        let told = if number == 0 {
            failure_of(&comm)?.and_then(|error| error.ranks.get(at).cloned())
        } else {
            let member = comm.find()?;
            let comm = &member.comm;
            if at >= comm.ranks() {
                let ranks = comm.ranks();
                return refuse!(
                    HCCL_E_PARA,
                    "there is no rank {rank}; pass a rank below {ranks}, the number of ranks of \
                     the communicator"
                );
            }
            Some(comm.rank_state(at, number))
        };
        let Some(told) = told else {
            return refuse!(
                HCCL_E_NOT_FOUND,
                "no failed communicator has a rank {rank}; pass a number other than 0"
            );
        };
        state.write(in_c(&told));
        text.write(&told.text);
        Ok(())
    }
}

/// Returns the reason why a communicator has failed. If the handle is NULL, returns the reason of
/// the calling thread's last attempt to make a communicator.
fn failure_of(comm: &Handle<Member>) -> Result<Option<Arc<CommError>>, Failure> {
    if comm.is_null() { Ok(attempt::last()) } else { Ok(comm.find()?.comm.meeting.error()) }
}

fn in_c(told: &RankState) -> AscendExtRank {
    let mut state = AscendExtRank {
        size: size_of::<AscendExtRank>() as u32,
        presence: match told.presence {
            Presence::Arrived => AscendExtPresence::ASCEND_EXT_PRESENCE_ARRIVED,
            Presence::Missing => AscendExtPresence::ASCEND_EXT_PRESENCE_MISSING,
            Presence::Gone => AscendExtPresence::ASCEND_EXT_PRESENCE_GONE,
            Presence::Apart => AscendExtPresence::ASCEND_EXT_PRESENCE_APART,
        },
        number: told.number,
        function: [0; 32],
        count: u64::MAX,
        dataType: -1,
        op: -1,
        root: -1,
    };
    let Some(request) = told.request else { return state };
    let name = request.operation.function().bytes().map(|byte| byte as c_char);
    // The last byte stays 0 as the terminator.
    let room = state.function.len() - 1;
    state.function[..room].iter_mut().zip(name).for_each(|(to, byte)| *to = byte);
    if request.has_arguments() {
        state.dataType = request.dtype as i32;
        state.op = request.operation.reduction().map_or(-1, |op| op as i32);
        state.root = request.operation.root().map_or(-1, i64::from);
        if !request.operation.has_table() {
            state.count = request.count;
        }
    }
    state
}
