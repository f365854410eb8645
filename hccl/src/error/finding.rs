//! Findings of checked mode.

use std::fmt;

/// A finding of checked mode: accesses to memory that nothing orders, or a similar mistake.
/// `Display` says what is wrong, shows both operations, and says what to do.
///
/// ```
/// use hccl::Runtime;
///
/// let runtime = Runtime::emulator_builder().devices(1).checked(true).build()?;
/// // ... the program, which also calls CANN with pointers and streams of its own ...
/// for (number, finding) in runtime.findings().iter().enumerate() {
///     eprintln!("{finding}");
///     std::fs::write(format!("finding-{number}.svg"), finding.svg())?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Finding {
    pub(crate) text: Box<str>,
    pub(crate) picture: Box<str>,
}

impl Finding {
    /// Returns a picture of the finding as the text of an SVG file. It shows the two operations in
    /// their streams, and the bytes that they share.
    pub fn svg(&self) -> &str {
        &self.picture
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Finding: {self}")
    }
}
