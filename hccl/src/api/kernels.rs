//! Kernels of AscendCL as owned handles: loading and launching kernels, and the communication
//! server of a kernel.

use std::ffi::{CStr, CString, c_void};

use ascend_sys::{
    HcclComm, aclrtBinHandle, aclrtBinaryLoadOption, aclrtBinaryLoadOptionType,
    aclrtBinaryLoadOptionValue, aclrtBinaryLoadOptions, aclrtFuncHandle, aclrtPlaceHolderInfo,
    aclrtStream,
};

use super::handles::StreamHandle;
use super::{Table, call};
use crate::error::Result;

/// A loaded kernel, on one device.
pub(crate) struct KernelHandle {
    binary: aclrtBinHandle,
    function: aclrtFuncHandle,
}

// SAFETY: CANN resolves the handles itself, and accepts them from any thread.
unsafe impl Send for KernelHandle {}
// SAFETY: as above; a loaded kernel does not change.
unsafe impl Sync for KernelHandle {}

/// The communication server of one kernel: the server's function, and the stream on which it is
/// launched.
pub(crate) struct ServerHandle {
    pub(crate) kernel: KernelHandle,
    pub(crate) stream: StreamHandle,
}

/// The name of the server in CANN's library.
const SERVER: &CStr = c"RunAicpuKfcSrvLaunch";
/// The path of the file that describes that library, relative to the directory of CANN.
const LIBRARY: &str = "opp/built-in/op_impl/aicpu/config/libccl_kernel.json";

/// Returns the first argument of the server. The lowest four bits have the version, 1. The other
/// bits have the number of contexts, which are the next arguments.
fn descriptor(contexts: usize) -> u64 {
    1 | (contexts as u64) << 4
}

impl Table {
    /// Loads a kernel onto the current device.
    pub(crate) fn load_kernel(&self, bytes: &[u8], name: &str) -> Result<KernelHandle> {
        let mut binary = std::ptr::null_mut();
        let (data, length) = (bytes.as_ptr().cast(), bytes.len());
        // SAFETY: `data` has `length` bytes; there are no options; the out parameter is a live
        // local.
        unsafe {
            call!(self, aclrtBinaryLoadFromData, data, length, std::ptr::null(), &mut binary)
        }?;
        self.kernel_of(binary, &CString::new(name).unwrap_or_default())
    }

    /// Loads the communication server onto the current device, and creates a stream for it.
    pub(crate) fn load_server(&self) -> Result<ServerHandle> {
        let home = std::env::var("ASCEND_HOME_PATH");
        let home = home.as_deref().unwrap_or("/usr/local/Ascend/ascend-toolkit/latest");
        let path = CString::new(format!("{home}/{LIBRARY}")).unwrap_or_default();
        let mut option = aclrtBinaryLoadOption {
            type_: aclrtBinaryLoadOptionType::ACL_RT_BINARY_LOAD_OPT_CPU_KERNEL_MODE,
            value: aclrtBinaryLoadOptionValue { cpuKernelMode: 0 },
        };
        let mut options = aclrtBinaryLoadOptions { options: &mut option, numOpt: 1 };
        let mut binary = std::ptr::null_mut();
        // SAFETY: the path ends in a NUL; there is one option, and it is live; the out parameter is
        // a live local.
        unsafe { call!(self, aclrtBinaryLoadFromFile, path.as_ptr(), &mut options, &mut binary) }?;
        let kernel = self.kernel_of(binary, SERVER)?;
        match self.create_stream() {
            Ok(stream) => Ok(ServerHandle { kernel, stream }),
            Err(error) => self.unload_kernel(kernel).and(Err(error)),
        }
    }

