//! The amount that a copy moves between global and local memory: one piece, or several pieces with
//! gaps between them.

use ascend_program::step::Pieces as Steps;

use crate::kernel::count::{Count, Counted};
use crate::kernel::record::KernelRecorder;

/// The amount that a copy moves: a count of elements, or [`Pieces`].
///
/// ```
/// use hccl::kernel::*;
///
/// #[kernel(mix = "aiv_only")]
/// fn own(k: Kernel, x: Input<f32>, y: Output<f32>) {
///     let a = k.scratch::<f32>(64).get();
///     k.copy_in(&a, x, Pieces::new(8, 4, 24)); // 8 of every 32 elements, 4 times
///     k.wait_for(Pipe::Out, Pipe::In);
///     k.copy_out(y, &a, 32); // a count of elements
/// }
/// # fn main() -> hccl::Result<()> {
/// # own::record()?;
/// # Ok(())
/// # }
/// ```
pub trait Amount {
    #[doc(hidden)]
    fn pieces(self) -> Pieces;
}

impl<C: Count> Amount for C {
    fn pieces(self) -> Pieces {
        Pieces { length: self.count(), count: None, gap: None }
    }
}

/// Several pieces of the same length with gaps between them in global memory (`DataCopyExtParams`).
/// In local memory each piece begins at a multiple of 32 bytes.
///
/// ```
/// use hccl::kernel::*;
///
/// #[kernel(mix = "aiv_only")]
/// fn own(k: Kernel, x: Input<f32>, y: Output<f32>) {
///     let a = k.scratch::<f32>(64).get();
///     let rows = Pieces::new(8, 4, 24);
///     k.copy_in(&a, x, rows); // elements 0 to 7, 32 to 39, 64 to 71 and 96 to 103
///     k.wait_for(Pipe::Out, Pipe::In);
///     k.copy_out(y, &a, 32);
/// }
/// # fn main() -> hccl::Result<()> {
/// # own::record()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Pieces {
    length: Counted,
    count: Option<Counted>,
    gap: Option<Counted>,
}

impl Pieces {
    /// Describes `count` pieces of `length` elements, with `gap` elements between the end of one
    /// piece and the start of the next in global memory.
    pub fn new(length: impl Count, count: impl Count, gap: impl Count) -> Self {
        Pieces { length: length.count(), count: Some(count.count()), gap: Some(gap.count()) }
    }

    pub(super) fn steps(self, recorder: &mut KernelRecorder) -> Steps {
        Steps {
            length: self.length.value(recorder),
            count: self.count.map(|count| count.value(recorder)),
            gap: self.gap.map(|gap| gap.value(recorder)),
        }
    }
}

impl Amount for Pieces {
    fn pieces(self) -> Pieces {
        self
    }
}
