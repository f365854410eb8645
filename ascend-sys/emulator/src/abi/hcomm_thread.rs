//! Threads outside of communicators. CANN's `hcomm_res.h`.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{Hcomm, entries};
use std::ffi::c_void;

use ascend_sys::{CommEngine, ThreadHandle, ThreadResType};

use super::hccl_entry::not_null;
use super::hccl_thread::resource_of;
use crate::message::refuse;
use crate::operator::engine::OperatorEngine;
use crate::operator::resources;
use crate::operator::thread::Thread;

/// The most threads in one call, and the most notifies of each.
const MOST_THREADS: u32 = 1000;
const MOST_NOTIFIES: u32 = 64;

entries! {
    Hcomm;

    fn HcommThreadAlloc(
        engine: CommEngine,
        count: u32,
        notifies: *const u32,
        threads: *mut ThreadHandle,
    ) {
        not_null(notifies, "notifyNumPerThread")?;
        not_null(threads, "threads")?;
        let engine = OperatorEngine::of_threads(engine)?;
        if count == 0 || count > MOST_THREADS {
            return refuse!(HCCL_E_PARA, "threadNum is {count}; it goes from 1 to {MOST_THREADS}");
        }
        // SAFETY: not null, so arrays of `count` by the C contract.
        let (notifies, threads) = unsafe {
            (
                std::slice::from_raw_parts(notifies, count as usize),
                std::slice::from_raw_parts_mut(threads, count as usize),
            )
        };
        if let Some((at, wanted)) =
            notifies.iter().enumerate().find(|(_, wanted)| **wanted > MOST_NOTIFIES)
        {
            return refuse!(
                HCCL_E_PARA,
                "notifyNumPerThread[{at}] is {wanted}; a thread has at most {MOST_NOTIFIES}"
            );
        }
        resources::allocate_threads(engine, notifies, threads)
    }

    fn HcommThreadFree(threads: *const ThreadHandle, count: u32) {
        not_null(threads, "threads")?;
        if count == 0 {
            return refuse!(HCCL_E_PARA, "threadNum is 0");
        }
        // SAFETY: not null, so an array of `count` by the C contract.
        let threads = unsafe { std::slice::from_raw_parts(threads, count as usize) };
        threads.iter().try_for_each(|thread| resources::free_thread(*thread))
    }

    fn HcommThreadResGetInfo(
        thread: ThreadHandle,
        kind: ThreadResType,
        length: u32,
        info: *mut *mut c_void,
    ) {
        not_null(info, "info")?;
        // SAFETY: not null, so valid for a write by the C contract.
        unsafe { resource_of(Thread::named(thread).ok(), thread, kind, length, info) }
    }
}
