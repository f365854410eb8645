//! The entries for argument lists of kernels.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{Argument, ByteSlice, FromC, Handle, Out};
use super::entries::{Acl, entries};
use crate::kernel::arguments::ArgumentList;
use crate::kernel::binary::{self, KernelFunction};
use crate::kernel::cpu_arguments::MOST_BYTES;
use crate::message::{Failure, fail};
use crate::program_memory;
use ascend_sys::{ACL_ERROR_INVALID_PARAM, aclrtArgsHandle, aclrtParamHandle};
use std::ffi::c_void;
use std::mem::MaybeUninit;

entries! {
    Acl;

    fn aclrtKernelArgsGetHandleMemSize(func_handle: Handle<KernelFunction>, size: Out<usize>) {
        let size = size.required("memSize")?;
        func_handle.find()?;
        size.write(size_of::<InUserMemory>());
        Ok(())
    }

    fn aclrtKernelArgsGetMemSize(
        func_handle: Handle<KernelFunction>,
        user_args_size: usize,
        actual: Out<usize>,
    ) {
        let actual = actual.required("actualArgsSize")?;
        func_handle.find()?;
        match user_args_size.checked_next_multiple_of(8) {
            Some(size) => actual.write(size),
            None => {
                return fail!(
                    ACL_ERROR_INVALID_PARAM,
                    "userArgsSize is {user_args_size}, which is too large; pass the size of the \
                     arguments in bytes"
                );
            }
        }
        Ok(())
    }

    fn aclrtKernelArgsInit(func_handle: Handle<KernelFunction>, args_handle: Out<aclrtArgsHandle>) {
        let to = args_handle.required("argsHandle")?;
        let function = func_handle.find()?;
        let list = binary::new_list(&function, ArgumentList::new(func_handle.number()))?;
        to.write(list as aclrtArgsHandle);
        Ok(())
    }

    fn aclrtKernelArgsInitByUserMem(
        func_handle: Handle<KernelFunction>,
        args_handle: Out<InUserMemory, aclrtArgsHandle>,
        user_host_mem: *mut c_void,
        actual_args_size: usize,
    ) {
        if args_handle.is_null() || user_host_mem.is_null() || actual_args_size == 0 {
            return fail!(
                ACL_ERROR_INVALID_PARAM,
                "argsHandle or userHostMem is NULL, or actualArgsSize is 0; pass memory for both, \
                 and its size"
            );
        }
        let function = func_handle.find()?;
        let list = binary::new_list(&function, ArgumentList::new(func_handle.number()))?;
        let memory = args_handle.required("argsHandle")?;
        memory.write(InUserMemory { magic: IN_USER_MEMORY, list });
        Ok(())
    }

    fn aclrtKernelArgsAppend(
        args_handle: GivenList,
        param: ByteSlice<*mut c_void>[size],
        size: usize,
        param_handle: Out<aclrtParamHandle>,
    ) {
        let value = param.some("param")?;
        let value = value.counted(MOST_BYTES, "paramSize", ACL_ERROR_INVALID_PARAM)?;
        let to = param_handle.required("paramHandle")?;
        to.write(args_handle.with(|list| list.append(&value))? as aclrtParamHandle);
        Ok(())
    }

    fn aclrtKernelArgsAppendPlaceHolder(
        args_handle: GivenList,
        param_handle: Out<aclrtParamHandle>,
    ) {
        let to = param_handle.required("paramHandle")?;
        to.write(args_handle.with(ArgumentList::append_place)? as aclrtParamHandle);
        Ok(())
    }

    fn aclrtKernelArgsGetPlaceHolderBuffer(
        args_handle: GivenList,
        param_handle: aclrtParamHandle,
        size: usize,
        buffer: Out<*mut c_void>,
    ) {
        let to = buffer.required("bufferAddr")?;
        if size == 0 || size > MOST_BYTES {
            return fail!(
                ACL_ERROR_INVALID_PARAM,
                "dataSize is {size}; pass 1 to {MOST_BYTES}"
            );
        }
        let at = args_handle.with(|list| list.buffer(param_handle as u64, size))?;
        to.write(at.cast());
        Ok(())
    }

    fn aclrtKernelArgsParaUpdate(
        args_handle: GivenList,
        param_handle: aclrtParamHandle,
        param: ByteSlice<*mut c_void>[size],
        size: usize,
    ) {
        let value = param.some("param")?;
        let value = value.counted(MOST_BYTES, "paramSize", ACL_ERROR_INVALID_PARAM)?;
        args_handle.with(|list| list.update(param_handle as u64, &value))
    }

    fn aclrtKernelArgsFinalize(args_handle: GivenList) {
        args_handle.with(|list| {
            let function = binary::function(list.function)?;
            list.finalise(&function.code)
        })
    }
}

/// The head of an argument list in the caller's memory. It holds the handle of the list, which the
/// emulator owns.
#[repr(C)]
struct InUserMemory {
    magic: u64,
    list: u64,
}

const IN_USER_MEMORY: u64 = 0xab61_7267_7355_4d45;

/// An argument list that the caller passes: a handle of the emulator, or memory of the caller that
/// is valid for a read of [`InUserMemory`].
pub(super) struct GivenList(aclrtArgsHandle);

impl FromC for GivenList {
    type C = aclrtArgsHandle;
}

impl Argument for GivenList {
    #[inline]
    unsafe fn of(c: aclrtArgsHandle) -> Self {
        GivenList(c)
    }
}

impl GivenList {
    /// Calls `use_it` with the list.
    pub(super) fn with<R>(
        &self,
        use_it: impl FnOnce(&mut ArgumentList) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        binary::with_list(self.handle(), use_it)
    }

    /// Returns the emulator's handle of the list. If the caller has passed memory, the handle is
    /// read from there.
    fn handle(&self) -> u64 {
        let number = self.0 as u64;
        // A handle of the emulator is never an address that a program can have.
        if number == 0 || number >> 56 != 0 {
            return number;
        }
        const LENGTH: usize = size_of::<InUserMemory>();
        let mut bytes = [const { MaybeUninit::uninit() }; LENGTH];
        if program_memory::read(self.0.addr(), &mut bytes).is_some_and(|read| read < LENGTH) {
            return number;
        }
        // SAFETY: the struct has only plain numbers. If `program_memory::read` has read all bytes,
        // they are readable. If the operating system does not offer this read, the address is
        // memory of the caller by the contract of the type.
        let InUserMemory { magic, list } =
            unsafe { self.0.cast::<InUserMemory>().read_unaligned() };
        if magic == IN_USER_MEMORY { list } else { number }
    }
}
