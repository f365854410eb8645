//! Argument lists of kernels.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::Out;
use super::entries::{Acl, entries};
use super::raw::bytes;
use crate::kernel::arguments::ArgumentList;
use crate::kernel::binary;
use crate::message::fail;
use ascend_sys::{ACL_ERROR_INVALID_PARAM, aclrtArgsHandle, aclrtFuncHandle, aclrtParamHandle};
use std::ffi::c_void;

entries! {
    Acl;

    fn aclrtKernelArgsGetHandleMemSize(func_handle: aclrtFuncHandle, size: Out<usize>) {
        let size = size.required("memSize")?;
        binary::function(func_handle as u64)?;
        size.write(size_of::<InUserMemory>());
        Ok(())
    }

    fn aclrtKernelArgsGetMemSize(
        func_handle: aclrtFuncHandle,
        user_args_size: usize,
        actual: Out<usize>,
    ) {
        let actual = actual.required("actualArgsSize")?;
        binary::function(func_handle as u64)?;
        actual.write(user_args_size.next_multiple_of(8));
        Ok(())
    }

    fn aclrtKernelArgsInit(func_handle: aclrtFuncHandle, args_handle: Out<aclrtArgsHandle>) {
        let to = args_handle.required("argsHandle")?;
        let function = binary::function(func_handle as u64)?;
        let list = binary::new_list(&function, ArgumentList::new(func_handle as u64))?;
        to.write(list as aclrtArgsHandle);
        Ok(())
    }

    fn aclrtKernelArgsInitByUserMem(
        func_handle: aclrtFuncHandle,
        args_handle: aclrtArgsHandle,
        user_host_mem: *mut c_void,
        actual_args_size: usize,
    ) {
        if args_handle.is_null() || user_host_mem.is_null() || actual_args_size == 0 {
            return fail!(
                ACL_ERROR_INVALID_PARAM,
                "argsHandle or userHostMem is NULL, or actualArgsSize is 0"
            );
        }
        let function = binary::function(func_handle as u64)?;
        let list = binary::new_list(&function, ArgumentList::new(func_handle as u64))?;
        let memory = InUserMemory { magic: IN_USER_MEMORY, list };
        // SAFETY: valid for as many bytes as aclrtKernelArgsGetHandleMemSize says, by the C contract.
        unsafe { args_handle.cast::<InUserMemory>().write_unaligned(memory) };
        Ok(())
    }

    fn aclrtKernelArgsAppend(
        args_handle: aclrtArgsHandle,
        param: *mut c_void,
        size: usize,
        param_handle: Out<aclrtParamHandle>,
    ) {
        // SAFETY: null, or valid for as many bytes by the C contract.
        let value = unsafe { bytes(param, size, "param") }?;
        let to = param_handle.required("paramHandle")?;
        // SAFETY: an argument list of ours, by the C contract.
        let list = unsafe { list_of(args_handle) };
        let handle = binary::with_list(list, |list| list.append(value))?;
        to.write(handle as aclrtParamHandle);
        Ok(())
    }

    fn aclrtKernelArgsAppendPlaceHolder(
        args_handle: aclrtArgsHandle,
        param_handle: Out<aclrtParamHandle>,
    ) {
        let to = param_handle.required("paramHandle")?;
        // SAFETY: an argument list of ours, by the C contract.
        let list = unsafe { list_of(args_handle) };
        to.write(binary::with_list(list, ArgumentList::append_place)? as aclrtParamHandle);
        Ok(())
    }

    fn aclrtKernelArgsGetPlaceHolderBuffer(
        args_handle: aclrtArgsHandle,
        param_handle: aclrtParamHandle,
        size: usize,
        buffer: Out<*mut c_void>,
    ) {
        let to = buffer.required("bufferAddr")?;
        // SAFETY: an argument list of ours, by the C contract.
        let list = unsafe { list_of(args_handle) };
        if size == 0 {
            return fail!(ACL_ERROR_INVALID_PARAM, "dataSize is 0");
        }
        let at = binary::with_list(list, |list| list.buffer(param_handle as u64, size))?;
        to.write(at.cast());
        Ok(())
    }

    fn aclrtKernelArgsParaUpdate(
        args_handle: aclrtArgsHandle,
        param_handle: aclrtParamHandle,
        param: *mut c_void,
        size: usize,
    ) {
        // SAFETY: null, or valid by the C contract; an argument list of ours.
        let (value, list) = unsafe { (bytes(param, size, "param")?, list_of(args_handle)) };
        binary::with_list(list, |list| list.update(param_handle as u64, value))
    }

    fn aclrtKernelArgsFinalize(args_handle: aclrtArgsHandle) {
        // SAFETY: an argument list of ours, by the C contract.
        let list = unsafe { list_of(args_handle) };
        binary::with_list(list, |list| {
            let function = binary::function(list.function)?;
            list.finalise(&function.code)
        })
    }
}

/// What a list in the caller's memory begins with: the list itself is ours, its handle lies here.
#[repr(C)]
struct InUserMemory {
    magic: u64,
    list: u64,
}

const IN_USER_MEMORY: u64 = 0xab61_7267_7355_4d45;

/// Our handle of a list, which the caller has as a handle or as memory of its own.
///
/// # Safety
/// Not a handle of ours: valid for a read of [`InUserMemory`], and filled by `aclrtKernelArgsInitByUserMem`.
pub(super) unsafe fn list_of(handle: aclrtArgsHandle) -> u64 {
    // A handle of ours is no address that a program can have.
    if handle.is_null() || handle as u64 >> 56 != 0 {
        return handle as u64;
    }
    // SAFETY: the caller's promise.
    let list = unsafe { handle.cast::<InUserMemory>().read_unaligned() };
    if list.magic == IN_USER_MEMORY { list.list } else { handle as u64 }
}
