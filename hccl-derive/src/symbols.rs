//! The symbols of a struct: a type with the same fields, each a symbol for use in a kernel.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::Error;
use syn::ext::IdentExt;

use crate::expand::{fits, of_program, target};
use crate::input::Struct;

pub fn expand(input: &Struct) -> TokenStream {
    let Struct { ident, visibility, fields, .. } = input;
    let symbols = format_ident!("__Hccl{}Symbols", ident.unraw(), span = ident.span());
    let doc = format!("`{ident}` in a kernel.");
    let members = fields.iter().enumerate().map(|(index, field)| {
        let (visibility, ident, fits) = (&field.visibility, &field.ident, fits(index));
        let ty = of_program(&field.ty, input);
        quote!(#visibility #ident: <#ty as __hccl::If<{ #fits }>>::Symbols)
    });
    let names: Vec<_> = fields.iter().map(|field| &field.ident).collect();
    let symbols_of = fields.iter().map(|field| {
        let (name, cpp, ty) = (&field.ident, &field.name, of_program(&field.ty, input));
        quote! {
            #name: __hccl::Type::<#ty>::__hccl_symbols(
                __hccl_at,
                __hccl::core::mem::offset_of!(#ident, #name),
                #cpp,
            )
        }
    });
    quote! {
        #[doc = #doc]
        #[allow(missing_docs, dead_code, reason = "the fields are those of the struct, and a kernel may need few of them")]
        #visibility struct #symbols {
            #(#members,)*
        }
        impl __hccl::core::clone::Clone for #symbols {
            fn clone(&self) -> Self {
                Self { #(#names: __hccl::core::clone::Clone::clone(&self.#names),)* }
            }
        }
        impl __hccl::Symbolic for #ident {
            type Symbols = #symbols;
            type Array<const __HCCL_LENGTH: __hccl::core::primitive::usize> = [#symbols; __HCCL_LENGTH];

            fn symbols(__hccl_at: &__hccl::At) -> #symbols {
                #symbols { #(#symbols_of,)* }
            }

            fn array<const __HCCL_LENGTH: __hccl::core::primitive::usize>(
                __hccl_at: &__hccl::At,
            ) -> [#symbols; __HCCL_LENGTH] {
                __hccl::structs::<Self, { __HCCL_LENGTH }>(__hccl_at)
            }
        }
    }
}

/// Makes the symbols of a struct that is refused. Their type depends on a constant that is an
/// error, so the compiler does not report their uses in a kernel.
pub fn refused(input: &Struct, error: &Error) -> TokenStream {
    let (errors, nothing) = nothing(error);
    let (parameters, of) = target(input);
    quote! {
        #errors
        impl #parameters __hccl::Symbolic for #of {
            type Symbols = #nothing;
            type Array<const __HCCL_LENGTH: __hccl::core::primitive::usize> = #nothing;

            fn symbols(_: &__hccl::At) -> #nothing {
                loop {}
            }

            fn array<const __HCCL_LENGTH: __hccl::core::primitive::usize>(
                _: &__hccl::At,
            ) -> #nothing {
                loop {}
            }
        }
    }
}

/// Returns the errors, and a type about which the compiler reports nothing more.
pub fn nothing(error: &Error) -> (TokenStream, TokenStream) {
    let mut errors = error.clone().into_iter().map(|error| error.to_compile_error());
    let first = errors.next();
    let errors = quote! {
        #(#errors)*
        const __HCCL_REFUSED: __hccl::core::primitive::bool = #first;
    };
    (errors, quote!(<() as __hccl::If<{ __HCCL_REFUSED }>>::Symbols))
}
