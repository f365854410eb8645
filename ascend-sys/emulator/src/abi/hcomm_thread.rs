//! The entries for threads outside of communicators, as in CANN's `hcomm_res.h`.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{MOST_ITEMS, Out, OutSlice, Slice};
use super::entries::{Hcomm, entries};
use std::ffi::c_void;

use ascend_sys::{CommEngine, HcclResult, ThreadHandle, ThreadResType};

use super::hccl_thread::resource_of;
use crate::message::refuse;
use crate::operator::engine::OperatorEngine;
use crate::operator::resources;
use crate::operator::thread::Thread;

/// The largest number of threads in one call. `MOST_NOTIFIES` is the largest number of notifies of
/// each thread.
const MOST_THREADS: u32 = 1000;
const MOST_NOTIFIES: u32 = 64;

entries! {
    Hcomm;

    fn HcommThreadAlloc(
        engine: CommEngine,
        count: u32,
        notifies: Slice<u32>[count],
        threads: OutSlice<ThreadHandle>[count],
    ) {
        let notifies = notifies.required("notifyNumPerThread")?;
        let threads = threads.required("threads")?;
        let engine = OperatorEngine::of_threads(engine)?;
        if count == 0 || count > MOST_THREADS {
            return refuse!(HCCL_E_PARA, "threadNum is {count}; pass 1 to {MOST_THREADS}");
        }
        if let Some((at, wanted)) =
            notifies.iter().enumerate().find(|(_, wanted)| **wanted > MOST_NOTIFIES)
        {
            return refuse!(
                HCCL_E_PARA,
                "notifyNumPerThread[{at}] is {wanted}; pass at most {MOST_NOTIFIES} for each thread"
            );
        }
        threads.write(&resources::allocate_threads(engine, &notifies)?);
        Ok(())
    }

    fn HcommThreadFree(threads: Slice<ThreadHandle>[count], count: u32) {
        let threads = threads.required("threads")?;
        let threads = threads.counted(MOST_ITEMS, "threadNum", HcclResult::HCCL_E_PARA)?;
        threads.iter().try_for_each(|thread| resources::free_thread(*thread))
    }

    fn HcommThreadResGetInfo(
        thread: ThreadHandle,
        kind: ThreadResType,
        length: u32,
        info: Out<*mut c_void>,
    ) {
        let info = info.required("info")?;
        resource_of(Thread::named(thread).ok(), thread, kind, length, info)
    }
}
