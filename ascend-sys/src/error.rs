//! The reasons why CANN could not be loaded: the places tried, and the advice for the user.

use std::fmt;
use std::path::PathBuf;

use crate::{Library, Symbol};

/// One place where a library was looked for, and the reason why the library was not loaded from
/// there.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// The path, or a bare file name if the system's loader searched for the library.
    pub path: PathBuf,
    /// The loader's error text about a library that it found and could not load. `None` if the file
    /// does not exist.
    pub failure: Option<String>,
}

impl Attempt {
    /// Returns whether the attempt names a place, instead of a bare name for the system's loader.
    fn is_named(&self) -> bool {
        self.path.components().count() > 1
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        match &self.failure {
            Some(failure) => f.write_str(failure),
            None if !self.is_named() => {
                f.write_str("not on the loader's path (LD_LIBRARY_PATH, ldconfig)")
            }
            None => f.write_str("no such file"),
        }
    }
}

/// A requested function that the back end does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissingSymbol {
    /// The requested name.
    pub name: String,
    /// The library that has the function. [`Library::None`] if no release exports the function, or
    /// if no header declares the name.
    pub library: Library,
    /// The first release that has the function, as in [`Symbol::since`](crate::Symbol::since).
    pub since: &'static str,
}

impl MissingSymbol {
    /// Returns the metadata of the missing function with this name.
    pub fn named(name: &str) -> MissingSymbol {
        let symbol = Symbol::named(name);
        MissingSymbol {
            name: name.to_owned(),
            library: symbol.map_or(Library::None, |symbol| symbol.library),
            since: symbol.map_or("unlisted", |symbol| symbol.since),
        }
    }
}

impl fmt::Display for MissingSymbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MissingSymbol { name, library, since } = self;
        match library {
            Library::None => write!(f, "{name}: no release of CANN exports it"),
            Library::Extension => write!(f, "{name}: an optional entry that CANN does not have"),
            _ if *since == "unlisted" => write!(f, "{name}: in {library} of some releases"),
            _ => write!(f, "{name}: in {library} since CANN {since}"),
        }
    }
}

/// The reason why a back end could not be loaded, or lacks a function.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// No place that was tried has a library of CANN that could be loaded.
    #[error("cannot load {library} of CANN. Tried:\n{}{}", lines(attempts), self.advice())]
    Library {
        /// The library.
        library: Library,
        /// Every place that was tried, in the order of the search.
        attempts: Vec<Attempt>,
    },
    /// The libraries were loaded, but they lack some of the requested functions.
    #[error(
        "the back end lacks {} of the functions that are needed:\n{}Looked in:\n{}\
         Install a release of CANN that has them.",
        missing.len(), lines(missing), lines(tried)
    )]
    Symbols {
        /// The functions that are missing.
        missing: Vec<MissingSymbol>,
        /// The places where the functions were looked for.
        tried: Vec<String>,
    },
}

/// Prints the same text as `Display`, since `unwrap` prints the `Debug` form.
impl fmt::Debug for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LoadError: {self}")
    }
}

impl LoadError {
    /// Returns whether no library of CANN was found at all. If this is `true`, it is sensible to
    /// run on the emulator. If it is `false`, CANN was found but does not work, and running on the
    /// emulator would hide that defect. Running on it would also hide a defect if a user [has named
    /// a place of CANN](Self::names_a_place).
    pub fn is_absent(&self) -> bool {
        // The runtime library is looked for first, so if it is missing, no other library was found.
        matches!(self, LoadError::Library { library: Library::AclRt, attempts } if none(attempts))
    }

    /// Returns whether a place of CANN was given: by `ASCEND_HOME_PATH`, by `ASCEND_TOOLKIT_HOME`,
    /// or by the caller of [`Api::load_from`](crate::Api::load_from).
    pub fn names_a_place(&self) -> bool {
        matches!(self, LoadError::Library { attempts, .. } if attempts.iter().any(Attempt::is_named))
    }

    fn advice(&self) -> &'static str {
        match self {
            _ if self.is_absent() && self.names_a_place() => {
                "None of these places contains CANN. If ASCEND_HOME_PATH or ASCEND_TOOLKIT_HOME \
                 names one of them, unset the variable, or correct it with \
                 `source <CANN>/set_env.sh`."
            }
            _ if self.is_absent() => {
                "CANN is not installed, or not where it was looked for: run \
                 `source <CANN>/set_env.sh`, which sets ASCEND_HOME_PATH and LD_LIBRARY_PATH, or \
                 use the emulator."
            }
            LoadError::Library { attempts, .. } if none(attempts) => {
                "The libraries that it depends on were found, so this installation of CANN is \
                 incomplete: install the package of CANN that contains the missing library."
            }
            _ => {
                "The library was found, but the loader could not load it: run \
                 `source <CANN>/set_env.sh`, so that the libraries it depends on are found, and \
                 check that the driver and CANN are of the same release."
            }
        }
    }
}

fn none(attempts: &[Attempt]) -> bool {
    attempts.iter().all(|attempt| attempt.failure.is_none())
}

fn lines(items: &[impl fmt::Display]) -> String {
    items.iter().map(|item| format!("  {item}\n")).collect()
}
