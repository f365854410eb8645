//! The entries for queries and changes of the tasks of graphs: `aclmdlRITask...`.
#![allow(non_snake_case, reason = "CANN's names")]

use super::acl_copy::may_reach;
use super::acl_value::{condition, word};
use super::arguments::{CountedArgument, Handle, In, InOut, Out, OutSlice};
use super::entries::{Acl, entries};
use crate::capture::graph::Graph;
use crate::capture::tasks::{self, GraphTaskKind};
use crate::event::Event;
use crate::message::{Failure, fail};
use crate::stream::{Stream, Task};
use crate::value::{WaitForValue, WriteValue};
use ascend_sys::{
    ACL_ERROR_RT_FEATURE_NOT_SUPPORT, ACL_ERROR_RT_PARAM_INVALID, aclmdlRIEventRecordTaskParams,
    aclmdlRIEventWaitTaskParams, aclmdlRITask, aclmdlRITaskParams, aclmdlRITaskType as TaskType,
    aclmdlRIValueWaitTaskParams, aclmdlRIValueWriteTaskParams, aclrtEvent, aclrtStream,
    aclrtTaskGrp,
};

/// The marker for a handle that names a task of a graph.
enum GraphTask {}

entries! {
    Acl;

    fn aclmdlRIGetStreams(
        model: Handle<Graph>,
        streams: *mut aclrtStream,
        num_streams: InOut<u32>,
    ) {
        list(streams, num_streams, "numStreams", || tasks::streams(model.number()))
    }

    fn aclmdlRIGetTasksByStream(
        stream: Handle<Stream>,
        tasks: *mut aclmdlRITask,
        num_tasks: InOut<u32>,
    ) {
        list(tasks, num_tasks, "numTasks", || tasks::of_stream(stream.find()?))
    }

    fn aclmdlRITaskGetType(task: Handle<GraphTask>, kind: Out<TaskType>) {
        let kind = kind.required("type")?;
        kind.write(type_of(tasks::kind(task.number())?));
        Ok(())
    }

    fn aclmdlRITaskGetSeqId(task: Handle<GraphTask>, id: Out<u32>) {
        let id = id.required("id")?;
        id.write(tasks::place(task.number())? as u32);
        Ok(())
    }

    fn aclmdlRITaskGetParams(task: Handle<GraphTask>, params: Out<aclmdlRITaskParams>) {
        let params = params.required("params")?;
        let kind = tasks::kind(task.number())?;
        let group = tasks::group(task.number())?.unwrap_or(0) as aclrtTaskGrp;
        let mut told = aclmdlRITaskParams { type_: type_of(kind), taskGrp: group, ..Default::default() };
        // `eventFlag` has the flags with which the event was created. The flags of the task are
        // always DEFAULT.
        let flags = |event: u64| Event::named(event).map_or(0, Event::flags);
        match kind {
            GraphTaskKind::Other => {}
            GraphTaskKind::Kernel => {
                return fail!(
                    ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                    "the task is a kernel, whose parameters cannot be queried; check its type with \
                     aclmdlRITaskGetType first"
                );
            }
            GraphTaskKind::EventRecord(event) => {
                told.anon_1.eventRecordTaskParams = aclmdlRIEventRecordTaskParams {
                    event: event as aclrtEvent,
                    eventFlag: flags(event),
                    recordFlag: 0,
                };
            }
            GraphTaskKind::EventWait(event) => {
                told.anon_1.eventWaitTaskParams = aclmdlRIEventWaitTaskParams {
                    event: event as aclrtEvent,
                    eventFlag: flags(event),
                    waitFlag: 0,
                };
            }
            GraphTaskKind::ValueWrite(word) => {
                told.anon_1.valueWriteTaskParams = aclmdlRIValueWriteTaskParams {
                    devAddr: std::ptr::with_exposed_provenance_mut(word.address),
                    value: word.value,
                };
            }
            GraphTaskKind::ValueWait(word) => {
                told.anon_1.valueWaitTaskParams = aclmdlRIValueWaitTaskParams {
                    devAddr: std::ptr::with_exposed_provenance_mut(word.address),
                    value: word.value,
                    flag: word.flag.unwrap_or(0),
                };
            }
        }
        params.write(told);
        Ok(())
    }

    fn aclmdlRITaskSetParams(
        task: Handle<GraphTask>,
        params: In<aclmdlRITaskParams, *mut aclmdlRITaskParams>,
    ) {
        let params = params.required("params")?;
        let kind = tasks::kind(task.number())?;
        let (is, given) = (type_of(kind), params.type_);
        if is != given {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "params: type is {}, but the task has type {}; set type to that of the task, which \
                 cannot change",
                given.0,
                is.0
            );
        }
        let stream = tasks::stream(task.number())?;
        let new = match kind {
            GraphTaskKind::ValueWrite(_) => {
                // SAFETY: the type determines the member of the union, and any bits are valid for
                // it.
                let wanted = unsafe { params.anon_1.valueWriteTaskParams };
                let (word, place) = word(wanted.devAddr)?;
                may_reach(stream, place)?;
                Task::new(WriteValue { word, value: wanted.value })
            }
            GraphTaskKind::ValueWait(_) => {
                // SAFETY: as above.
                let wanted = unsafe { params.anon_1.valueWaitTaskParams };
                let (word, place) = word(wanted.devAddr)?;
                let condition = condition(wanted.flag)?;
                may_reach(stream, place)?;
                Task::new(WaitForValue { word, condition, value: wanted.value })
            }
            _ => {
                return fail!(
                    ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                    "the task has type {}; pass a value write (5) or a value wait (6), the only \
                     types whose parameters can be set",
                    is.0
                );
            }
        };
        tasks::set(task.number(), new)
    }

    fn aclmdlRITaskDisable(task: Handle<GraphTask>) {
        tasks::disable(task.number())
    }

    fn aclmdlRIUpdate(model: Handle<Graph>) {
        tasks::update(model.number())
    }
}

