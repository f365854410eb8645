//! Libraries of CPU kernels: code for the AI CPU of a device that was compiled for the host.
//!
//! A library is a shared object for the processor on which the program runs. Either the program
//! loads the library itself, and each symbol is a kernel. Or it loads a descriptor: a JSON file
//! that gives the library and the symbol of each kernel.
//!
//! ```json
//! {"Name": {"opInfo": {"kernelSo": "libkernels.so", "functionName": "Symbol"}}}
//! ```
//!
//! A loaded library stays in the process, because a kernel may run after its binary was unloaded,
//! and code of the library may have left state in any thread.

use crate::memory::window;
use crate::message::{Failure, fail};
use ascend_sys::{
    ACL_ERROR_RT_FILE_OPEN, ACL_ERROR_RT_PARAM_INVALID, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_void};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

/// A CPU kernel. It receives its block of arguments, and returns 0 on success.
pub(super) type CpuEntry = unsafe extern "C" fn(*mut c_void) -> u32;

/// A binary of CPU kernels.
pub(crate) struct CpuBinary {
    /// The library and the symbol of each kernel, by the name of the kernel. `None` if the name of
    /// a kernel is the symbol in the only library.
    named: Option<BTreeMap<String, (usize, CString)>>,
    libraries: Vec<HostLibrary>,
}

/// A shared object that stays loaded.
struct HostLibrary {
    handle: NonNull<c_void>,
    path: PathBuf,
}

// SAFETY: the loader's handle may be used by any thread, and nothing closes it.
unsafe impl Send for HostLibrary {}
// SAFETY: as above.
unsafe impl Sync for HostLibrary {}

/// The kind of a file, which its first bytes determine.
pub(crate) enum FileKind {
    Descriptor,
    /// A shared object for this processor.
    Library,
    /// A shared object for another processor, with the number of that processor in ELF.
    ForeignLibrary(u16),
    Other,
}

impl FileKind {
    pub(crate) fn of(bytes: &[u8]) -> FileKind {
        let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
        if first == Some(&b'{') {
            return FileKind::Descriptor;
        }
        match bytes {
            // 64 bits, little endian; then the type of the file and the processor.
            [0x7f, b'E', b'L', b'F', 2, 1, _, _, _, _, _, _, _, _, _, _, 3, 0, low, high, ..] => {
                match u16::from_le_bytes([*low, *high]) {
                    OWN_MACHINE => FileKind::Library,
                    other => FileKind::ForeignLibrary(other),
                }
            }
            _ => FileKind::Other,
        }
    }
}

/// The ELF machine number (`e_machine`) of this processor.
const OWN_MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };

/// The largest number of kernels in a descriptor.
const MOST_KERNELS: usize = 1 << 16;

impl CpuBinary {
    /// Loads the library at a path.
    pub(crate) fn of_library(path: &Path) -> Result<CpuBinary, Failure> {
        // The path is made absolute, because the loader searches other directories for a name
        // without a directory.
        let path = match path.canonicalize() {
            Ok(path) => path,
            Err(error) => {
                return fail!(
                    ACL_ERROR_RT_FILE_OPEN,
                    "cannot find {}: {error}; check the path",
                    path.display()
                );
            }
        };
        let libraries = vec![HostLibrary::load(path)?];
        open_device_memory()?;
        Ok(CpuBinary { named: None, libraries })
    }

    /// Loads the kernels of the descriptor at `path`, which contains `text`.
    pub(crate) fn of_descriptor(path: &Path, text: &[u8]) -> Result<CpuBinary, Failure> {
        let kernels = match parse(text) {
            Ok(kernels) => kernels,
            Err(why) => {
                return fail!(
                    ACL_ERROR_RT_PARAM_INVALID,
                    "{} is not a descriptor of CPU kernels: {why}",
                    path.display()
                );
            }
        };
        let mut loaded = BTreeMap::new();
        let mut libraries = Vec::new();
        let mut named = BTreeMap::new();
        for (name, (library, symbol)) in kernels {
            let at = match loaded.get(&library) {
                Some(at) => *at,
                None => {
                    libraries.push(HostLibrary::load(place_of(path, &library))?);
                    loaded.insert(library, libraries.len() - 1);
                    libraries.len() - 1
                }
            };
            named.insert(name, (at, symbol));
        }
        open_device_memory()?;
        Ok(CpuBinary { named: Some(named), libraries })
    }

