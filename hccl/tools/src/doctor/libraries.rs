//! Opens CANN's libraries one by one, in a child process, because a broken library may end the
//! process.

use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ascend_sys::{Api, Library};

use crate::fact::Teller;

/// A library, and a path at which programs search for it.
pub(crate) struct Place {
    pub(crate) library: Library,
    pub(crate) path: PathBuf,
}

impl Place {
    /// Returns whether the path is a bare file name, which the system's loader searches for.
    pub(crate) fn is_bare(&self) -> bool {
        self.path.components().count() == 1
    }
}

/// Returns all places, in the order in which programs search them.
pub(crate) fn places() -> Vec<Place> {
    let of = |(library, paths): (Library, Vec<PathBuf>)| {
        paths.into_iter().map(move |path| Place { library, path })
    };
    Api::places().into_iter().flat_map(of).collect()
}

/// The name of a function that can be found through each library of the emulator, but through no
/// library of CANN.
const OF_THE_EMULATOR: &CStr = c"ascend_emulator_table";

/// Runs the child: opens the libraries that a program would open, from place number `first` on.
/// Facts: `try N`, and then `loaded N FILE emulator|other` or `failed N WHY`.
pub(crate) fn open_all(first: usize, teller: &Teller) {
    let places = places();
    let mut opened = Vec::new();
    for (number, place) in places.iter().enumerate().skip(first) {
        let absent = !place.is_bare() && !place.path.exists();
        if absent || opened.contains(&place.library) {
            continue;
        }
        let number = number.to_string();
        teller.tell(&["try", &number]);
        match open(&place.path) {
            Ok((file, is_emulator)) => {
                let whose = if is_emulator { "emulator" } else { "other" };
                teller.tell(&["loaded", &number, &file.to_string_lossy(), whose]);
                opened.push(place.library);
            }
            Err(problem) => teller.tell(&["failed", &number, &problem]),
        }
    }
}

/// Loads a library as a program does. Returns the file of the library, and whether the library is
/// one of the emulator's.
fn open(path: &Path) -> Result<(PathBuf, bool), String> {
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
    // SAFETY: the name is live and ends with a zero. Loading runs the initialisers of the library,
    // which may do anything; this child process exists to find that out.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL) };
    if handle.is_null() {
        return Err(loader_words());
    }
    // SAFETY: the handle was returned above, and is never closed; the name ends with a zero.
    let table = unsafe { libc::dlsym(handle, OF_THE_EMULATOR.as_ptr()) };
    Ok((file_of(handle).unwrap_or_else(|| path.to_owned()), !table.is_null()))
}

fn loader_words() -> String {
    // SAFETY: it takes no arguments; the text is valid until the next call of the loader on this
    // thread, and is copied here.
    unsafe {
        let text = libc::dlerror();
        match text.is_null() {
            true => "the loader does not say why".to_owned(),
            false => CStr::from_ptr(text).to_string_lossy().into_owned(),
        }
    }
}

/// The beginning of the loader's own description of a library (`struct link_map` of `link.h`).
#[repr(C)]
struct LinkMap {
    address: usize,
    name: *const libc::c_char,
}

/// Returns the file from which a library was loaded.
fn file_of(handle: *mut c_void) -> Option<PathBuf> {
    let mut map: *const LinkMap = std::ptr::null();
    // SAFETY: the handle is that of a library; the request writes one pointer, to a live local.
    let code = unsafe { libc::dlinfo(handle, libc::RTLD_DI_LINKMAP, (&raw mut map).cast()) };
    if code != 0 || map.is_null() {
        return None;
    }
    // SAFETY: the description lives as long as the library, which is never closed.
    let name = unsafe { (*map).name };
    if name.is_null() {
        return None;
    }
    // SAFETY: the name is a text of the description and ends with a zero.
    let name = unsafe { CStr::from_ptr(name) };
    let path = PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes()));
    (!path.as_os_str().is_empty()).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_opened_and_its_file_known() {
        let (file, is_emulator) = open(Path::new("libc.so.6")).unwrap();
        assert!(file.is_absolute() && file.exists() && !is_emulator, "{}", file.display());
    }

    #[test]
    fn what_is_no_library_is_an_error() {
        let error = open(Path::new("/there is/no library.so")).unwrap_err();
        assert!(error.contains("/there is/no library.so"), "{error}");
        assert!(open(Path::new("a\0b")).is_err());
    }
}
