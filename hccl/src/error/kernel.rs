//! The mistakes in a kernel.

use std::fmt;
use std::panic::Location;

use super::debug_text::debug_as_text;

/// The error for a kernel that cannot be recorded. It lists every mistake in the kernel, each with
/// its line.
///
/// ```
/// use hccl::kernel::*;
///
/// #[kernel(mix = "aiv_only")]
/// fn own(k: Kernel, x: Input<u8>, y: Output<u8>) {
///     let a = k.scratch::<u8>(64).get();
///     k.copy_in(&a, x, 64);
///     k.wait_for(Pipe::Vector, Pipe::In);
///     k.exp(&a, &a, 64); // a vector unit has no exponential of bytes
///     k.wait_for(Pipe::Out, Pipe::Vector);
///     k.copy_out(y, &a, 64);
/// }
///
/// # fn main() {
/// let error = own::record().unwrap_err();
/// assert_eq!((error.kernel(), error.mistakes().len()), ("own", 1));
/// eprintln!("{error}"); // each mistake with its line
/// # }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct RecordError {
    kernel: Box<str>,
    mistakes: Box<[Mistake]>,
}

/// One mistake in a kernel.
///
/// ```
/// use hccl::kernel::*;
///
/// #[kernel(mix = "aiv_only")]
/// fn own(k: Kernel, x: Input<u8>, y: Output<u8>) {
///     let a = k.scratch::<u8>(64).get();
///     k.copy_in(&a, x, 64);
///     k.wait_for(Pipe::Vector, Pipe::In);
///     k.exp(&a, &a, 64); // a vector unit has no exponential of bytes
///     k.wait_for(Pipe::Out, Pipe::Vector);
///     k.copy_out(y, &a, 64);
/// }
///
/// # fn main() {
/// let error = own::record().unwrap_err();
/// for mistake in error.mistakes() {
///     eprintln!("{}:{}: {}", mistake.file(), mistake.line(), mistake.text());
/// }
/// # assert_eq!(error.mistakes().len(), 1);
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    text: Box<str>,
    file: &'static str,
    line: u32,
    column: u32,
    calls: Vec<String>,
}

impl Mistake {
    pub(crate) fn new(text: impl Into<String>, here: &'static Location<'static>) -> Self {
        let (file, line, column) = (here.file(), here.line(), here.column());
        Mistake { text: text.into().into(), file, line, column, calls: Vec::new() }
    }

    /// Returns a mistake whose text already names the place.
    pub(crate) fn placed(text: String) -> Self {
        Mistake { text: text.into(), file: "", line: 0, column: 0, calls: Vec::new() }
    }

    /// Adds the function calls in which the mistake is, the innermost call first.
    pub(crate) fn within(self, calls: Vec<String>) -> Self {
        Mistake { calls, ..self }
    }

    /// Returns whether the other mistake has the same text and the same place. The function calls
    /// may differ.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let is = |of: &Self| (of.file, of.line, of.column);
        self.text == other.text && is(self) == is(other)
    }

    /// Returns the function calls in which the mistake is, the innermost call first. Each is a text
    /// such as "in `scale`, called at vadd.rs:40:5".
    pub fn calls(&self) -> &[String] {
        &self.calls
    }

    /// Returns the text of the mistake, which says what is wrong and what to do.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the source file. It is empty if the text of the mistake names the place.
    pub fn file(&self) -> &str {
        self.file
    }

    /// Returns the line in the file, counted from 1. It is 0 if the text of the mistake names the
    /// place.
    pub fn line(&self) -> u32 {
        self.line
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        match self.line {
            0 => Ok(()),
            line => write!(f, "\n  --> {}:{line}:{}", self.file, self.column),
        }?;
        self.calls.iter().try_for_each(|call| write!(f, "\n   = {call}"))
    }
}

impl RecordError {
    pub(crate) fn new(kernel: &str, mistakes: Vec<Mistake>) -> Self {
        RecordError { kernel: kernel.into(), mistakes: mistakes.into() }
    }

    /// Returns the name of the kernel.
    pub fn kernel(&self) -> &str {
        &self.kernel
    }

    /// Returns all mistakes, in the order in which they were found while the kernel was recorded.
    pub fn mistakes(&self) -> &[Mistake] {
        &self.mistakes
    }
}

debug_as_text! { RecordError { kernel, mistakes } }

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the kernel `{}` cannot be recorded", self.kernel)?;
        self.mistakes.iter().try_for_each(|mistake| write!(f, "\n{mistake}"))
    }
}

impl std::error::Error for RecordError {}
