//! The derive macros of `hccl`. Use them from there: `hccl::kernel::Tiling`.
//!
//! A macro sees names and no types, so the work is divided. What can be told from the text (a missing `repr(C)`, a `Vec`, a name that C++
//! does not take) is refused here. Everything that has to do with sizes is a constant next to the generated code, evaluated by the compiler
//! with the functions that `hccl` keeps for it, and placed so that the error appears at the field.

mod expand;
mod input;
mod names;
mod types;

use proc_macro::TokenStream;

/// A struct that the host fills and a kernel reads: see `hccl::kernel::tiling`.
///
/// The struct is `#[repr(C)]`, has no implicit padding and a size that is a multiple of 8. Its fields are numbers (`i8` to `u64`, `f32`, `f64`,
/// `hccl::f16`, `hccl::bf16`), `bool`, arrays, and other structs with this derive.
///
/// | attribute | on | meaning |
/// | --- | --- | --- |
/// | `#[tiling(name = "AddTiling")]` | struct | its name in C++; else the one in Rust |
/// | `#[tiling(namespace = "a::b")]` | struct | the C++ namespace; else the global one |
/// | `#[tiling(size = 592)]` | struct | does not compile with any other size in bytes |
/// | `#[tiling(crate = path)]` | struct | where `hccl` is, when it is not `::hccl` |
/// | `#[tiling(name = "tileNum")]` | field | its name in C++; else the one in Rust in lower camel case |
/// | `#[tiling(range = 1..=64)]` | field | what the setter takes, which this makes: `set_tile_num(n)?`; the elements of an array each |
#[proc_macro_derive(Tiling, attributes(tiling))]
pub fn tiling(item: TokenStream) -> TokenStream {
    let item = syn::parse_macro_input!(item as syn::DeriveInput);
    let expanded = input::Struct::read(&item).map(|input| expand::expand(&input));
    expanded.unwrap_or_else(syn::Error::into_compile_error).into()
}
