//! The result of recording a kernel: a program, or all mistakes in the kernel.

use std::fmt;
use std::marker::PhantomData;

use ascend_program::Program;
use ascend_program::ascend_c::Project;

use crate::error::kernel::{Mistake, RecordError};

/// A recorded kernel with tiling argument `T`.
///
/// The function `record`, which `#[kernel]` generates, returns it. Checking, running and printing
/// the kernel need only this value, and do not call the Rust function again.
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

    /// Returns the recorded program, which the checker, the emulator and the printer read.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Returns the kernel as a binary for a loader (`aclrtBinaryLoadFromData`): a magic number and
    /// the encoded program.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.program.to_bytes()
    }

    /// Returns the source of the kernel in Ascend C, for a real NPU. The header of its tiling
    /// struct is [`T::LAYOUT.header()`](super::tiling::Layout::header).
    ///
    /// # Errors
    ///
    /// A [`RecordError`] for the first construct that Ascend C cannot express, with its line in the
    /// kernel. The same error is returned if the name of the kernel is a word of C++, or if loops
    /// and branches are nested too deeply.
    pub fn ascend_c(&self) -> Result<String, RecordError> {
        ascend_program::ascend_c::kernel(&self.program).map_err(|text| self.refused(text))
    }

    /// Returns an operator project for the kernel, as a path and a text for each file. The files
    /// for the device are the kernel and the header of its tiling struct. The files for the host
    /// have the prototype, the tiling function and their registration. The remaining files are
    /// those with which CMake builds a package. On hardware, CANN supports a kernel that
    /// communicates only as an operator project.
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
    /// The errors of [`ascend_c`](Self::ascend_c). A [`RecordError`] is also returned in these
    /// cases:
    ///
    /// * A name in the [`Project`], or the name of the kernel, is not valid in a build.
    /// * The number of blocks is not 1 to 65,535.
    /// * The tiling has another size than the tiling struct.
    /// * One of CANN's structs in the tiling cannot be filled. For example, a `TCubeTiling` has no
    ///   numbers, or no product uses it.
    pub fn project(&self, project: &Project) -> Result<Vec<(String, String)>, RecordError> {
        let files = ascend_program::ascend_c::project(&self.program, project);
        files.map_err(|text| self.refused(text))
    }

    /// Makes the error for a construct that the printer refuses. `text` contains the line of the
    /// construct.
    fn refused(&self, text: String) -> RecordError {
        let mistake = Mistake::placed(text);
        RecordError::new(&self.program.name, vec![mistake])
    }
}

/// Prints the program: a line for each step, with the line of the step in the source.
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
