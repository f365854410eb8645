//! The entries for dedicated threads of the library, and for the export of threads to other
//! engines, as in CANN's `hccl_res.h` and `hccl_res_expt.h`.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{Handle, Out, OutSlice, Slice};
use super::entries::{Hccl, entries};
use crate::fabric::Member;
use crate::message::refuse;
use crate::operator::dedicated;
use crate::operator::engine::OperatorEngine;
use crate::operator::resources::NOTIFIES_OF_THREAD;
use crate::operator::thread::Thread;
use ascend_sys::{CommEngine, HcclDedicatedThreadType, ThreadHandle};
use std::sync::Arc;

entries! {
    Hccl;

    fn HcclDedicatedThreadAcquire(
        comm: Handle<Member>,
        purpose: HcclDedicatedThreadType,
        notifies: u32,
        thread: Out<ThreadHandle>,
    ) {
        let member = comm.find()?;
        let thread = thread.required("thread")?;
        if notifies >= NOTIFIES_OF_THREAD {
            return refuse!(
                HCCL_E_PARA,
                "the number of notifies of one thread is {notifies}; pass fewer than \
                 {NOTIFIES_OF_THREAD}"
            );
        }
        let handle = dedicated::acquire(&member, purpose, notifies)?;
        thread.write(handle);
        Ok(())
    }

    /// Exports threads to another engine. All engines accept the same handle of a thread, so the
    /// export is the handle itself. The call only checks that CANN would export the thread.
    fn HcclThreadExportToCommEngine(
        comm: Handle<Member>,
        count: u32,
        threads: Slice<ThreadHandle>[count],
        engine: CommEngine,
        exported: OutSlice<ThreadHandle>[count],
    ) {
        let member = comm.find()?;
        let threads = threads.required("threads")?;
        let exported = exported.required("exportedThreads")?;
        if count == 0 || count > MOST {
            return refuse!(HCCL_E_PARA, "threadNum is {count}; pass 1 to {MOST}");
        }
        let to = match OperatorEngine::from_number(engine) {
            Some(to @ (OperatorEngine::Cpu | OperatorEngine::Aicpu)) => to,
            _ => {
                return refuse!(
                    HCCL_E_PARA,
                    "threads cannot be exported to the engine {}; pass CPU (0, 1) or AICPU (2, 3)",
                    engine.0
                );
            }
        };
        // The handles are copied, because the two arrays may be the same.
        let threads = threads.to_vec();
        for (at, handle) in threads.iter().enumerate() {
            let thread = Thread::named(*handle)?;
            let Some(owner) = thread.owner() else {
                return refuse!(
                    HCCL_E_PARA,
                    "threads[{at}] is {}; pass a thread that has not ended",
                    thread.describe()
                );
            };
            let is_of_rank = match &owner.member {
                Some(of) => Arc::ptr_eq(of, &member),
                None => thread.device() == member.device,
            };
            if !is_of_rank {
                return refuse!(
                    HCCL_E_PARA,
                    "threads[{at}] is {}, not of rank {} of communicator \"{}\"; pass threads of \
                     this rank",
                    thread.describe(),
                    member.rank,
                    member.comm.title()
                );
            }
            if to == OperatorEngine::Cpu && owner.engine != OperatorEngine::Aicpu {
                return refuse!(
                    HCCL_E_PARA,
                    "threads[{at}] is {}; export only threads of the engine AICPU to the host",
                    thread.describe()
                );
            }
        }
        exported.write(&threads);
        Ok(())
    }
}

/// The largest number of threads in one call.
const MOST: u32 = 40;
