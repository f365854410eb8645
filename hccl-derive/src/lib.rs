//! The procedural macros of `hccl`. Use them through `hccl::kernel`, as `hccl::kernel::Tiling` and
//! `hccl::kernel::kernel`.
//!
//! A macro sees names but no types, so the checks are divided. The macro itself reports the
//! mistakes that the text shows (a missing `repr(C)`, a tuple, a name that C++ does not allow).
//! Each check of types and sizes is a constant in the generated code, which the compiler evaluates
//! with functions of `hccl`. The constant is placed so that its error appears at the field.

mod attributes;
mod docs;
mod expand;
mod input;
mod kernel;
mod names;
mod range;
mod symbols;
mod types;

use proc_macro::TokenStream;

/// Derives the layout of a struct that the host fills and a kernel reads: see
/// `hccl::kernel::tiling`.
///
/// The struct is `#[repr(C)]`, has no implicit padding and a size that is a multiple of 8. Its
/// fields are numbers (`i8` to `u64`, `f32`, `f64`, `hccl::f16`, `hccl::bf16`), `bool`, arrays, and
/// other structs with this derive.
///
/// | attribute | on | meaning |
/// | --- | --- | --- |
/// | `#[tiling(name = "AddTiling")]` | struct | its name in C++; else the one in Rust |
/// | `#[tiling(namespace = "a::b")]` | struct | the C++ namespace; else the global one |
/// | `#[tiling(size = 592)]` | struct | does not compile with any other size in bytes |
/// | `#[tiling(crate = path)]` | struct | where `hccl` is, when it is not `::hccl` |
/// | `#[tiling(name = "tileNum")]` | field | its name in C++; else the one in Rust in lower camel case |
/// | `#[tiling(range = 1..=64)]` | field | makes a setter, `set_tile_num(n)?`, that accepts only these values; for an array, for each element. The ends are constants of the type of the field, and the range is not empty |
#[proc_macro_derive(Tiling, attributes(tiling))]
pub fn tiling(item: TokenStream) -> TokenStream {
    let item = syn::parse_macro_input!(item as syn::DeriveInput);
    let (input, refused) = input::read(&item);
    expand::expand(&input, refused.as_ref()).into()
}

/// Makes a function a kernel: see `hccl::kernel`.
///
/// The function takes a `Kernel<T>` with its tiling struct (or a plain `Kernel`), then all its
/// inputs, then all its outputs. It can be called like any other function, also by other kernels.
/// `name::record()` runs it once and returns the program.
///
/// Values, variables, tensors in local memory, clients and tasks that a `let` binds have the same
/// name in the program. The type of the variable must be known at the `let`. Nothing else in the
/// function is changed. The doc comment of the function is also printed above it in the generated
/// source.
///
/// `mix` selects the cores that run the kernel:
///
/// | `mix` | for each block | cores can wait for each other |
/// | --- | --- | --- |
/// | `"aiv_only"` | 1 vector core | no |
/// | `"aic_only"` | 1 cube core | no |
/// | `"aiv_1_0"` | 1 vector core | yes |
/// | `"aic_1_0"` | 1 cube core | yes |
/// | `"aic_1_1"` | 1 cube core and 1 vector core | yes |
/// | `"aic_1_2"` | 1 cube core and 2 vector cores | yes |
///
/// `#[kernel(inline)]` is for functions that kernels call. The steps of such a function are
/// recorded at the place of the call, with their names. The function may take and return any types.
/// A finding of the checker inside the function also names the place of the call. In the printed
/// source it stays a function of its own where possible.
///
/// `crate = path` gives the path of `hccl` if it is not `::hccl`.
#[proc_macro_attribute]
pub fn kernel(attribute: TokenStream, item: TokenStream) -> TokenStream {
    kernel::expand(attribute.into(), item.into()).into()
}
