//! The reasons why CANN could not be loaded: the places tried, and the remedy.

use std::fmt;
use std::path::PathBuf;

use crate::{Library, Symbol};

/// One place where a library was looked for, and the reason why it was not loaded from there.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// A path, or a bare file name when the system's loader was left to search for it.
    pub path: PathBuf,
    /// The text of the loader about a library that it found and could not load. `None` when there
    /// is no file.
    pub failure: Option<String>,
}

impl Attempt {
    /// Whether it is a place, and not a bare name for the system's loader.
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

/// A function that was asked for and that the back end does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissingSymbol {
    /// The name that was asked for.
    pub name: String,
    /// The library that has it.
    pub library: Library,
    /// The first release that has it, as in [`Symbol::since`](crate::Symbol::since).
    pub since: &'static str,
}

impl MissingSymbol {
    /// The metadata of the missing function with this name.
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
    /// One of CANN's libraries could not be loaded from any of the places tried.
    #[error("cannot load {library} of CANN. Tried:\n{}{}", lines(attempts), self.advice())]
    Library {
        /// The library.
        library: Library,
        /// Every place, in the order of the search.
        attempts: Vec<Attempt>,
    },
    /// The libraries are there, but they do not have all functions asked for.
    #[error(
        "the back end lacks {} of the functions that are needed:\n{}Looked in:\n{}\
         Install a release of CANN that has them.",
        missing.len(), lines(missing), lines(tried)
    )]
    Symbols {
        /// The functions that are missing.
        missing: Vec<MissingSymbol>,
        /// The libraries in which they were looked for.
        tried: Vec<String>,
    },
}

/// The same text, since `unwrap` prints it.
impl fmt::Debug for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LoadError: {self}")
    }
}

impl LoadError {
    /// Whether nothing of CANN is there, rather than something that does not work. In the former
    /// case it is sensible to run on the emulator; in the latter it would hide a defect. It would
    /// also hide one if a user [has said where CANN is](Self::names_a_place).
    pub fn is_absent(&self) -> bool {
        // The runtime is looked for first, so without it nothing else was found either.
        matches!(self, LoadError::Library { library: Library::AclRt, attempts } if none(attempts))
    }

    /// Whether a place of CANN was given: by `ASCEND_HOME_PATH`, by `ASCEND_TOOLKIT_HOME`, or by
    /// the caller of [`Api::load_from`](crate::Api::load_from).
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
                "The libraries that it needs are there, so this installation of CANN is not \
                 complete: install the package that has it."
            }
            _ => {
                "The library is there but the loader refused it: run `source <CANN>/set_env.sh`, \
                 so that what it depends on is found, and see that the driver and CANN are of one \
                 release."
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
