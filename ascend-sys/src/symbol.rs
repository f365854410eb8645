//! The metadata of each function of the table, and access to the table by name and by index.

use std::ffi::{CStr, c_void};
use std::fmt;

use crate::{Functions, SYMBOLS};

/// The library of CANN 9 that exports a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Library {
    /// The library `libacl_rt.so`. Before the runtime had its own library, it was `libascendcl.so`.
    AclRt,
    /// The library `libhcomm.so`.
    Hcomm,
    /// The library `libhccl.so`.
    Hccl,
    /// The library `libmsprofiler.so`, which an installation may lack.
    MsProfiler,
    /// No library: CANN's headers declare the function, but no host library of a release exports
    /// it.
    None,
    /// An optional entry of our own (`ascend/ascend_ext.h`).
    Extension,
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Library::AclRt => "libacl_rt.so or libascendcl.so",
            Library::Hcomm => "libhcomm.so",
            Library::Hccl => "libhccl.so",
            Library::MsProfiler => "libmsprofiler.so",
            Library::None => "no library",
            Library::Extension => "an extension of the back end",
        })
    }
}

/// The metadata of one field of [`Functions`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Symbol {
    /// The name of the C function and of the field.
    pub name: &'static CStr,
    /// The library of CANN 9 that exports the function.
    pub library: Library,
    /// The first CANN release whose headers declare the function (`8.5.0` stands for "8.5.0 or
    /// earlier"). It is `unlisted` when no public header declares it, and `extension` for our
    /// optional entries.
    pub since: &'static str,
    /// The header that declares the function, as a C program includes it.
    pub header: &'static str,
    /// The title of the section of our header that declares the function, such as `Device`.
    pub area: &'static str,
}

impl Symbol {
    /// Returns the position of the function with this name, in [`SYMBOLS`] and in
    /// [`Functions::as_slice`]. Returns `None` when no header declares the name.
    pub fn position(name: &str) -> Option<usize> {
        SYMBOLS.iter().position(|symbol| symbol.name.to_bytes() == name.as_bytes())
    }

    /// Returns the metadata of the function with this name, or `None` when no header declares it.
    pub fn named(name: &str) -> Option<&'static Symbol> {
        SYMBOLS.get(Symbol::position(name)?)
    }
}

// Every field is an optional function pointer. So the table is an array of addresses, and null
// stands for a missing function.
const _: () = assert!(size_of::<Option<unsafe extern "C" fn()>>() == size_of::<*const c_void>());

impl Functions {
    /// Returns the addresses of all functions in the order of [`SYMBOLS`]. A missing function is
    /// null.
    pub fn as_slice(&self) -> &[*const c_void] {
        let count = size_of::<Functions>() / size_of::<*const c_void>();
        // SAFETY: the struct is `repr(C)`, and all its fields are optional function pointers. They
        // have the size and alignment of a pointer and are null for `None`.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), count) }
    }

    /// Returns the address of the function with this name, if the table has it.
    pub fn address(&self, name: &str) -> Option<*const c_void> {
        let address = *self.as_slice().get(Symbol::position(name)?)?;
        (!address.is_null()).then_some(address)
    }

    /// Returns a table with only the functions for which `keep` returns true. It is like the table
    /// of a back end that lacks the other functions.
    ///
    /// ```
    /// use ascend_sys::{Functions, Library};
    ///
    /// let table = Functions::default().retain(|symbol| symbol.library != Library::Extension);
    /// assert!(table.ascendExtStreamProgress.is_none());
    /// ```
    pub fn retain(&self, keep: impl Fn(&Symbol) -> bool) -> Functions {
        let kept = self.as_slice().iter().zip(SYMBOLS);
        let kept = kept.map(|(at, symbol)| if keep(symbol) { *at } else { std::ptr::null() });
        // SAFETY: the addresses are those of this table, in its order.
        unsafe { Functions::from_addresses(kept) }
    }

    /// Makes a table from addresses in the order of [`SYMBOLS`]. If there are fewer addresses than
    /// fields, the remaining functions are missing.
    ///
    /// # Safety
    ///
    /// Each address must be null or that of a C function with the signature of its field. The
    /// function must stay loaded for the life of the process.
    pub unsafe fn from_addresses(addresses: impl IntoIterator<Item = *const c_void>) -> Functions {
        let mut functions = Functions::default();
        let fields = std::ptr::from_mut(&mut functions).cast::<*const c_void>();
        for (index, address) in addresses.into_iter().take(SYMBOLS.len()).enumerate() {
            // SAFETY: `index` is less than the number of fields. Each field has the representation
            // of a pointer (see `as_slice`), and the caller guarantees the address.
            unsafe { fields.add(index).write(address) };
        }
        functions
    }
}

impl fmt::Debug for Functions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let present = self.as_slice().iter().filter(|address| !address.is_null()).count();
        write!(f, "Functions({present} of {} present)", SYMBOLS.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HcclResult, aclError};

    unsafe extern "C" fn init(_: *const std::ffi::c_char) -> aclError {
        0
    }

    unsafe extern "C" fn group_start() -> HcclResult {
        HcclResult::HCCL_SUCCESS
    }

    #[test]
    fn the_list_has_one_line_for_each_field() {
        assert_eq!(size_of::<Functions>(), SYMBOLS.len() * size_of::<*const c_void>());
        for (index, symbol) in SYMBOLS.iter().enumerate() {
            let name = symbol.name.to_str().expect("names are ASCII");
            assert_eq!(Symbol::position(name), Some(index), "{name} is listed twice");
        }
    }

    #[test]
    fn names_lead_to_their_fields() {
        let functions = Functions {
            aclInit: Some(init),
            HcclGroupStart: Some(group_start),
            ..Functions::default()
        };
        assert_eq!(functions.address("aclInit"), Some(init as *const c_void));
        assert_eq!(functions.address("HcclGroupStart"), Some(group_start as *const c_void));
        assert_eq!(functions.address("HcclGroupEnd"), None);
        assert_eq!(functions.address("no such function"), None);
        assert_eq!(format!("{functions:?}"), format!("Functions(2 of {} present)", SYMBOLS.len()));
    }

    #[test]
    fn a_table_survives_the_way_through_addresses() {
        let functions = Functions { HcclGroupStart: Some(group_start), ..Functions::default() };
        // SAFETY: the addresses come from a table.
        let copy = unsafe { Functions::from_addresses(functions.as_slice().iter().copied()) };
        assert_eq!(copy.as_slice(), functions.as_slice());
    }
}
