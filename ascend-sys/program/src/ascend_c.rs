//! Programs as Ascend C, the language in which kernels for real NPUs are written.
//!
//! [`kernel`] returns the source of the entry function as a person would write it: names and
//! comments of the recorded kernel, named values as `const` or `constexpr`, no needless
//! parenthesis. Calls of the HCCL client stay unchanged and in order. The source adds the parts
//! that the recorded form leaves out:
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
//! A name is printed only while the value still equals what the name holds. A value made of a
//! variable loses its name when the variable changes, so the source computes the same as
//! [`Walk`](crate::flow::Walk).
//!
//! Where C++ leaves a result open, either the source states it (a floating point number that
//! becomes a whole one is the nearest that fits), or a walk does not compute it. A signed number
//! that leaves its type, a division by zero, and a loop that begins again are faults of the kernel.
//! Arithmetic that changes nothing is left out, offsets in bytes are elements with their `sizeof`,
//! and 16-bit floating point numbers are converted by way of `float` only.

mod barriers;
mod client;
mod declare;
mod expression;
mod files;
mod fold;
mod function;
mod kernel;
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

pub use project::Project;

use crate::layout::Layout;
use crate::program::Program;

/// The source of a kernel.
///
/// # Errors
///
/// Fails for a program that is not [valid](Program::validate) or does something that Ascend C
/// cannot express, with the line of the kernel; and for a kernel whose name is a keyword of C++.
pub fn kernel(program: &Program) -> Result<String, String> {
    let name = &program.name;
    if names::is_reserved(name) {
        return Err(format!(
            "no function of Ascend C can be called `{name}`, which is a word of C++ or of its headers: give the kernel another name"
        ));
    }
    kernel::source(program)
}

/// The operator project around a kernel, as paths and texts:
///
/// - in `op_kernel` the kernel with the header of its tiling struct ([`Layout::header`]);
/// - in `op_host` the prototype, the function that fills the struct, and the registration of both;
/// - the files that CMake needs to build a package of them.
///
/// The operator is called like the kernel, in camel case; each communicator is an attribute,
/// `group`, or `group_0`, `group_1` if there are several.
///
/// # Errors
///
/// Fails where [`kernel`] does; for a tiling that is not as long as the struct or leaves out the
/// numbers it is made from; and for names that a build cannot have.
pub fn project(program: &Program, project: &Project) -> Result<Vec<(String, String)>, String> {
    files::files(program, project)
}

/// The tiling struct with its namespace.
fn tiling_name(layout: &Layout) -> String {
    match layout.namespace.is_empty() {
        true => layout.name.to_string(),
        false => format!("{}::{}", layout.namespace, layout.name),
    }
}

/// The header that declares the tiling struct of a kernel.
fn tiling_file(program: &Program) -> String {
    format!("{}_tiling.h", program.name)
}
