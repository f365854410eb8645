//! Binaries, their functions, and argument lists: the objects with handles that a program needs for
//! a launch.
//!
//! A binary is a recorded program, a library of CPU kernels, or the library of the communication
//! server. Every CANN has that last library; the emulator has it built in. A binary belongs to the
//! device that was current when it was loaded.

use super::arguments::ArgumentList;
pub(crate) use super::code::{Code, KernelFunction};
use crate::machine;
use crate::message::{Failure, fail};
use crate::slots::{HandleKind, Slots, Slotted, unknown};
use ascend_sync::lock_std as lock;
use ascend_sys::{
    ACL_ERROR_RT_INVALID_HANDLE, ACL_ERROR_RT_NO_STREAM_RESOURCE, ACL_ERROR_RT_PARAM_INVALID,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// The name of the function of the communication server.
pub(crate) const SERVER: &str = "RunAicpuKfcSrvLaunch";
/// The name of the library of the communication server.
pub(crate) const SERVER_LIBRARY: &str = "libccl_kernel";

/// The content of a slot: a value that lives as long as its handle.
pub(crate) struct HandleEntry<T: 'static, const K: u8> {
    index: u32,
    value: Mutex<Option<T>>,
}

macro_rules! entries {
    ($($slots:ident: $type:ty, $kind:ident;)*) => {$(
        impl Slotted for HandleEntry<$type, { HandleKind::$kind as u8 }> {
            const KIND: HandleKind = HandleKind::$kind;
            fn new(index: u32) -> Self {
                HandleEntry { index, value: Mutex::new(None) }
            }
        }
        static $slots: Slots<HandleEntry<$type, { HandleKind::$kind as u8 }>> = Slots::new();
    )*};
}
entries! {
    WRAPPERS: Arc<[u8]>, Wrapper;
    BINARIES: Arc<Binary>, Binary;
    FUNCTIONS: Arc<KernelFunction>, Function;
    LISTS: Arc<Mutex<ArgumentList>>, Arguments;
}

fn put<T: Send, const K: u8>(
    slots: &'static Slots<HandleEntry<T, K>>,
    value: T,
) -> Result<u64, Failure>
where
    HandleEntry<T, K>: Slotted,
{
    let mut value = Some(value);
    match slots.take(|entry, _| *lock(&entry.value) = value.take()) {
        Some((_, handle)) => Ok(handle),
        None => fail!(
            ACL_ERROR_RT_NO_STREAM_RESOURCE,
            "every handle of this kind is in use; unload the binaries that are no longer needed \
             (aclrtBinaryUnLoad)"
        ),
    }
}

fn get<T: Clone, const K: u8>(
    slots: &'static Slots<HandleEntry<T, K>>,
    handle: u64,
) -> Result<T, Failure>
where
    HandleEntry<T, K>: Slotted,
{
    let found = slots.get(handle).and_then(|entry| lock(&entry.value).clone());
    found.ok_or_else(|| unknown(HandleEntry::<T, K>::KIND, handle))
}

