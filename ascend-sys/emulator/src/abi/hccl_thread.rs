//! The entries for threads of custom operators, as in CANN's `hccl_res.h`.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{Handle, Out, OutSlice, Place, Slice};
use super::entries::{Hccl, entries};
use std::ffi::c_void;

use ascend_sys::{CommEngine, ThreadConfig, ThreadHandle, ThreadResType, ThreadType};

use crate::fabric::Member;
use crate::machine;
use crate::message::{Failure, refuse};
use crate::operator::engine::OperatorEngine;
use crate::operator::resources::{self, NOTIFIES_OF_THREAD};
use crate::operator::thread::Thread;
use crate::slots::{HandleKind, unknown};
use crate::stream::Stream;

entries! {
    Hccl;

    fn HcclThreadAcquire(
        comm: Handle<Member>,
        engine: CommEngine,
        count: u32,
        notifies: u32,
        threads: OutSlice<ThreadHandle>[count],
    ) {
        let member = comm.find()?;
        let threads = threads.required("threads")?;
        let engine = OperatorEngine::of_threads(engine)?;
        check_count(count)?;
        check_notifies(notifies)?;
        let notifies = vec![notifies; count as usize];
        threads.write(&resources::acquire_threads(&member, engine, &notifies)?);
        Ok(())
    }

    fn HcclThreadAcquireWithConfig(
        comm: Handle<Member>,
        engine: CommEngine,
        count: u32,
        type_: ThreadType,
        config: Slice<ThreadConfig>[count],
        threads: OutSlice<ThreadHandle>[count],
    ) {
        let member = comm.find()?;
        let config = config.required("config")?;
        let threads = threads.required("threads")?;
        let engine = match engine {
            CommEngine::COMM_ENGINE_CPU => OperatorEngine::Cpu,
            CommEngine::COMM_ENGINE_AICPU => OperatorEngine::Aicpu,
            other => {
                return refuse!(
                    HCCL_E_PARA,
                    "the engine {} has no threads with configurations; use COMM_ENGINE_CPU or COMM_ENGINE_AICPU",
                    other.0
                );
            }
        };
        if type_ != ThreadType::THREAD_TYPE_TS {
            return refuse!(HCCL_E_PARA, "type is {}; pass THREAD_TYPE_TS (0)", type_.0);
        }
        check_count(count)?;
        for (at, one) in config.iter().enumerate() {
            if one.header.magicWord != CONFIG_MAGIC {
                return refuse!(
                    HCCL_E_PARA,
                    "the magic word of config[{at}] is {:#x} instead of {CONFIG_MAGIC:#x}. \
                     Initialise the configuration with ThreadConfigInit",
                    one.header.magicWord
                );
            }
        }
        let notifies: Vec<u32> =
            config.iter().map(|one| u32::from(one.notifyNumPerThread)).collect();
        threads.write(&resources::acquire_threads(&member, engine, &notifies)?);
        Ok(())
    }

    fn HcclThreadAcquireWithStream(
        comm: Handle<Member>,
        engine: CommEngine,
        stream: Handle<Stream>,
        notifies: u32,
        thread: Out<ThreadHandle>,
    ) {
        let member = comm.find()?;
        stream.required("stream")?;
        let thread = thread.required("thread")?;
        let engine = match OperatorEngine::from_number(engine) {
            Some(engine @ (OperatorEngine::Cpu | OperatorEngine::Ccu)) => engine,
            _ => {
                return refuse!(
                    HCCL_E_PARA,
                    "the engine {} has no threads on streams of the program; use COMM_ENGINE_CPU, COMM_ENGINE_CPU_TS or COMM_ENGINE_CCU",
                    engine.0
                );
            }
        };
        check_notifies(notifies)?;
        let stream = stream.find()?;
        if stream.device_id() != member.device {
            return refuse!(
                HCCL_E_PARA,
                "{} is not on the device of the communicator, which is {}; pass a stream of that \
                 device",
                stream.describe(),
                machine::named(member.device)
            );
        }
        let handle = resources::wrap_stream(&member, engine, stream, notifies)?;
        thread.write(handle);
        Ok(())
    }

    fn HcclThreadResGetInfo(
        comm: Handle<Member>,
        thread: ThreadHandle,
        kind: ThreadResType,
        length: u32,
        info: Out<*mut c_void>,
    ) {
        let member = comm.find()?;
        let info = info.required("info")?;
        let owned = |thread: &&'static Thread| {
            let member_of = thread.owner().and_then(|owner| owner.member);
            member_of.is_some_and(|of| std::ptr::eq(&*of, &*member))
        };
        resource_of(Thread::named(thread).ok().filter(owned), thread, kind, length, info)
    }
}

fn check_notifies(notifies: u32) -> Result<(), Failure> {
    if notifies >= NOTIFIES_OF_THREAD {
        return refuse!(
            HCCL_E_PARA,
            "the number of notifies of one thread is {notifies}; pass fewer than \
             {NOTIFIES_OF_THREAD}"
        );
    }
    Ok(())
}

/// Checks the number of threads, before memory for their handles is allocated.
fn check_count(count: u32) -> Result<(), Failure> {
    if count == 0 {
        return refuse!(HCCL_E_PARA, "threadNum is 0; pass at least 1");
    }
    if count as usize > resources::MOST_THREADS {
        return refuse!(
            HCCL_E_UNAVAIL,
            "EI0007: threadNum is {count}; pass at most {}",
            resources::MOST_THREADS
        );
    }
    Ok(())
}

/// The magic word that `ThreadConfigInit` writes.
const CONFIG_MAGIC: u32 = 0x0f0f_0f2f;

/// Writes the stream of a thread to `info`. `found` is the thread of the handle `thread`; `None` if
/// there is none, or if the caller may not query it, which is an error.
pub(super) fn resource_of(
    found: Option<&'static Thread>,
    thread: ThreadHandle,
    kind: ThreadResType,
    length: u32,
    info: Place<*mut c_void>,
) -> Result<(), Failure> {
    if kind != ThreadResType::THREAD_RES_TYPE_STREAM {
        return refuse!(
            HCCL_E_NOT_SUPPORT,
            "resType is {}; pass THREAD_RES_TYPE_STREAM (0), the only resource of a thread",
            kind.0
        );
    }
    if length as usize != size_of::<*mut c_void>() {
        return refuse!(
            HCCL_E_PARA,
            "infoLen is {length}; pass {}, the size of a stream handle in bytes",
            size_of::<*mut c_void>()
        );
    }
    let Some(found) = found else {
        let text = match Thread::named(thread) {
            Ok(thread) => format!(
                "{} is not of this communicator; pass a thread of the communicator",
                thread.describe()
            ),
            Err(_) => unknown(HandleKind::Thread, thread).text.to_string(),
        };
        return refuse!(HCCL_E_NOT_FOUND, "{text}");
    };
    info.write(found.stream()?.handle() as *mut c_void);
    Ok(())
}
