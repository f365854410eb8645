//! Prints programs as Ascend C, the language of kernels for real NPUs.
//!
//! [`kernel`] returns the source of the entry function as a person would write it. It has the names
//! and comments of the recorded kernel, named values are `const` or `constexpr`, and there are no
//! needless parentheses. Calls of the HCCL client stay unchanged and in order. The source adds the
//! parts that the recorded form leaves out:
//!
//! | recorded | printed |
//! | --- | --- |
//! | a copy, in elements | `DataCopyPad` with `DataCopyExtParams`, in bytes |
//! | a copy that adds | `SetAtomicAdd` ... `DisableDmaAtomic` around it |
//! | a unit waits for another | `FetchEventID`, `SetFlag`, `WaitFlag` |
//! | a call of a function | a function of the source and a call of it, or its steps where C++ has no function for them |
//! | units or cores wait | the reason beside the call |
//! | vector operations one after the other | `PipeBarrier<PIPE_V>` where they touch the same memory |
//! | a configured client | `SetCcTilingV2`, and a return if it fails |
//! | a prepared task | its `HcclHandle`, and a return if it is `INVALID_HANDLE_ID` |
//! | a product of matrices | `MatmulImpl` with its types, shapes and tensors, block by block |
//! | queues, tensors, arguments, named parts of the workspace | `TPipe`, `TQue`, `TBuf`, `GlobalTensor` |
//!
//! A name is printed only while its value still equals the declared constant. A value made of a
//! variable loses its name when the variable changes. So the source computes the same as
//! [`Walk`](crate::flow::Walk).
//!
//! Where C++ leaves a result open, the source or the walk settles it. A floating-point number that
//! becomes a whole number becomes the nearest one that fits; the source states that. A walk does
//! not compute the other open results, which are faults of the kernel: a signed number that leaves
//! its type, a division by zero, and a loop whose variable leaves its type. Arithmetic that changes
//! nothing is left out. Offsets in bytes are printed as elements with their `sizeof`.
//! Floating-point numbers of 16 bits are converted only by way of `float`.

mod barriers;
mod client;
mod declare;
mod expression;
mod files;
mod fold;
mod function;
mod kernel;
mod level;
mod literal;
mod local;
mod matmul;
mod names;
mod naming;
mod operator;
mod printer;
mod project;
mod reasons;
mod text;
mod uses;
mod views;

pub use kernel::kernel;
pub use project::Project;

use crate::program::Program;

/// Returns the operator project around a kernel, as paths and texts:
///
/// - in `op_kernel`, the kernel with the header of its tiling struct
///   ([`Layout::header`](crate::layout::Layout::header));
/// - in `op_host`, the prototype, the function that fills the struct, and the registration of both;
/// - the files that CMake needs to build a package of them.
///
/// The operator has the name of the kernel, in camel case. Each communicator is an attribute:
/// `group`, or `group_0`, `group_1` and so on if there are several.
///
/// # Errors
///
/// Fails where [`kernel`] does. It also fails for a name that a build cannot have, for a number of
/// blocks that a launch cannot have, and for a tiling that is not as long as the struct or lacks
/// numbers.
pub fn project(program: &Program, project: &Project) -> Result<Vec<(String, String)>, String> {
    files::files(program, project)
}
