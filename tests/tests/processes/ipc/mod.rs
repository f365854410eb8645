//! Memory, events and notifies that one process exports and another imports, by CANN's C functions.

mod endpoints;
mod events;
mod memory;
mod notifies;
mod opened;
mod orders;
mod pair;
mod physical;

use std::ffi::{CString, c_void};
use std::ptr::null_mut;

use ascend_emulator_testing::common::{malloc, write};
use ascend_emulator_testing::ok;
use ascend_sys::*;

/// The flag for memory that every process may import.
const OPEN: u64 = ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION;
/// The number of bytes of a key, with its NUL.
const KEY: usize = 65;

fn text(key: &[u8; KEY]) -> String {
    std::ffi::CStr::from_bytes_until_nul(key).unwrap().to_str().unwrap().into()
}

fn c(text: &str) -> CString {
    CString::new(text).unwrap()
}

/// Allocates memory with these bytes, and exports it to all processes.
fn exported(bytes: &[u8]) -> (*mut c_void, String) {
    let memory = malloc(bytes.len());
    write(memory, bytes);
    let key = export(memory, bytes.len(), OPEN);
    (memory, key)
}

fn export(memory: *mut c_void, bytes: usize, flags: u64) -> String {
    let mut key = [1u8; KEY];
    ok!(aclrtIpcMemGetExportKey(memory, bytes, key.as_mut_ptr().cast(), KEY, flags));
    text(&key)
}

fn import(key: &str) -> *mut c_void {
    let mut memory = null_mut();
    ok!(aclrtIpcMemImportByKey(&mut memory, c(key).as_ptr(), 0));
    memory
}

fn own_process() -> i32 {
    let mut process = 0;
    ok!(aclrtDeviceGetBareTgid(&mut process));
    process
}
