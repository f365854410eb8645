//! `HcommAcquireComm`: one OS thread at a time has a rank's communicator to itself.
//!
//! Only those who ask for it are kept apart; a primitive does not look. A thread that ends without giving it back keeps it, as in CANN; who asks
//! then is told so.

use super::resources::{Holder, with_resources};
use crate::executor;
use crate::fabric::{Member, registry};
use crate::machine;
use crate::message::{Failure, refuse};
use std::cell::RefCell;
use std::sync::Arc;

fn me() -> Holder {
    thread_local! {
        static ALIVE: Arc<()> = Arc::new(());
    }
    ALIVE.with(Arc::downgrade)
}

fn find(name: &str, device: u32) -> Result<Arc<Member>, Failure> {
    match registry::find_by_name(name, device) {
        Some(handle) => registry::member(handle),
        None => {
            refuse!(
                HCCL_E_PTR,
                "device {device} has no communicator with the name \"{name}\"",
                device = machine::named(device)
            )
        }
    }
}

/// Takes it, after whoever has it now.
pub(crate) fn acquire(name: &str, device: u32) -> Result<(), Failure> {
    let member = find(name, device)?;
    let me = me();
    if with_resources(&member, |resources| {
        Ok(resources.locked.as_ref().is_some_and(|it| it.ptr_eq(&me)))
    })? {
        return refuse!(
            HCCL_E_PARA,
            "the calling thread has the communicator \"{name}\" already; HcommReleaseComm first"
        );
    }
    // True when it is taken, false as long as somebody else has it.
    let take = || {
        with_resources(&member, |resources| match &resources.locked {
            Some(holder) if holder.strong_count() == 0 => refuse!(
                HCCL_E_UNAVAIL,
                "the thread that acquired the communicator \"{name}\" has ended without HcommReleaseComm"
            ),
            Some(_) => Ok(false),
            None => {
                resources.locked = Some(me.clone());
                Ok(true)
            }
        })
    };
    let found = RefCell::new(Ok(false));
    executor::wait_until(Some(member.comm.connect_timeout), || {
        *found.borrow_mut() = take();
        !matches!(*found.borrow(), Ok(false))
    });
    if found.into_inner()? {
        return Ok(());
    }
    refuse!(
        HCCL_E_TIMEOUT,
        "another thread has had the communicator \"{name}\" for {:.1} s; it has to call HcommReleaseComm",
        member.comm.connect_timeout.as_secs_f64()
    )
}

/// Gives it back.
pub(crate) fn release(name: &str, device: u32) -> Result<(), Failure> {
    let member = find(name, device)?;
    with_resources(&member, |resources| match &resources.locked {
        Some(holder) if holder.ptr_eq(&me()) => {
            resources.locked = None;
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
