//! `HcommAcquireComm`: one OS thread at a time has a rank's communicator to itself.
//!
//! Only those who ask for it are kept apart; a primitive does not look.

use super::rooms::with_room;
use crate::collective::validate::{Refusal, refuse};
use crate::executor;
use crate::fabric::{Member, registry};
use std::sync::Arc;
use std::thread::{self, ThreadId};

fn find(name: &str, device: u32) -> Result<Arc<Member>, Refusal> {
    match registry::find_by_name(name, device) {
        Some(handle) => registry::member(handle),
        None => {
            refuse!(HCCL_E_PTR, "device {device} has no communicator with the name \"{name}\"")
        }
    }
}

/// Takes it, after whoever has it now.
pub(crate) fn acquire(name: &str, device: u32) -> Result<(), Refusal> {
    let member = find(name, device)?;
    let me = thread::current().id();
    let holder = || -> Result<Option<ThreadId>, Refusal> {
        with_room(&member, |room| {
            let before = room.locked;
            room.locked.get_or_insert(me);
            Ok(before)
        })
    };
    if holder()?.is_some_and(|holder| holder == me) {
        return refuse!(
            HCCL_E_PARA,
            "the calling thread has the communicator \"{name}\" already; HcommReleaseComm first"
        );
    }
    let limit = Some(member.comm.connect_timeout);
    let has = || with_room(&member, |room| Ok(room.locked));
    let taken = executor::wait_until(limit, || {
        has().is_err() || holder().is_ok_and(|before| before.is_none_or(|holder| holder == me))
    });
    match has()? {
        Some(holder) if taken && holder == me => Ok(()),
        _ => refuse!(
            HCCL_E_TIMEOUT,
            "another thread has had the communicator \"{name}\" for {:.1} s; it has to call HcommReleaseComm",
            member.comm.connect_timeout.as_secs_f64()
        ),
    }
}

/// Gives it back.
pub(crate) fn release(name: &str, device: u32) -> Result<(), Refusal> {
    let member = find(name, device)?;
    with_room(&member, |room| match room.locked {
        Some(holder) if holder == thread::current().id() => {
            room.locked = None;
            Ok(())
        }
        holder => refuse!(
            HCCL_E_PARA,
            "the calling thread has not acquired the communicator \"{name}\"{}",
            if holder.is_some() { ", another one has" } else { "" }
        ),
    })?;
    executor::announce();
    Ok(())
}
