//! The struct as a kernel sees it: the same fields, each a symbol.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;

use crate::input::Struct;

pub fn expand(input: &Struct) -> TokenStream {
    let Struct { ident, visibility, root, fields, .. } = input;
    let private = quote!(#root::kernel::__private);
    let symbols = format_ident!("{}Symbols", ident.unraw(), span = ident.span());
    let doc = format!("`{ident}` in a kernel.");
    let idents: Vec<_> = fields.iter().map(|field| &field.ident).collect();
    // At the type, which is what an error is about.
    let types = fields.iter().map(|field| {
        let ty = &field.ty;
        quote_spanned!(ty.span()=> <#ty as #private::Symbolic>::Symbols)
    });
    let symbols_of = fields.iter().map(|field| {
        let ty = &field.ty;
        quote_spanned!(ty.span()=> <#ty as #private::Symbolic>::symbols)
    });
    let names = fields.iter().map(|field| &field.name);
    let visibilities = fields.iter().map(|field| &field.visibility);
    quote! {
        #[doc = #doc]
        #[derive(Clone)]
        #[allow(missing_docs, dead_code, reason = "the fields are those of the struct, and a kernel may need few of them")]
        #visibility struct #symbols {
            #(#visibilities #idents: #types,)*
        }
        impl #private::Symbolic for #ident {
            type Symbols = #symbols;
            type Array<const N: usize> = [#symbols; N];

            fn symbols(at: &#private::At) -> #symbols {
                #symbols {
                    #(#idents: #symbols_of(
                        &at.field(::core::mem::offset_of!(#ident, #idents), #names),
                    ),)*
                }
            }

            fn array<const N: usize>(at: &#private::At) -> [#symbols; N] {
                #private::structs::<Self, N>(at)
            }
        }
    }
}
