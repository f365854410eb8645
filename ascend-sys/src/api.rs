//! Back ends: four ways to fill the function table, and queries about its contents.

use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use crate::error::{LoadError, MissingSymbol};
use crate::load::{self, Loaded};
use crate::{Functions, Library};

/// A back end: a table of functions, and the places where they were looked for.
///
/// An `Api` dereferences to [`Functions`]. Every field is an `Option`, so a caller checks that the
/// function is there and then calls it, as in `(api.aclrtFree?)(pointer)`. Loaded libraries stay
/// loaded for the life of the process.
#[derive(Debug, Clone)]
pub struct Api {
    functions: Functions,
    sources: Vec<String>,
}

impl Api {
    /// Loads the installed CANN.
    ///
    /// Each of `libacl_rt.so` (or else `libascendcl.so`), `libhcomm.so` and `libhccl.so` is loaded
    /// from the first place that has it: `lib64` and `<arch>-linux/lib64` under
    /// `$ASCEND_HOME_PATH`, the same directories under `$ASCEND_TOOLKIT_HOME`, and then the
    /// loader's own path. `libmsprofiler.so` is loaded in the same way if it is found. Functions
    /// that the installed release lacks are `None`; [`Api::require`] reports them.
    ///
    /// Blocks while the libraries are read from disk.
    ///
    /// # Errors
    ///
    /// [`LoadError::Library`] lists every place tried. [`LoadError::is_absent`] returns whether
    /// CANN is absent altogether.
    pub fn load() -> Result<Api, LoadError> {
        let directories = load::directories(|name| std::env::var_os(name));
        load::load(&directories, true).map(Api::from)
    }

    /// Returns the libraries in the order in which they are loaded, each with the places that
    /// [`load`](Self::load) searches for it, in order. The system's loader searches for a path of
    /// one component. The last library may be missing. Loads nothing.
    pub fn places() -> Vec<(Library, Vec<PathBuf>)> {
        load::places(&load::directories(|name| std::env::var_os(name)))
    }

    /// Loads the same libraries from one directory and from nowhere else.
    ///
    /// The system's loader finds the libraries on which these depend. Blocks while the libraries
    /// are read from disk.
    ///
    /// Loading a library runs its start-up code, and the program then trusts the library as CANN.
    /// So name only a directory that you trust as much as the program itself.
    ///
    /// # Errors
    ///
    /// [`LoadError::Library`], as for [`Api::load`].
    pub fn load_from(directory: impl AsRef<Path>) -> Result<Api, LoadError> {
        let directory = directory.as_ref();
        // The loader would search its own path for a file name without a directory.
        let here = directory.as_os_str().is_empty();
        let directory = if here { Path::new(".") } else { directory };
        load::load(&[directory.to_owned()], false).map(Api::from)
    }

    /// Returns the back end of the libraries that the program was linked with.
    ///
    /// The program refers to the functions of CANN 8.5.0 by name, so it does not start without
    /// them. Newer functions are looked up (`dlsym`) and may be `None`. The build takes the
    /// libraries from `$ASCEND_HOME_PATH` or `$ASCEND_TOOLKIT_HOME` if one of them is set, else
    /// from the linker's path.
    #[cfg(feature = "linked")]
    pub fn linked() -> Api {
        let functions = load::complete(crate::functions::linked());
        Api { functions, sources: vec!["the libraries that the program is linked with".into()] }
    }

    /// Returns a back end that is part of the program, such as the emulator.
    ///
    /// # Safety
    ///
    /// Each function of the table must behave as CANN documents the function of the same name, for
    /// every call that keeps to that documentation. Safe code on top of the table relies on this:
    /// for example, a pointer from `aclrtMalloc` must have as many bytes as the caller requested.
    pub unsafe fn from_table(functions: Functions) -> Api {
        Api { functions, sources: vec!["a table that the program made".into()] }
    }

    /// Returns the table, as dereferencing does.
    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    /// Returns the places where the functions were looked for: the paths of the loaded libraries,
    /// or a text if the back end was not loaded from files.
    pub fn sources(&self) -> &[String] {
        &self.sources
    }

    /// Returns whether the back end has the function `name`, with the function's metadata.
    pub fn availability(&self, name: &str) -> Availability {
        let MissingSymbol { name, library, since } = MissingSymbol::named(name);
        let address = self.functions.address(&name);
        Availability {
            found: address.is_some(),
            file: address.and_then(load::file_of),
            tried: self.sources.clone(),
            name,
            library,
            since,
        }
    }

