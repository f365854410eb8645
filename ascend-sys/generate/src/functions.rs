//! Makes `functions.rs`: the table of functions and the list of their names.

use std::collections::HashMap;
use std::path::Path;

use quote::{format_ident, quote};
use syn::{FnArg, ForeignItemFn};

use crate::Result;
use crate::bindings::Bindings;

/// Makes the file from the functions in the bindings, and from the headers and the table of
/// libraries (`symbols.csv`) in the include directory.
pub fn generate(bindings: &Bindings, include: &Path) -> Result<syn::File> {
    let table = &include.join("symbols.csv");
    let mut origins = read(table)?;
    let mut fields = Vec::new();
    let mut symbols = Vec::new();
    let mut linked = Vec::new();
    for function in &bindings.functions {
        let name = &function.sig.ident;
        let Origin { library, since } = origins
            .remove(&name.to_string())
            .ok_or_else(|| format!("{} has no line for {name}", table.display()))?;
        let place = bindings
            .places
            .get(&name.to_string())
            .ok_or_else(|| format!("no header under include/ declares {name}"))?;
        let (header, area) = (&place.header, place.area(include)?);
        fields.push(field(function));
        let library_name = format_ident!("{library}");
        let text = std::ffi::CString::new(name.to_string())?;
        let text = proc_macro2::Literal::c_string(&text);
        symbols.push(quote!(symbol(#text, Library::#library_name, #since, #header, #area)));
        if since == "8.5.0" && library != "None" {
            linked.push(quote!(#name: Some(imports::#name)));
        }
    }
    if let Some(name) = origins.keys().min() {
        return Err(format!("{}: no header declares {name}", table.display()).into());
    }
    Ok(syn::parse2(quote! {
        use super::bindings::*;
        use super::{Library, Symbol};

        /// A table of C functions: one optional field for each function that CANN declares, and for
        /// each optional entry of our own.
        ///
        /// A back end is a literal of this struct, with `..Functions::default()` for functions that
        /// it lacks. The fields are in the order of [`SYMBOLS`].
        #[repr(C)]
        #[derive(Clone, Copy, Default)]
        pub struct Functions {
            #(#fields,)*
        }

        const fn symbol(
            name: &'static core::ffi::CStr,
            library: Library,
            since: &'static str,
            header: &'static str,
            area: &'static str,
        ) -> Symbol {
            Symbol { name, library, since, header, area }
        }

        /// A description of each field of [`Functions`], in the order of the fields.
        pub static SYMBOLS: &[Symbol] = &[#(#symbols),*];

        /// Returns a table with strong references to everything that release 8.5.0 exports.
        #[cfg(feature = "linked")]
        pub(crate) fn linked() -> Functions {
            Functions { #(#linked,)* ..Functions::default() }
        }
    })?)
}

fn field(function: &ForeignItemFn) -> proc_macro2::TokenStream {
    let docs = function.attrs.iter().filter(|attribute| attribute.path().is_ident("doc"));
    let name = &function.sig.ident;
    let inputs = function.sig.inputs.iter().map(|input| match input {
        FnArg::Typed(input) => quote!(#input),
        FnArg::Receiver(input) => quote!(#input),
    });
    let variadic = function.sig.variadic.as_ref().map(|_| quote!(, ...));
    let output = &function.sig.output;
    quote! {
        #(#docs)*
        pub #name: Option<unsafe extern "C" fn(#(#inputs),* #variadic) #output>
    }
}

/// The origin of a symbol: a variant of `Library`, and the first release that has the symbol.
struct Origin {
    library: &'static str,
    since: String,
}

fn read(table: &Path) -> Result<HashMap<String, Origin>> {
    let mut origins = HashMap::new();
    for line in std::fs::read_to_string(table)?.lines().skip(1) {
        let wrong = || format!("{}: not a line of name,library,since: {line}", table.display());
        let mut columns = line.split(',');
        let (Some(name), Some(library), Some(since), None) =
            (columns.next(), columns.next(), columns.next(), columns.next())
        else {
            return Err(wrong().into());
        };
        let library = match library {
            "acl_rt" => "AclRt",
            "hcomm" => "Hcomm",
            "hccl" => "Hccl",
            "msprofiler" => "MsProfiler",
            "none" => "None",
            "extension" => "Extension",
            _ => return Err(wrong().into()),
        };
        let origin = Origin { library, since: since.to_owned() };
        if origins.insert(name.to_owned(), origin).is_some() {
            return Err(wrong().into());
        }
    }
    Ok(origins)
}
