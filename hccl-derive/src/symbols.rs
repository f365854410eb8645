//! The struct as a kernel sees it: the same fields, each a symbol.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Ident, Type};

use crate::input::Struct;

pub fn expand(input: &Struct) -> TokenStream {
    let Struct { ident, visibility, root, fields, .. } = input;
    let private = quote!(#root::kernel::__private);
    let symbols = format_ident!("{}Symbols", ident.unraw(), span = ident.span());
    let doc = format!("`{ident}` in a kernel.");
    // All that names the type of a field stands at that type, which is what an error is about, and the compiler says the same only once.
    let members = fields.iter().map(|field| {
        let (visibility, ident, ty) = (&field.visibility, &field.ident, &field.ty);
        quote_spanned!(ty.span()=> #visibility #ident: <#ty as #private::Symbolic>::Symbols)
    });
    let clones = fields.iter().map(|field| {
        let ty = &field.ty;
        let name = at(&field.ident, ty);
        quote_spanned!(ty.span()=> #name: ::core::clone::Clone::clone(&self.#name))
    });
    let symbols_of = fields.iter().map(|field| {
        let (cpp, ty) = (&field.name, &field.ty);
        let name = at(&field.ident, ty);
        quote_spanned! {ty.span()=>
            #name: <#ty as #private::Symbolic>::symbols(
                &at.field(::core::mem::offset_of!(#ident, #name), #cpp),
            )
        }
    });
    quote! {
        #[doc = #doc]
        #[allow(missing_docs, dead_code, reason = "the fields are those of the struct, and a kernel may need few of them")]
        #visibility struct #symbols {
            #(#members,)*
            // The size of a struct is asked of its last field; with this one it is known even if the type of another is refused.
            __end: (),
        }
        impl ::core::clone::Clone for #symbols {
            fn clone(&self) -> Self {
                Self { #(#clones,)* __end: () }
            }
        }
        impl #private::Symbolic for #ident {
            type Symbols = #symbols;
            type Array<const __HCCL_N: usize> = [#symbols; __HCCL_N];

            fn symbols(at: &#private::At) -> #symbols {
                #symbols { #(#symbols_of,)* __end: () }
            }

            fn array<const __HCCL_N: usize>(at: &#private::At) -> [#symbols; __HCCL_N] {
                #private::structs::<Self, __HCCL_N>(at)
            }
        }
    }
}

/// A name that stands where the type does.
fn at(name: &Ident, ty: &Type) -> Ident {
    let mut name = name.clone();
    name.set_span(ty.span());
    name
}
