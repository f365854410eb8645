//! Finds CANN's libraries and looks up their functions.
//!
//! Releases of CANN moved functions from one library to another, so a function is looked up in its
//! own library first and then in the others. Libraries are never unloaded: CANN keeps threads
//! running, and a program may copy a table of addresses.

use std::ffi::{CStr, OsString, c_int, c_void};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

use libloading::os::unix;

use crate::error::{Attempt, LoadError};
use crate::{Functions, Library, SYMBOLS};

/// The libraries in the order in which they are loaded, each with its file names. Each library
/// depends on those before it. `libascendcl.so` is the name of the runtime up to CANN 8. The last
/// library may be missing, and then its functions are missing too.
const LIBRARIES: [(Library, &[&str]); 4] = [
    (Library::AclRt, &["libacl_rt.so", "libascendcl.so"]),
    (Library::Hcomm, &["libhcomm.so"]),
    (Library::Hccl, &["libhccl.so"]),
    (Library::MsProfiler, &["libmsprofiler.so"]),
];

/// The library with stand-ins for functions that an older `libhcomm.so` lacks; `libhccl.so` depends
/// on it. A stand-in does nothing and returns -1, so it counts as missing.
const STAND_INS: &str = "libhccl_compat.so";

/// Returns the directories that [`load`] searches before it leaves the search to the system's
/// loader.
pub(crate) fn directories(variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let mut directories = Vec::new();
    for name in ["ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"] {
        let Some(home) = variable(name).filter(|home| !home.is_empty()) else { continue };
        let home = Path::new(&home);
        for directory in [
            home.join("lib64"),
            home.join(format!("{}-linux", std::env::consts::ARCH)).join("lib64"),
        ] {
            if !directories.contains(&directory) {
                directories.push(directory);
            }
        }
    }
    directories
}

/// Returns each library with the places where [`load`] looks for it, given these directories and
/// the loader's path. The places are in the order of the search.
pub(crate) fn places(directories: &[PathBuf]) -> Vec<(Library, Vec<PathBuf>)> {
    let of = |(library, names)| (library, paths(names, directories, true).collect());
    LIBRARIES.into_iter().map(of).collect()
}

/// Returns the places of one library. A bare name is for the system's loader.
fn paths<'a>(
    names: &'a [&'a str],
    directories: &'a [PathBuf],
    loader_path: bool,
) -> impl Iterator<Item = PathBuf> + 'a {
    let in_directories = directories.iter().flat_map(|it| names.iter().map(|name| it.join(name)));
    in_directories.chain(names.iter().filter(move |_| loader_path).map(PathBuf::from))
}

/// The loaded functions, and the libraries in which they were looked up.
pub(crate) struct Loaded {
    pub functions: Functions,
    pub libraries: Vec<String>,
}

/// Loads each library from the first place that has it.
pub(crate) fn load(directories: &[PathBuf], loader_path: bool) -> Result<Loaded, LoadError> {
    let mut opened = Vec::with_capacity(LIBRARIES.len());
    for (library, names) in LIBRARIES {
        match open(library, names, directories, loader_path) {
            Ok(found) => opened.push(found),
            Err(_) if library == Library::MsProfiler => {}
            Err(error) => return Err(error),
        }
    }
    let addresses = SYMBOLS.iter().map(|symbol| {
        let own = opened.iter().filter(|it| it.library == symbol.library);
        let others = opened.iter().filter(|it| it.library != symbol.library);
        own.chain(others).find_map(|it| look_up(&it.handle, symbol.name)).unwrap_or_default()
    });
    // SAFETY: each address is null or that of the function with this name, and the headers declare
    // its signature. The libraries are never unloaded.
    let functions = unsafe { Functions::from_addresses(addresses) };
    let libraries = opened.iter().map(|it| it.path.display().to_string()).collect();
    Ok(Loaded { functions, libraries })
}

/// Returns the table with the functions that it lacks added from the libraries of this process.
#[cfg(feature = "linked")]
pub(crate) fn complete(functions: Functions) -> Functions {
    let process = unix::Library::this();
    let addresses = functions.as_slice().iter().zip(SYMBOLS).map(|(&address, symbol)| {
        if address.is_null() { look_up(&process, symbol.name).unwrap_or_default() } else { address }
    });
    // SAFETY: each address is null or that of the function with this name. Libraries that the
    // program was linked with are never unloaded.
    unsafe { Functions::from_addresses(addresses) }
}