    /// Returns the kernel with this name.
    pub(super) fn entry(&self, name: &str) -> Result<CpuEntry, Failure> {
        let unnamed;
        let (library, symbol) = match &self.named {
            Some(named) => match named.get(name) {
                Some((library, symbol)) => (*library, symbol.as_c_str()),
                None => {
                    let names: Vec<_> = named.keys().take(8).map(String::as_str).collect();
                    return fail!(
                        ACL_ERROR_RT_PARAM_INVALID,
                        "the descriptor has no kernel \"{name}\"; request one of its kernels, \
                         for example {}",
                        names.join(", ")
                    );
                }
            },
            None => {
                let Ok(symbol) = CString::new(name) else {
                    return fail!(
                        ACL_ERROR_RT_PARAM_INVALID,
                        "the name of the kernel has a zero byte in it; remove that byte"
                    );
                };
                unnamed = symbol;
                (0, unnamed.as_c_str())
            }
        };
        self.libraries[library].symbol(symbol)
    }
}

/// Returns the kernels of a descriptor, each with its library and symbol.
fn parse(text: &[u8]) -> Result<BTreeMap<String, (String, CString)>, String> {
    let value: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let kernels = match value.as_object() {
        Some(kernels) if (1..=MOST_KERNELS).contains(&kernels.len()) => kernels,
        Some(kernels) => {
            return Err(format!("it names {} kernels; name 1 to {MOST_KERNELS}", kernels.len()));
        }
        None => return Err("it is not a JSON object".into()),
    };
    let kernel = |(name, kernel): (&String, &Value)| {
        let field = |field: &str| match kernel.get("opInfo").and_then(|info| info.get(field)) {
            Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
            Some(other) => {
                Err(format!("{name}.opInfo.{field} is {other}, but must be a text with a name"))
            }
            None => Err(format!("{name}.opInfo.{field} is missing; give its name as a text")),
        };
        let (library, symbol) = (field("kernelSo")?, field("functionName")?);
        let symbol = CString::new(symbol).map_err(|_| {
            format!("{name}.opInfo.functionName has a zero byte in it; remove that byte")
        })?;
        Ok((name.clone(), (library, symbol)))
    };
    kernels.iter().map(kernel).collect()
}

/// Returns the path of a descriptor's library: that of the file beside the descriptor, if the file
/// exists. Otherwise returns the plain name, for which the loader searches.
fn place_of(descriptor: &Path, library: &str) -> PathBuf {
    let beside = descriptor.with_file_name(library);
    match beside.canonicalize() {
        Ok(there) => there,
        Err(_) => library.into(),
    }
}

impl HostLibrary {
    fn load(path: PathBuf) -> Result<HostLibrary, Failure> {
        let Ok(name) = CString::new(path.as_os_str().as_bytes()) else {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "the name of a library has a zero byte in it: {path:?}; remove that byte"
            );
        };
        let flags = libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_NODELETE;
        // SAFETY: `name` is a text of C. The program has requested that the library's code be run,
        // so it is responsible for the library's initialisers.
        let handle = unsafe { libc::dlopen(name.as_ptr(), flags) };
        let library = match NonNull::new(handle) {
            Some(handle) => HostLibrary { handle, path },
            None => {
                let why = loader_error();
                return fail!(
                    ACL_ERROR_RT_FILE_OPEN,
                    "cannot load {}: {why}; check the file and the libraries that it needs (ldd)",
                    path.display()
                );
            }
        };
        library.is_of_this_emulator()?;
        Ok(library)
    }

    /// Checks that the library does not use the primitives of another emulator in this process. An
    /// emulator that is built into the program shares no state with the installed libraries.
    fn is_of_this_emulator(&self) -> Result<(), Failure> {
        // SAFETY: as in `symbol`. The search includes the libraries on which this one depends.
        let table = unsafe { libc::dlsym(self.handle.as_ptr(), CORE.as_ptr()) };
        let own: fn(&[u8]) -> FileKind = FileKind::of;
        if table.is_null() || image_of(table) == image_of(own as *const c_void) {
            return Ok(());
        }
        fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "{} is linked with the libraries of an installed emulator, but this program has another \
             one built in, to which its handles are unknown; give the kernel the functions that \
             it calls, or run the program on the installed libraries",
            self.path.display()
        )
    }

    fn symbol(&self, name: &CStr) -> Result<CpuEntry, Failure> {
        // SAFETY: the handle of the loader is never closed, and `name` is a C string.
        let symbol = unsafe { libc::dlsym(self.handle.as_ptr(), name.as_ptr()) };
        if symbol.is_null() {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "{} has no function {}; declare it extern \"C\", and export it",
                self.path.display(),
                name.to_string_lossy()
            );
        }
        // SAFETY: the symbol is not null. By loading it as a CPU kernel, the program promises that
        // it is one.
        Ok(unsafe { std::mem::transmute::<*mut c_void, CpuEntry>(symbol) })
    }
}