    /// Checks that the back end has all these functions.
    ///
    /// # Errors
    ///
    /// [`LoadError::Symbols`] names each one that is missing, with its library and the first
    /// release that has it.
    pub fn require(&self, names: &[&str]) -> Result<(), LoadError> {
        let missing: Vec<_> = names
            .iter()
            .filter(|name| self.functions.address(name).is_none())
            .map(|name| MissingSymbol::named(name))
            .collect();
        if missing.is_empty() {
            Ok(())
        } else {
            Err(LoadError::Symbols { missing, tried: self.sources.clone() })
        }
    }
}

impl Deref for Api {
    type Target = Functions;

    fn deref(&self) -> &Functions {
        &self.functions
    }
}

impl From<Loaded> for Api {
    fn from(Loaded { functions, libraries }: Loaded) -> Api {
        Api { functions, sources: libraries }
    }
}

/// The result of [`Api::availability`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Availability {
    /// The requested name.
    pub name: String,
    /// Whether the back end has the function.
    pub found: bool,
    /// The file of the library or of the program itself that contains the function. `None` if the
    /// function is missing or its file is unknown.
    pub file: Option<PathBuf>,
    /// The library in which CANN 9 has the function. It is [`Library::None`] also when no header
    /// declares the name.
    pub library: Library,
    /// The first release that has the function, as in [`Symbol::since`](crate::Symbol::since). It
    /// is `unlisted` also when no header declares the name.
    pub since: &'static str,
    /// The places where the function was looked for.
    pub tried: Vec<String>,
}

impl fmt::Display for Availability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Availability { name, found, file, library, since, tried } = self;
        if *found {
            write!(f, "{name}: found")?;
            return file.as_ref().map_or(Ok(()), |file| write!(f, " in {}", file.display()));
        }
        let missing = MissingSymbol { name: name.clone(), library: *library, since };
        write!(f, "{missing}; not in {}", tried.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HcclResult, aclError};

    unsafe extern "C" fn finalize() -> aclError {
        0
    }

    unsafe extern "C" fn group_end() -> HcclResult {
        HcclResult::HCCL_SUCCESS
    }

    fn partial() -> Api {
        let functions = Functions {
            aclFinalize: Some(finalize),
            HcclGroupEnd: Some(group_end),
            ..Functions::default()
        };
        // SAFETY: both functions return success and have nothing to do, and the table has no other
        // functions.
        unsafe { Api::from_table(functions) }
    }

    #[test]
    fn a_table_is_used_as_it_is() {
        let api = partial();
        let end = api.HcclGroupEnd.expect("it was put there");
        // SAFETY: the function is the one above, which does nothing.
        assert_eq!(unsafe { end() }, HcclResult::HCCL_SUCCESS);
        assert!(api.aclrtMalloc.is_none());
    }

    #[test]
    fn availability_is_known_for_each_name() {
        let api = partial();
        let found = api.availability("HcclGroupEnd");
        assert!(found.found && found.file.is_some(), "{found}");
        assert_eq!((found.library, found.since), (Library::Hcomm, "9.0.0"));

        let missing = api.availability("HcclAllReduce");
        assert!(!missing.found);
        assert_eq!(
            missing.to_string(),
            "HcclAllReduce: in libhccl.so since CANN 8.5.0; not in a table that the program made"
        );
        let nonsense = api.availability("HcclNonsense");
        assert_eq!((nonsense.found, nonsense.library), (false, Library::None));
    }

    #[test]
    fn require_names_all_that_is_missing() {
        let api = partial();
        assert_eq!(api.require(&["aclFinalize", "HcclGroupEnd"]), Ok(()));
        let error = api
            .require(&["aclFinalize", "HcclCommInitRootInfo", "aclrtCreateStreamV2"])
            .expect_err("two are missing");
        assert!(!error.is_absent());
        let text = error.to_string();
        assert!(text.contains("lacks 2 of"), "{text}");
        assert!(text.contains("HcclCommInitRootInfo: in libhcomm.so since CANN 8.5.0"), "{text}");
        assert!(text.contains("aclrtCreateStreamV2: no release of CANN exports it"), "{text}");
        assert!(text.contains("a table that the program made"), "{text}");
    }

    #[test]
    fn an_empty_directory_is_an_error_that_lists_what_was_tried() {
        let directory = std::env::temp_dir().join("ascend-sys has no such directory");
        let error = Api::load_from(&directory).expect_err("nothing is there");
        assert!(error.is_absent() && error.names_a_place());
        let text = error.to_string();
        for name in ["libacl_rt.so", "libascendcl.so"] {
            let line = format!("  {}: no such file\n", directory.join(name).display());
            assert!(text.contains(&line), "{text}");
        }
        assert!(text.contains("set_env.sh"), "{text}");
    }
}