struct Opened {
    library: Library,
    path: PathBuf,
    /// The handle. It stays open even if a later library fails to load: this library may have
    /// started threads.
    handle: ManuallyDrop<unix::Library>,
}

fn open(
    library: Library,
    names: &[&str],
    directories: &[PathBuf],
    loader_path: bool,
) -> Result<Opened, LoadError> {
    let mut attempts = Vec::new();
    for path in paths(names, directories, loader_path) {
        let bare = path.components().count() == 1;
        if !bare && !path.exists() {
            attempts.push(Attempt { path, failure: None });
            continue;
        }
        // SAFETY: loading CANN's libraries runs their initialisers, which have no preconditions.
        match unsafe { unix::Library::open(Some(&path), unix::RTLD_LAZY | unix::RTLD_LOCAL) } {
            Ok(handle) => {
                return Ok(Opened { library, path, handle: ManuallyDrop::new(handle) });
            }
            Err(error) => {
                let message = reason(&error);
                // The loader names the file that it cannot find: the library itself, or a library
                // it depends on.
                let absent = format!("{}: cannot open shared object file", path.display());
                let failure = (!bare || !message.starts_with(&absent)).then_some(message);
                attempts.push(Attempt { path, failure });
            }
        }
    }
    Err(LoadError::Library { library, attempts })
}

/// Returns the loader's own text, which is the source of the error.
fn reason(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

fn look_up(library: &unix::Library, name: &CStr) -> Option<*const c_void> {
    // SAFETY: any address is a valid pointer without a type, and this function does not dereference
    // it.
    let address = unsafe { *library.get::<*const c_void>(name.to_bytes_with_nul()).ok()? };
    let stand_in =
        file_of(address).is_some_and(|file| file.file_name().is_some_and(|name| name == STAND_INS));
    (!stand_in && !address.is_null()).then_some(address)
}

/// Returns the file of the library or program that contains this address.
pub(crate) fn file_of(address: *const c_void) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;

    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `dladdr` accepts any address and writes only to `info`. All zeros is a valid value of
    // `info`.
    let (found, info): (c_int, _) =
        unsafe { (libc::dladdr(address, info.as_mut_ptr()), info.assume_init()) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: `dladdr` returned a terminated string that lives as long as the library is loaded.
    // The caller keeps the library that contains the address loaded.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_order_is_cann_s() {
        let arch = format!("{}-linux/lib64", std::env::consts::ARCH);
        let search = directories(|name| match name {
            "ASCEND_HOME_PATH" => Some("/home".into()),
            "ASCEND_TOOLKIT_HOME" => Some("/toolkit".into()),
            _ => None,
        });
        let expected = ["/home/lib64", &format!("/home/{arch}"), "/toolkit/lib64"]
            .map(PathBuf::from)
            .into_iter()
            .chain([PathBuf::from(format!("/toolkit/{arch}"))])
            .collect::<Vec<_>>();
        assert_eq!(search, expected);
    }

    #[test]
    fn the_places_of_a_library_are_the_directories_and_then_the_loader_s_path() {
        let places = places(&["/one".into(), "/two".into()]);
        let (library, paths) = &places[0];
        assert_eq!(*library, Library::AclRt);
        let expected = ["/one/libacl_rt.so", "/one/libascendcl.so", "/two/libacl_rt.so"];
        assert_eq!(paths[..3], expected.map(PathBuf::from));
        assert_eq!(paths[4..], ["libacl_rt.so", "libascendcl.so"].map(PathBuf::from));
        assert_eq!(places.len(), 4);
    }

    #[test]
    fn a_variable_that_is_unset_or_empty_or_repeated_adds_nothing() {
        assert!(directories(|_| None).is_empty());
        assert!(directories(|_| Some("".into())).is_empty());
        assert_eq!(directories(|_| Some("/same".into())).len(), 2);
    }

    #[test]
    fn an_address_is_traced_to_its_file() {
        let address = the_search_order_is_cann_s as *const c_void;
        let file = file_of(address).expect("the test's own file");
        let own = std::env::current_exe().expect("a path");
        assert_eq!(file.file_name(), own.file_name());
        assert_eq!(file_of(std::ptr::without_provenance(16)), None);
    }
}
