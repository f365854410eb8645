//! The result of recording: a program, or everything that is wrong with the kernel.

use std::fmt;
use std::marker::PhantomData;

use ascend_program::Program;
use ascend_program::ascend_c::Project;

use crate::error::kernel::{Mistake, RecordError};

/// A recorded kernel with tiling argument `T`.
///
/// The `record` that `#[kernel]` generates makes it. It is all that checking, running and printing
/// need: the Rust function is not called again.
///
/// ```
/// use hccl::kernel::*;
///
/// # #[kernel(mix = "aiv_only")]
/// # fn sevens(k: Kernel, y: Output<u64>) {
/// #     let line = y.at(k.block_index() * 8);
/// #     line.set(0, 7);
/// #     line.clean(0);
/// # }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let kernel: Recorded<()> = sevens::record()?;
/// println!("{kernel}"); // a line for each step
/// println!("{}", kernel.ascend_c()?); // the source for an NPU
/// let report = kernel.check(&(), 2, 1, hccl::Product::A3, &[128]);
/// assert!(report.is_good(true), "{report}");
/// # Ok(())
/// # }
/// ```
pub struct Recorded<T> {
    program: Program,
    of: PhantomData<fn() -> T>,
}

impl<T> Recorded<T> {
    pub(super) fn new(program: Program) -> Self {
        Recorded { program, of: PhantomData }
    }

    /// Returns the form that the checker, the emulator and the printer read.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Returns the binary that a loader takes (`aclrtBinaryLoadFromData`): the program with a magic
    /// in front.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.program.to_bytes()
    }

    /// Returns the source of the kernel in Ascend C, for a real NPU. The header of its tiling
    /// struct is [`T::LAYOUT.header()`](super::tiling::Layout::header).
    ///
    /// # Errors
    ///
    /// The constructs that Ascend C has no words for, with the line of the kernel.
    pub fn ascend_c(&self) -> Result<String, RecordError> {
        ascend_program::ascend_c::kernel(&self.program).map_err(|text| self.refused(text))
    }

    /// Returns the operator project around the kernel, as paths and texts: the kernel and the
    /// header of its tiling struct, on the host the prototype, the tiling function and their
    /// registration, and what CMake needs to build a package of them. On hardware this is the road
    /// that CANN supports for a kernel that communicates.
    ///
    /// ```
    /// use hccl::kernel::*;
    ///
    /// #[derive(Tiling)]
    /// #[repr(C)]
    /// struct Sizes { count: u64 }
    ///
    /// #[kernel(mix = "aiv_only")]
    /// fn first(k: Kernel<Sizes>, y: Output<u64>) {
    ///     y.set(0, k.tiling().count);
    ///     y.clean(0);
    /// }
    ///
    /// # fn main() -> hccl::Result<()> {
    /// let example = Sizes { count: 7 };
    /// let project = Project { blocks: 1, ..Project::new(example.as_bytes()) };
    /// let files = first::record()?.project(&project)?;
    /// let paths: Vec<&str> = files.iter().map(|(path, _)| &**path).collect();
    /// assert!(paths.contains(&"op_kernel/first.cpp") && paths.contains(&"op_host/first.cpp"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`ascend_c`](Self::ascend_c), and a [`Project`] whose tiling does not have as many
    /// bytes as the struct or whose names a build cannot have.
    pub fn project(&self, project: &Project) -> Result<Vec<(String, String)>, RecordError> {
        let files = ascend_program::ascend_c::project(&self.program, project);
        files.map_err(|text| self.refused(text))
    }

    /// The error for what the printer refuses; the text has the line.
    fn refused(&self, text: String) -> RecordError {
        let mistake = Mistake::placed(text);
        RecordError::new(&self.program.name, vec![mistake])
    }
}

/// The program, a line for each step with its line in the source.
impl<T> fmt::Display for Recorded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.program.fmt(f)
    }
}

impl<T> Clone for Recorded<T> {
    fn clone(&self) -> Self {
        Recorded::new(self.program.clone())
    }
}

impl<T> fmt::Debug for Recorded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recorded({})", self.program.name)
    }
}
