//! The installed libraries have every function where CANN's libraries have it. A function that the
//! emulator does not support reports that.

use std::collections::HashMap;
use std::ffi::{CStr, CString, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ascend_emulator::{UNDECLARED, UNSUPPORTED};
use ascend_sys::{ACL_ERROR_RT_FEATURE_NOT_SUPPORT, HcclResult, aclprofSubscribeOpFlag};
use hccl_tests::{installed_emulator, repository};

use crate::abi::data::Abi;

/// A library of the installed directory, which is never closed.
struct Opened(*mut c_void);

impl Opened {
    fn new(file: &str) -> Opened {
        let path = installed_emulator().join(file);
        let path = CString::new(path.as_os_str().as_bytes()).expect("a path has no NUL");
        // SAFETY: the libraries' start-up code has no preconditions.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null(), "{file} does not load");
        Opened(handle)
    }

    /// Returns the address of a function, and the name of the file that contains it. Returns `None`
    /// if the library has no such function.
    fn find(&self, name: &str) -> Option<(*mut c_void, String)> {
        let symbol = CString::new(name).expect("a name has no NUL");
        // SAFETY: the handle is that of a library that stays open.
        let address = unsafe { libc::dlsym(self.0, symbol.as_ptr()) };
        if address.is_null() {
            return None;
        }
        // SAFETY: all zeros are a valid value of this structure.
        let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: `dladdr` accepts any address and writes only to the structure.
        assert_ne!(unsafe { libc::dladdr(address, &mut info) }, 0);
        // SAFETY: this is a terminated string that lives as long as the library.
        let file = unsafe { CStr::from_ptr(info.dli_fname) };
        // The first opener may have used a link.
        let file = Path::new(OsStr::from_bytes(file.to_bytes())).canonicalize().expect("a file");
        let name = file.file_name().expect("a name");
        Some((address, name.to_str().expect("names are ASCII").to_owned()))
    }
}

/// Returns each function of `symbols.csv` that a library of CANN exports, with the name of the
/// library.
fn exported() -> Vec<(String, &'static str)> {
    let table = repository().join("ascend-sys/include/symbols.csv");
    let table = std::fs::read_to_string(table).expect("the table is there");
    let of = |line: &str| {
        let (name, rest) = line.split_once(',').expect("a name and a library");
        let library = match rest.split(',').next().expect("a library") {
            "acl_rt" | "extension" => "libacl_rt.so",
            "hcomm" => "libhcomm.so",
            "hccl" => "libhccl.so",
            "msprofiler" => "libmsprofiler.so",
            "none" => return None,
            other => panic!("{other} is no library"),
        };
        Some((name.to_owned(), library))
    };
    table.lines().skip(1).filter_map(of).collect()
}

#[test]
fn each_function_is_in_the_library_that_the_table_names() {
    let exported = exported();
    assert!(exported.len() > 600, "{} functions", exported.len());
    let mut libraries = HashMap::new();
    for (name, library) in &exported {
        let opened = libraries.entry(*library).or_insert_with(|| Opened::new(library));
        let (_, file) = opened.find(name).unwrap_or_else(|| panic!("{library} has no {name}"));
        assert_eq!(&file, library, "{name}");
    }
    // The runtime also has its CANN 8 name.
    let old = Opened::new("libascendcl.so");
    for (name, _) in exported.iter().filter(|(_, library)| *library == "libacl_rt.so") {
        assert_eq!(old.find(name).expect(name).1, "libascendcl.so", "{name}");
    }
}

#[test]
fn older_names_of_libraries_load() {
    // A link to a library is that library.
    let (framework, hcomm) = (Opened::new("libhccl_fwk.so"), Opened::new("libhcomm.so"));
    assert_eq!(framework.0, hcomm.0);
    // This library is empty, because no function is missing for which it would be a replacement.
    let compat = Opened::new("libhccl_compat.so");
    assert!(compat.find("HcclGetRankId").is_none());
}

#[test]
fn what_is_not_supported_says_so_by_code_and_name() {
    let abi = Abi::load();
    let results: HashMap<_, _> = abi.functions.iter().map(|it| (&*it.name, &*it.ret)).collect();
    let libraries: HashMap<_, _> = exported().into_iter().collect();
    let message = Opened::new("libacl_rt.so").find("aclGetRecentErrMsg").expect("it is there").0;
    // SAFETY: that is the signature of the function with this name.
    let message: extern "C" fn() -> *const c_char = unsafe { std::mem::transmute(message) };
    message();
    for function in UNSUPPORTED {
        let name = function.name;
        let (address, _) = Opened::new(libraries[name]).find(name).expect(name);
        // SAFETY: the function reads no argument, so none is passed. Each result is in the same
        // register, as a whole or in its lower half. If there is no result, the register may be
        // overwritten.
        let call: extern "C" fn() -> u64 = unsafe { std::mem::transmute(address) };
        let answer = call();
        let expected = match results[name] {
            "aclError" => Some(ACL_ERROR_RT_FEATURE_NOT_SUPPORT as u32),
            "HcclResult" => Some(HcclResult::HCCL_E_NOT_SUPPORT.0),
            "aclprofSubscribeOpFlag" => Some(aclprofSubscribeOpFlag::ACL_SUBSCRIBE_NONE.0),
            "void" => None,
            "uint32_t" => Some(0),
            pointer_or_size => {
                assert_eq!(answer, 0, "{name} returns {pointer_or_size}");
                None
            }
        };
        assert!(expected.is_none_or(|code| code == answer as u32), "{name} returns {answer}");
        let text = message();
        assert!(!text.is_null(), "{name} says nothing");
        // SAFETY: the pointer is not NULL, so it is a text that lives until the next call.
        let text = unsafe { CStr::from_ptr(text) }.to_str().expect("the emulator writes UTF-8");
        let said = format!("{name}: the emulator does not support this function");
        assert!(text.contains(&said) && text.contains(function.reason), "{name}: {text}");
    }
}

/// Calls a function of any signature with eight arguments that it must not follow. Returns the
/// whole register of its result.
fn call_with_garbage(address: *mut c_void) -> u64 {
    type Any = extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64) -> u64;
    // SAFETY: the function reads no argument, and the caller removes those on the stack.
    let call: Any = unsafe { std::mem::transmute(address) };
    let garbage = u64::MAX;
    call(garbage, garbage, garbage, garbage, garbage, garbage, garbage, garbage)
}