/// The only symbol that the core of an installed emulator exports.
const CORE: &CStr = c"ascend_emulator_table";

/// Returns the start address of the program or library that contains an address; 0 if none does.
fn image_of(address: *const c_void) -> usize {
    let mut about = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: the out parameter is a live local, and the loader has filled it if it returns
    // success.
    unsafe {
        match libc::dladdr(address, about.as_mut_ptr()) {
            0 => 0,
            _ => about.assume_init().dli_fbase.addr(),
        }
    }
}

/// Returns the loader's error text for the last failed request of the calling thread.
fn loader_error() -> String {
    // SAFETY: null, or a text that stays valid until the next call of the loader by the calling
    // thread.
    unsafe {
        match libc::dlerror() {
            text if text.is_null() => "the loader does not say why".into(),
            text => CStr::from_ptr(text).to_string_lossy().into_owned(),
        }
    }
}

/// Opens device memory, because CPU kernels read and write it by its addresses.
fn open_device_memory() -> Result<(), Failure> {
    match window::opened::open_to_kernels() {
        Ok(()) => Ok(()),
        Err(error) => fail!(
            ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
            "device memory cannot be mapped for CPU kernels: {error}; raise the limits of memory \
             and of mappings (ulimit -v, vm.max_map_count)"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_told_by_its_first_bytes() {
        let elf = |kind: u8, machine: u16| {
            let mut bytes = [0; 64];
            bytes[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1]);
            bytes[16] = kind;
            bytes[18..20].copy_from_slice(&machine.to_le_bytes());
            bytes
        };
        assert!(matches!(FileKind::of(b" \n{}"), FileKind::Descriptor));
        assert!(matches!(FileKind::of(&elf(3, OWN_MACHINE)), FileKind::Library));
        assert!(matches!(FileKind::of(&elf(3, 7)), FileKind::ForeignLibrary(7)));
        // An object file, and a file that ends too early.
        assert!(matches!(FileKind::of(&elf(1, OWN_MACHINE)), FileKind::Other));
        assert!(matches!(FileKind::of(&elf(3, OWN_MACHINE)[..19]), FileKind::Other));
        assert!(matches!(FileKind::of(b""), FileKind::Other));
    }

    #[test]
    fn a_descriptor_gives_each_kernel_a_library_and_a_symbol() {
        let text = br#"{
            "A": {"opInfo": {"opKernelLib": "AICPUKernel", "kernelSo": "x.so", "functionName": "a"}},
            "B": {"opInfo": {"kernelSo": "x.so", "functionName": "b"}, "input0": {}}
        }"#;
        let kernel = |symbol: &CStr| ("x.so".to_owned(), symbol.to_owned());
        let expected = [("A".to_owned(), kernel(c"a")), ("B".to_owned(), kernel(c"b"))];
        assert_eq!(parse(text), Ok(expected.into()));
        for (text, why) in [
            ("{", "EOF"),
            ("[]", "it is not a JSON object"),
            ("{}", "it names 0 kernels"),
            (r#"{"A": {}}"#, "A.opInfo.kernelSo is missing"),
            (r#"{"A": {"opInfo": 1}}"#, "A.opInfo.kernelSo is missing"),
            (r#"{"A": {"opInfo": {"kernelSo": 1}}}"#, "A.opInfo.kernelSo is 1"),
            (r#"{"A": {"opInfo": {"kernelSo": "x"}}}"#, "A.opInfo.functionName is missing"),
            (
                r#"{"A": {"opInfo": {"kernelSo": "x", "functionName": ""}}}"#,
                "A.opInfo.functionName is \"\"",
            ),
            (
                r#"{"A": {"opInfo": {"kernelSo": "x", "functionName": "a\u0000"}}}"#,
                "A.opInfo.functionName has a zero byte",
            ),
        ] {
            let refused = parse(text.as_bytes()).unwrap_err();
            assert!(refused.starts_with(why), "{text}: {refused}");
        }
    }
}