    /// Returns the kernel with this name in a loaded binary. Unloads the binary on an error.
    fn kernel_of(&self, binary: aclrtBinHandle, name: &CStr) -> Result<KernelHandle> {
        let mut function = std::ptr::null_mut();
        // SAFETY: the binary was just loaded; the name ends in a NUL; the out parameter is a live
        // local.
        let found =
            unsafe { call!(self, aclrtBinaryGetFunction, binary, name.as_ptr(), &mut function) };
        let kernel = KernelHandle { binary, function };
        match found {
            Ok(()) => Ok(kernel),
            Err(error) => self.unload_kernel(kernel).and(Err(error)),
        }
    }

    /// Unloads a kernel. All of its launches must be complete.
    pub(crate) fn unload_kernel(&self, kernel: KernelHandle) -> Result<()> {
        // SAFETY: the handle is moved in, so no other code can use it.
        unsafe { call!(self, aclrtBinaryUnLoad, kernel.binary) }
    }

    /// Unloads a server. All of its launches must be complete.
    pub(crate) fn unload_server(&self, server: ServerHandle) -> Result<()> {
        let ended = self.destroy_stream(server.stream);
        self.unload_kernel(server.kernel).and(ended)
    }

    /// Returns the context of a communicator for the operations of this tiling struct. The context
    /// is a pointer to device memory that belongs to the communicator.
    ///
    /// # Safety
    ///
    /// The handles are live, and the bytes are a tiling struct that begins with an `Mc2InitTiling`.
    pub(crate) unsafe fn kernel_context(
        &self,
        comm: HcclComm,
        stream: aclrtStream,
        tiling: &mut [u8],
    ) -> Result<*mut c_void> {
        let mut context = std::ptr::null_mut();
        let tiling = tiling.as_mut_ptr().cast();
        // SAFETY: the caller's promise; the out parameter is a live local.
        unsafe { call!(self, HcclAllocComResourceByTiling, comm, stream, tiling, &mut context) }?;
        Ok(context)
    }

    /// Launches a kernel with these words as arguments. If there are bytes, the last word is
    /// replaced by a pointer to a copy of the bytes.
    ///
    /// # Safety
    ///
    /// The stream is live. The words are the arguments that the kernel takes, and the memory to
    /// which they point stays allocated until the kernel ends.
    pub(crate) unsafe fn launch_kernel(
        &self,
        kernel: &KernelHandle,
        blocks: u32,
        stream: aclrtStream,
        words: &[u64],
        bytes: &[u8],
    ) -> Result<()> {
        // One block of memory has the words and after them the bytes. CANN copies the block.
        let mut block = words.to_vec();
        block.resize(words.len() + bytes.len().div_ceil(8), 0);
        for (word, chunk) in block[words.len()..].iter_mut().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..chunk.len()].copy_from_slice(chunk);
            *word = u64::from_ne_bytes(whole);
        }
        let size = size_of_val(block.as_slice());
        let data_offset = 8 * words.len() as u32;
        let mut place = aclrtPlaceHolderInfo {
            addrOffset: data_offset.saturating_sub(8),
            dataOffset: data_offset,
        };
        let (places, count) = match bytes.is_empty() {
            true => (std::ptr::null_mut(), 0),
            false => (&raw mut place, 1),
        };
        let (function, none) = (kernel.function, std::ptr::null_mut());
        let block = block.as_mut_ptr().cast();
        // SAFETY: the caller's promise; the block has `size` bytes, and the place lies in it.
        unsafe {
            call!(
                self,
                aclrtLaunchKernelWithHostArgs,
                function,
                blocks,
                stream,
                none,
                block,
                size,
                places,
                count
            )
        }
    }

    /// Launches the communication server for these contexts, on its own stream.
    ///
    /// # Safety
    ///
    /// The contexts are live until the server ends. The server ends when the kernel has finalised
    /// its clients.
    pub(crate) unsafe fn launch_server(
        &self,
        server: &ServerHandle,
        contexts: &[u64],
    ) -> Result<()> {
        let mut words = vec![descriptor(contexts.len())];
        words.extend_from_slice(contexts);
        // SAFETY: the caller's promise; the stream lives as long as the server.
        unsafe { self.launch_kernel(&server.kernel, 1, server.stream.raw(), &words, &[]) }
    }
}