fn type_of(kind: GraphTaskKind) -> TaskType {
    match kind {
        GraphTaskKind::Other => TaskType::ACL_MODEL_RI_TASK_DEFAULT,
        GraphTaskKind::Kernel => TaskType::ACL_MODEL_RI_TASK_KERNEL,
        GraphTaskKind::EventRecord(_) => TaskType::ACL_MODEL_RI_TASK_EVENT_RECORD,
        GraphTaskKind::EventWait(_) => TaskType::ACL_MODEL_RI_TASK_EVENT_WAIT,
        GraphTaskKind::ValueWrite(_) => TaskType::ACL_MODEL_RI_TASK_VALUE_WRITE,
        GraphTaskKind::ValueWait(_) => TaskType::ACL_MODEL_RI_TASK_VALUE_WAIT,
    }
}

/// Writes handles into a list, and their number into `length`. On entry, `length` is the number of
/// handles for which the list has room. Without a list, writes only the number. Returns an error if
/// the list has too little room.
fn list<T>(
    to: *mut *mut T,
    length: InOut<u32>,
    argument: &str,
    handles: impl FnOnce() -> Result<Vec<u64>, Failure>,
) -> Result<(), Failure> {
    let (room, length) = length.required(argument)?;
    let handles = handles()?;
    let count = handles.len();
    if !to.is_null() && count > room as usize {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "{argument} is {room}, but the list needs room for {count}; call this function without \
             a list first to get this number"
        );
    }
    length.write(count as u32);
    if to.is_null() {
        return Ok(());
    }
    let handles: Vec<*mut T> = handles.iter().map(|handle| *handle as *mut T).collect();
    // SAFETY: the list is not NULL, so by the C contract it has room for as many elements as the
    // length says.
    let places: OutSlice<*mut T> = unsafe { OutSlice::of(to, room as usize) };
    places.required(argument)?.write(&handles);
    Ok(())
}