#[test]
fn a_function_without_a_published_signature_gives_its_answer_whatever_it_is_passed() {
    let abi = Abi::load();
    let (host, device) = (Opened::new("libhcomm.so"), Opened::new("libccl_kernel.so"));
    let message = Opened::new("libacl_rt.so").find("aclGetRecentErrMsg").expect("it is there").0;
    // SAFETY: that is the signature of the function with this name.
    let message: extern "C" fn() -> *const c_char = unsafe { std::mem::transmute(message) };
    for list in UNDECLARED {
        for name in list.names {
            assert!(!abi.functions.iter().any(|it| it.name == *name), "{name} has a signature");
            let (address, _) = host.find(name).unwrap_or_else(|| panic!("there is no {name}"));
            message();
            assert_eq!(call_with_garbage(address), u64::from(list.result.0), "{name}");
            let text = message();
            if list.result == HcclResult::HCCL_SUCCESS {
                assert!(text.is_null(), "{name} has a text");
            } else {
                assert!(!text.is_null(), "{name} says nothing");
                // SAFETY: the pointer is not NULL, so it is a text that lives until the next call.
                let text = unsafe { CStr::from_ptr(text) }.to_str().expect("the texts are UTF-8");
                assert!(text.contains(name) && text.contains(list.reason), "{name}: {text}");
            }
            let unit = list.result == HcclResult::HCCL_E_UNAVAIL;
            assert_eq!(device.find(name).is_some(), !unit, "{name} in the device's library");
        }
    }
}
