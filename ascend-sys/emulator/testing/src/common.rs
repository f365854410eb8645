//! The common parts of the tests: calls of the table in the way of a C program, and blocks of
//! devices for a single test.

use ascend_sys::*;
use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

pub fn table() -> &'static Functions {
    static TABLE: OnceLock<Functions> = OnceLock::new();
    TABLE.get_or_init(ascend_emulator::table)
}

/// Calls a function of the table and returns its code.
#[macro_export]
macro_rules! call {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        let function = $crate::common::table().$name.expect(stringify!($name));
        // The arguments are evaluated inside the block, as in C. No argument is itself an unsafe
        // operation.
        #[allow(clippy::macro_metavars_in_unsafe, reason = "see above")]
        // SAFETY: the arguments keep to the C contract, or are wrong in a way that the function
        // must detect.
        let code = unsafe { function($($argument),*) };
        code
    }};
}

/// Calls a function that must succeed.
#[macro_export]
macro_rules! ok {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        let code = $crate::call!($name($($argument),*));
        assert_eq!(code, 0, "{}: {}", stringify!($name), $crate::common::message());
    }};
}

/// Calls a function that must fail with a code and a text that contains all the given pieces.
#[macro_export]
macro_rules! fails {
    ($code:expr, [$($piece:expr),*], $name:ident($($argument:expr),* $(,)?)) => {{
        let _ = $crate::common::message();
        let code = $crate::call!($name($($argument),*));
        let text = $crate::common::message();
        assert_eq!(code, $code, "{}: {text}", stringify!($name));
        $(assert!(text.contains($piece), "{:?} is not in: {text}", $piece);)*
    }};
}

/// Returns the texts since the last call.
pub fn message() -> String {
    let text = call!(aclGetRecentErrMsg());
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the text is NUL-terminated and valid until the next call.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

pub const D2D: aclrtMemcpyKind = aclrtMemcpyKind::ACL_MEMCPY_DEVICE_TO_DEVICE;
pub const H2D: aclrtMemcpyKind = aclrtMemcpyKind::ACL_MEMCPY_HOST_TO_DEVICE;
pub const D2H: aclrtMemcpyKind = aclrtMemcpyKind::ACL_MEMCPY_DEVICE_TO_HOST;
pub const POLICY: aclrtMemMallocPolicy = aclrtMemMallocPolicy::ACL_MEM_MALLOC_HUGE_FIRST;

/// The devices of one test. Dropping it destroys them.
pub struct Block {
    pub number: u32,
    pub first: i32,
}

impl Block {
    pub fn new(devices: u32) -> Block {
        Block::with(AscendExtBlockConfig { deviceCount: devices, ..Block::config() })
    }

    pub fn config() -> AscendExtBlockConfig {
        AscendExtBlockConfig {
            size: size_of::<AscendExtBlockConfig>() as u32,
            deviceCount: 1,
            product: 3,
            connectTimeoutMs: 0,
            execTimeoutMs: 0,
            check: 0,
            memoryBytes: 1 << 30,
            kernelSeed: 0,
            kernelLate: [0; 32],
        }
    }

    pub fn with(config: AscendExtBlockConfig) -> Block {
        let mut block = Block { number: 0, first: 0 };
        ok!(ascendExtBlockCreate(&config, &mut block.number, &mut block.first));
        block
    }

    /// Returns a block of one device, which is set in the calling thread.
    pub fn one() -> Block {
        Block::one_with(Block::config())
    }

    pub fn one_with(config: AscendExtBlockConfig) -> Block {
        let block = Block::with(config);
        ok!(aclrtSetDevice(block.first));
        block
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let code = call!(ascendExtBlockDestroy(self.number));
        if !std::thread::panicking() {
            assert_eq!(code, 0, "{}", message());
        }
    }
}

pub fn stream() -> aclrtStream {
    let mut stream = std::ptr::null_mut();
    ok!(aclrtCreateStream(&mut stream));
    stream
}

pub fn malloc(bytes: usize) -> *mut c_void {
    let mut pointer = std::ptr::null_mut();
    ok!(aclrtMalloc(&mut pointer, bytes, POLICY));
    pointer
}

pub fn malloc_host(bytes: usize) -> *mut c_void {
    let mut pointer = std::ptr::null_mut();
    ok!(aclrtMallocHost(&mut pointer, bytes));
    pointer
}

/// Returns the bytes at an address of device memory. The caller must have waited for the work that
/// writes them.
pub fn read(from: *const c_void, bytes: usize) -> Vec<u8> {
    let mut to = vec![0u8; bytes];
    ok!(aclrtMemcpy(to.as_mut_ptr().cast(), bytes, from, bytes, D2H));
    to
}

/// Copies bytes of the host to device memory.
pub fn write(to: *mut c_void, bytes: &[u8]) {
    ok!(aclrtMemcpy(to, bytes.len(), bytes.as_ptr().cast(), bytes.len(), H2D));
}

pub fn idle(stream: aclrtStream) -> bool {
    let mut status = aclrtStreamStatus::ACL_STREAM_STATUS_RESERVED;
    ok!(aclrtStreamQuery(stream, &mut status));
    status == aclrtStreamStatus::ACL_STREAM_STATUS_COMPLETE
}

/// A host function that holds up its stream until the gate is opened.
pub struct Gate(std::sync::atomic::AtomicBool);

impl Gate {
    /// Returns a gate that is never freed, stored where a leak checker finds it.
    pub fn new() -> &'static Gate {
        static GATES: std::sync::Mutex<Vec<&Gate>> = std::sync::Mutex::new(Vec::new());
        let gate = Box::leak(Box::new(Gate(false.into())));
        GATES.lock().unwrap().push(gate);
        gate
    }

    pub fn close(&'static self, stream: aclrtStream) {
        unsafe extern "C" fn wait(gate: *mut c_void) {
            // SAFETY: a gate is never freed.
            let gate = unsafe { &*gate.cast::<Gate>() };
            while !gate.0.load(std::sync::atomic::Ordering::Acquire) {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
        ok!(aclrtLaunchHostFunc(stream, Some(wait), std::ptr::from_ref(self).cast_mut().cast()));
    }

    pub fn open(&self) {
        self.0.store(true, std::sync::atomic::Ordering::Release);
    }
}

/// Returns the properties of physical memory of a device.
pub fn physical_properties(device: i32) -> aclrtPhysicalMemProp {
    aclrtPhysicalMemProp {
        handleType: aclrtMemHandleType::ACL_MEM_HANDLE_TYPE_NONE,
        allocationType: aclrtMemAllocationType::ACL_MEM_ALLOCATION_TYPE_PINNED,
        memAttr: aclrtMemAttr::ACL_HBM_MEM_HUGE,
        location: aclrtMemLocation {
            id: device as u32,
            type_: aclrtMemLocationType::ACL_MEM_LOCATION_TYPE_DEVICE,
        },
        reserve: 0,
    }
}