fn remove<T, const K: u8>(slots: &'static Slots<HandleEntry<T, K>>, handle: u64) -> Option<T>
where
    HandleEntry<T, K>: Slotted,
{
    let entry = slots.get(handle)?;
    if !slots.retire(handle) {
        return None;
    }
    let value = lock(&entry.value).take();
    slots.recycle(entry.index);
    value
}

/// Makes a handle for bytes that a caller wraps (`aclrtCreateBinary`).
pub(crate) fn wrap(bytes: Arc<[u8]>) -> Result<u64, Failure> {
    put(&WRAPPERS, bytes)
}

pub(crate) fn wrapped(handle: u64) -> Result<Arc<[u8]>, Failure> {
    get(&WRAPPERS, handle)
}

pub(crate) fn unwrap(handle: u64) -> Result<(), Failure> {
    remove(&WRAPPERS, handle).map(drop).ok_or_else(|| unknown(HandleKind::Wrapper, handle))
}

/// A binary that was loaded.
pub(crate) struct Binary {
    pub(crate) device: u32,
    pub(crate) code: Code,
    /// The functions that a program has requested, by name.
    functions: Mutex<BTreeMap<String, u64>>,
}

/// The largest number of argument lists that one function keeps. No call frees a list, so the
/// oldest list is removed if there are more.
const MOST_LISTS: usize = 1024;

pub(crate) fn load(device: u32, code: Code) -> Result<u64, Failure> {
    put(&BINARIES, Arc::new(Binary { device, code, functions: Mutex::default() }))
}

pub(crate) fn binary(handle: u64) -> Result<Arc<Binary>, Failure> {
    get(&BINARIES, handle)
}

/// Unloads a binary with its functions and their argument lists. Kernels that were launched earlier
/// still run.
pub(crate) fn unload(handle: u64) -> Result<(), Failure> {
    let Some(binary) = remove(&BINARIES, handle) else {
        return Err(unknown(HandleKind::Binary, handle));
    };
    for function in std::mem::take(&mut *lock(&binary.functions)).into_values() {
        if let Some(function) = remove(&FUNCTIONS, function) {
            for list in std::mem::take(&mut *lock(&function.lists)) {
                remove(&LISTS, list);
            }
        }
    }
    Ok(())
}

/// Unloads all binaries of devices that are removed.
pub(crate) fn unload_all(devices: &Range<u32>) {
    for (entry, handle) in BINARIES.live_handles() {
        let device = lock(&entry.value).as_ref().map(|binary| binary.device);
        if device.is_some_and(|device| devices.contains(&device)) {
            // This fails if another thread has unloaded the binary at the same time.
            let _ = unload(handle);
        }
    }
}

/// Returns the handle of the function with this name. Each name always gets the same handle.
pub(crate) fn function_of(handle: u64, name: &str) -> Result<u64, Failure> {
    let binary = binary(handle)?;
    let there = match &binary.code {
        Code::Program(recorded) => Some(recorded.program.name.as_str()),
        Code::Server => Some(SERVER),
        Code::Cpu(library) => library.entry(name).map(|_| None)?,
    };
    if let Some(there) = there.filter(|there| *there != name) {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "there is no function \"{name}\" in this binary; request \"{there}\", the only one"
        );
    }
    let mut functions = lock(&binary.functions);
    if let Some(known) = functions.get(name) {
        return Ok(*known);
    }
    let function = KernelFunction {
        binary: handle,
        device: binary.device,
        name: name.into(),
        code: binary.code.clone(),
        lists: Mutex::default(),
    };
    let function = put(&FUNCTIONS, Arc::new(function))?;
    functions.insert(name.into(), function);
    Ok(function)
}

pub(crate) fn function(handle: u64) -> Result<Arc<KernelFunction>, Failure> {
    get(&FUNCTIONS, handle)
}

/// Makes a handle for a new argument list of a function.
pub(crate) fn new_list(function: &KernelFunction, list: ArgumentList) -> Result<u64, Failure> {
    let handle = put(&LISTS, Arc::new(Mutex::new(list)))?;
    let mut lists = lock(&function.lists);
    lists.push_back(handle);
    if lists.len() > MOST_LISTS
        && let Some(oldest) = lists.pop_front()
    {
        remove(&LISTS, oldest);
    }
    Ok(handle)
}

/// Calls `use_it` with an argument list.
pub(crate) fn with_list<R>(
    handle: u64,
    use_it: impl FnOnce(&mut ArgumentList) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let list = get(&LISTS, handle)?;
    let mut list = lock(&list);
    use_it(&mut list)
}

/// Checks that a function belongs to this device.
pub(crate) fn is_on(function: &KernelFunction, device: u32) -> Result<(), Failure> {
    if function.device == device {
        return Ok(());
    }
    fail!(
        ACL_ERROR_RT_INVALID_HANDLE,
        "the binary of {} was loaded on device {}, but the stream is on device {device}; load it there too",
        function.name,
        machine::named(function.device),
        device = machine::named(device)
    )
}
