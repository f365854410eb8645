//! Finds the backend that a program would get. A child process does so, because each step may end
//! the process.

use std::ffi::{CString, c_char};

use ascend_sys::{Api, Library, SYMBOLS};
use hccl::Runtime;

use crate::fact::Teller;

/// The known names of packages for which CANN reports a version.
const PACKAGES: [&str; 3] = ["runtime", "hcomm", "hccl"];

/// Runs the child. Facts: `step WHAT` before each step that may end the process; `sources FILE..`,
/// `absent`, `no-libraries WHY`, `missing NAME LIBRARY SINCE`, `has COUNT OF`,
/// `optional NAME yes|no`, `version PACKAGE TEXT`, `soc NAME`, `product NAME`, `cann DEVICES` or
/// `no-cann WHY`, `device NUMBER TEXT`, `copy` or `no-copy WHY`, `auto BACKEND DEVICES` or
/// `no-auto WHY`.
pub(crate) fn start(teller: &Teller) {
    teller.tell(&["step", "the libraries are loaded"]);
    match Api::load() {
        Ok(api) => {
            tell_functions(&api, teller);
            tell_versions(&api, teller);
            start_cann(api, teller);
        }
        Err(error) => {
            if error.is_absent() {
                teller.tell(&["absent"]);
            }
            teller.tell(&["no-libraries", &error.to_string()]);
        }
    }
    teller.tell(&["step", "Runtime::auto chooses"]);
    match Runtime::auto() {
        Ok(runtime) => {
            let devices = runtime.device_count().to_string();
            teller.tell(&["auto", &runtime.backend().to_string(), &devices]);
        }
        Err(error) => teller.tell(&["no-auto", &error.to_string()]),
    }
}

fn tell_functions(api: &Api, teller: &Teller) {
    let sources: Vec<&str> = api.sources().iter().map(String::as_str).collect();
    teller.tell(&[&["sources"], &sources[..]].concat());
    let (mut has, mut of) = (0, 0);
    for symbol in SYMBOLS {
        let name = symbol.name.to_string_lossy();
        let is_there = api.address(&name).is_some();
        match symbol.library {
            Library::None => {}
            Library::Extension => {
                teller.tell(&["optional", &name, if is_there { "yes" } else { "no" }]);
            }
            library => {
                of += 1;
                has += usize::from(is_there);
                if !is_there {
                    teller.tell(&["missing", &name, &library.to_string(), symbol.since]);
                }
            }
        }
    }
    teller.tell(&["has", &has.to_string(), &of.to_string()]);
}

fn tell_versions(api: &Api, teller: &Teller) {
    teller.tell(&["step", "versions are asked for"]);
    if let Some(version) = api.aclrtGetVersion {
        let (mut major, mut minor, mut patch) = (0, 0, 0);
        // SAFETY: the out parameters are live locals.
        let code = unsafe { version(&mut major, &mut minor, &mut patch) };
        let text = match code {
            0 => format!("{major}.{minor}.{patch}"),
            code => format!("code {code}"),
        };
        teller.tell(&["version", "interface of the runtime", &text]);
    }
    let Some(version) = api.aclsysGetVersionStr else { return };
    for package in PACKAGES {
        let Ok(name) = CString::new(package) else { continue };
        // CANN writes at most 128 bytes (ACL_PKG_VERSION_MAX_SIZE).
        let mut text = [0 as c_char; 4096];
        let name = name.into_raw();
        // SAFETY: the name is a live text that ends with a zero, and the room is far more than what
        // CANN writes.
        let code = unsafe { version(name, text.as_mut_ptr()) };
        // SAFETY: the pointer is that of `into_raw`, and CANN only reads there.
        drop(unsafe { CString::from_raw(name) });
        text[4095] = 0;
        let bytes: Vec<u8> = text.iter().map(|c| *c as u8).take_while(|byte| *byte != 0).collect();
        let text = match code {
            0 => String::from_utf8_lossy(&bytes).into_owned(),
            code => format!("code {code}"),
        };
        teller.tell(&["version", package, &text]);
    }
}

fn start_cann(api: Api, teller: &Teller) {
    drop(api);
    teller.tell(&["step", "Runtime::cann starts (aclInit, aclrtGetDeviceCount)"]);
    let runtime = match Runtime::cann() {
        Ok(runtime) => runtime,
        Err(error) => return teller.tell(&["no-cann", &error.to_string()]),
    };
    teller.tell(&["cann", &runtime.device_count().to_string()]);
    teller.tell(&["step", "the product is asked for"]);
    if let Some(product) = runtime.product() {
        teller.tell(&["product", &product.to_string()]);
    }
    for number in 0..runtime.device_count() {
        teller.tell(&["step", &format!("device {number} is opened")]);
        teller.tell(&["device", &number.to_string(), &describe(&runtime, number)]);
    }
    teller.tell(&["step", "64 KiB go to device 0 and back"]);
    match copy(&runtime) {
        Ok(()) => teller.tell(&["copy"]),
        Err(error) => teller.tell(&["no-copy", &error]),
    }
    // The documentation of aclrtGetSocName asks for a device that is set.
    if let Ok(api) = Api::load()
        && let Some(soc_name) = api.aclrtGetSocName
    {
        teller.tell(&["step", "the name of the chip is asked for"]);
        // SAFETY: it takes no arguments, and returns NULL or a text that stays.
        let name = unsafe {
            let name = soc_name();
            (!name.is_null()).then(|| std::ffi::CStr::from_ptr(name).to_string_lossy().into_owned())
        };
        teller.tell(&["soc", name.as_deref().unwrap_or("NULL")]);
    }
}

fn describe(runtime: &Runtime, number: usize) -> String {
    let device = match runtime.device(number) {
        Ok(device) => device,
        Err(error) => return format!("cannot be opened: {error}"),
    };
    let memory = match device.memory_info() {
        Ok(info) => format!("{} of {} MiB free", info.free >> 20, info.total >> 20),
        Err(error) => format!("memory: {error}"),
    };
    let cores = |what: &str, cores: hccl::Result<u32>| match cores {
        Ok(cores) => format!("{cores} {what} cores"),
        Err(error) => format!("{what} cores: {error}"),
    };
    let cube = cores("cube", device.cube_cores());
    format!("{memory}, {cube}, {}", cores("vector", device.vector_cores()))
}

/// Copies data to device 0 and back, as every program does.
fn copy(runtime: &Runtime) -> Result<(), String> {
    let there_and_back = || -> hccl::Result<bool> {
        let device = runtime.device(0)?;
        let stream = device.stream()?;
        let data: Vec<u32> = (0..16 << 10).collect();
        let there = device.upload(&data, &stream)?;
        Ok(there.to_vec(&stream).wait()? == data)
    };
    match there_and_back() {
        Ok(true) => Ok(()),
        Ok(false) => Err("the data that came back differs from the data that was sent".into()),
        Err(error) => Err(error.to_string()),
    }
}
