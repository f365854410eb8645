//! The generated code: the layout, the checks, the setters and the offsets.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::Ident;
use syn::ext::IdentExt;
use syn::spanned::Spanned;

use crate::input::{Field, Refused, Struct};

pub fn expand(input: &Struct) -> TokenStream {
    let Struct { ident, root, fields, .. } = input;
    let private = quote!(#root::kernel::tiling::__private);
    let checks = fields.iter().map(|field| check(field, ident, &private));
    let checked = quote! {
        fn check_value(&self) -> #private::Result<()> {
            #(#checks)*
            ::core::result::Result::Ok(())
        }
    };
    let problems = problems(input, &private);
    let (idents, types): (Vec<_>, Vec<_>) =
        fields.iter().map(|field| (&field.ident, &field.ty)).unzip();
    let all = quote! {
        // These are all the fields there are, and these their types.
        #[allow(dead_code, reason = "it only has to compile")]
        fn __hccl_fields(#ident { #(#idents),* }: &#ident) {
            #(let _: &#types = #idents;)*
        }
        #problems
    };
    implementation(input, &checked, &all)
}

/// The reason why a struct is refused; and what there would be without it, so that what uses the struct is not refused as well.
pub fn refused(refused: &Refused) -> TokenStream {
    let error = refused.error.to_compile_error();
    let nothing = TokenStream::new();
    let rest = refused.rest.as_ref().map(|rest| implementation(rest, &nothing, &nothing));
    quote!(#error #rest)
}

/// The traits, with the values that are checked, and what has to hold.
fn implementation(input: &Struct, checked: &TokenStream, problems: &TokenStream) -> TokenStream {
    let Struct { ident, name, namespace, root, fields, .. } = input;
    let private = quote!(#root::kernel::tiling::__private);
    let layouts = fields.iter().map(|field| layout_of(input, field, &private));
    let methods = methods(input, &private);
    let symbols = crate::symbols::expand(input);
    quote! {
        #[allow(unsafe_code, reason = "the derive checks what the traits demand")]
        #[allow(clippy::undocumented_unsafe_blocks, reason = "see `problems` below")]
        const _: () = {
            unsafe impl #private::FieldType for #ident {
                const ITEM: #private::Item = #private::Item::Struct(
                    ::std::borrow::Cow::Borrowed(<#ident as #private::Tiling>::LAYOUT),
                );
                #checked
            }
            unsafe impl #private::Tiling for #ident {
                const LAYOUT: &'static #private::Layout = &#private::Layout {
                    name: ::std::borrow::Cow::Borrowed(#name),
                    namespace: ::std::borrow::Cow::Borrowed(#namespace),
                    role: #private::Role::User,
                    size: ::core::mem::size_of::<#ident>() as ::core::primitive::u32,
                    align: ::core::mem::align_of::<#ident>() as ::core::primitive::u32,
                    fields: ::std::borrow::Cow::Borrowed(&[#(#layouts),*]),
                };
            }
            #problems
            #symbols
        };
        #methods
    }
}

fn layout_of(input: &Struct, field: &Field, private: &TokenStream) -> TokenStream {
    let (ident, Field { ident: field_ident, name, shape, .. }) = (&input.ident, field);
    let lengths = &shape.lengths;
    let (item, span) = (&shape.item, shape.item.span());
    // At the type, for this is what says that the trait is not implemented.
    let item = quote_spanned!(span=> <#item as #private::FieldType>::ITEM);
    quote! {
        #private::Field {
            name: ::std::borrow::Cow::Borrowed(#name),
            offset: ::core::mem::offset_of!(#ident, #field_ident) as ::core::primitive::u32,
            item: #item,
            lengths: ::std::borrow::Cow::Borrowed(&[#((#lengths) as ::core::primitive::u32),*]),
        }
    }
}

/// The errors that depend on sizes, each at the field that it is about.
fn problems(input: &Struct, private: &TokenStream) -> TokenStream {
    let (ident, pad) = (&input.ident, input.pad());
    let layout = quote!(<#ident as #private::Tiling>::LAYOUT);
    let fields = input.fields.iter().enumerate().map(|(index, field)| {
        let rust = &field.rust;
        let problem = quote!(#private::field_problem(#layout, #index, #rust, #pad));
        refuse(field.ident.span(), &problem)
    });
    let last = input.fields.last().map_or(ident.span(), |field| field.ident.span());
    let size = quote!(::core::mem::size_of::<#ident>());
    let too_large = refuse(ident.span(), &quote!(#private::size_problem(#layout, #size)));
    let tail = refuse(last, &quote!(#private::tail_problem(#layout, #size, #pad)));
    let promise = input.size.iter().map(|promised| {
        refuse(promised.span(), &quote!(#private::promise_problem(#size, #promised)))
    });
    quote! { #(#fields)* #too_large #tail #(#promise)* }
}

/// A compile error at `span` if there is a problem.
fn refuse(span: proc_macro2::Span, problem: &TokenStream) -> TokenStream {
    quote_spanned! {span=>
        const _: () = if let ::core::option::Option::Some(problem) = #problem {
            ::core::panic!("{}", problem.as_str())
        };
    }
}

/// Checks the values of a field: its range, and whatever the structs in it check.
fn check(field: &Field, of: &Ident, private: &TokenStream) -> TokenStream {
    let Field { ident, shape, .. } = field;
    let item = &shape.item;
    let within = range(field, of, private);
    let one = quote! {
        #within
        <#item as #private::FieldType>::check_value(value)?;
    };
    for_each(shape.lengths.len(), quote!(&self.#ident), &one)
}

/// Does `body` with each element of a field, as `value`.
fn for_each(depth: usize, of: TokenStream, body: &TokenStream) -> TokenStream {
    let mut inner = body.clone();
    for _ in 0..depth {
        inner = quote!(for value in value { #inner });
    }
    quote!({ let value = #of; #inner })
}

/// Refuses a `value` out of range.
fn range(field: &Field, of: &Ident, private: &TokenStream) -> Option<TokenStream> {
    let (range, rust) = (field.range.as_ref()?, &field.rust);
    let (text, of) = (field.bounds()?, of.unraw().to_string());
    Some(quote_spanned! {range.span()=>
        if !::core::ops::RangeBounds::contains(&(#range), value) {
            return ::core::result::Result::Err(#private::out_of_range(#of, #rust, value, #text));
        }
    })
}

/// The setters of fields with a range, and the offsets of the communication members.
fn methods(input: &Struct, private: &TokenStream) -> TokenStream {
    let Struct { ident, visibility, fields, .. } = input;
    let setters = fields.iter().filter_map(|field| {
        let within = range(field, ident, private)?;
        let Field { ident, ty, rust, shape, .. } = field;
        let setter = format_ident!("set_{rust}", span = ident.span());
        let bounds = field.bounds()?;
        let each = if shape.lengths.is_empty() { "" } else { "each element of " };
        let doc = format!("Sets `{rust}`.\n\n# Errors\n\nUnless {each}the value lies in `{bounds}`; then nothing is changed.");
        let check = for_each(shape.lengths.len(), quote!(&value), &within);
        Some(quote! {
            #[doc = #doc]
            #[allow(dead_code, reason = "a program may set the field itself")]
            #visibility fn #setter(&mut self, value: #ty) -> #private::Result<&mut Self> {
                #check
                self.#ident = value;
                ::core::result::Result::Ok(self)
            }
        })
    });
    let members = fields
        .iter()
        .filter(|field| field.shape.name() == "Mc2CcTiling" && field.shape.lengths.is_empty());
    let offsets = members.map(|field| {
        let Field { ident: member, rust, .. } = field;
        let constant = format_ident!("{}_OFFSET", rust.to_uppercase(), span = member.span());
        let doc = format!("Where `{rust}` is, in bytes: what `SetCcTilingV2` takes for it.");
        quote! {
            #[doc = #doc]
            #[allow(dead_code, reason = "a program may need none of them")]
            #visibility const #constant: ::core::primitive::u64 = ::core::mem::offset_of!(#ident, #member) as ::core::primitive::u64;
        }
    });
    quote! {
        impl #ident {
            #(#setters)*
            #(#offsets)*
        }
    }
}
