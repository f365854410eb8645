//! Generates the code of the derive: the layout, the checks, the setters and the offsets.
//!
//! The code is placed among the names of a program, which may be any names. So:
//!
//! - All of it is in one block. The block has one name for `hccl`, `__hccl`. Through that name it
//!   also reaches the standard library. A wrong `crate = path` is an error of that one line.
//! - Names that the block declares begin with `__hccl`, `__Hccl` or `__HCCL`. That includes locals
//!   and arguments: a pattern that is a single name would mean a constant of the program if there
//!   is one of that name.
//! - Methods are called by their path, because a trait of the program may have methods of the same
//!   name.
//!
//! Each mistake is reported once. A constant states whether the type of a field fits. If it does
//! not fit, the compiler refuses the constant, at the field. The types of the symbols depend on
//! that constant, and the compiler reports no errors that depend on a refused constant.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Error, Expr, GenericParam, Ident, Type};

use crate::input::{Field, Range, Struct};
use crate::types::{compact, without_self};

/// Returns the output of the derive. `refused` has the reasons to refuse the struct, if there are
/// any.
pub fn expand(input: &Struct, refused: Option<&Error>) -> TokenStream {
    if let (true, Some(error)) = (input.is_beyond_us, refused) {
        return error.to_compile_error();
    }
    let (ident, root) = (&input.ident, &input.root);
    // The checks are constants, which cannot use the parameters of the struct.
    let checkable = input.generics.params.is_empty();
    let checks = input.fields.iter().enumerate().filter(|_| checkable);
    let checks = checks.map(|(index, field)| check(ident, index, field));
    let traits = traits(input, refused);
    let methods = methods(input);
    let rest = match refused {
        Some(error) => crate::symbols::refused(input, error),
        None => {
            let (symbols, fields) = (crate::symbols::expand(input), all_fields(input));
            let problems = problems(input);
            quote!(#symbols #fields #problems)
        }
    };
    quote! {
        #[allow(clippy::undocumented_unsafe_blocks, reason = "see `problems`")]
        const _: () = {
            #[allow(unused_imports, reason = "a struct may need only one of them")]
            use #root::kernel::__private::{self as __hccl, Unfit as _};
            #(#checks)*
            #traits
            #methods
            #rest
        };
    }
}

/// Returns the name of the constant that is true if the type of a field fits.
pub fn fits(index: usize) -> Ident {
    format_ident!("__HCCL_FITS_{index}")
}

/// Returns the name of the constant with the range of a field.
fn range(index: usize) -> Ident {
    format_ident!("__HCCL_RANGE_{index}")
}

/// Returns a type of the program as code that is valid outside of the struct.
pub fn of_program(ty: &Type, of: &Struct) -> TokenStream {
    without_self(ty.to_token_stream(), &of.ident)
}

/// Makes a compile error at `span` if the condition holds.
fn refuse(span: Span, condition: &TokenStream, text: &str) -> TokenStream {
    quote_spanned! {span=> if #condition { __hccl::core::panic!("{}", #text) } }
}

/// Makes the checks of a single field: whether its type fits, whether its arrays have elements, and
/// whether its range is valid.
fn check(of: &Ident, index: usize, field: &Field) -> Option<TokenStream> {
    let shape = field.shape.as_ref()?;
    let (item, fits) = (without_self(shape.item.to_token_stream(), of), fits(index));
    let span = shape.item.span();
    let misfit = quote!(!__hccl::Type::<#item>::__HCCL_FITS);
    let misfit = refuse(span, &misfit, &shape.misfit());
    let lengths = shape.lengths.iter().map(|length| {
        let text =
            format!("`{}` is an array of length 0, which C++ does not have: remove it", field.rust);
        let is_zero = without_self(length.to_token_stream(), of);
        let refuse = refuse(length.span(), &quote!(__hccl::length(#is_zero) == 0), &text);
        quote!(const _: () = { #refuse };)
    });
    let bounds = match &field.range {
        Some(Range::Good(bounds)) => Some(bounds_of(of, index, &item, bounds)),
        Some(Range::Refused) | None => None,
    };
    Some(quote! {
        const #fits: __hccl::core::primitive::bool = {
            #misfit
            true
        };
        #(#lengths)*
        #bounds
    })
}

/// Makes the constant with the ends of a range, which are constants of the type of the field.
fn bounds_of(of: &Ident, index: usize, item: &TokenStream, bounds: &Expr) -> TokenStream {
    let (range, fits, span) = (range(index), fits(index), bounds.span());
    let text = format!("the range `{}` is empty: it contains no value", compact(bounds));
    let bounds = without_self(bounds.to_token_stream(), of);
    let item = quote!(<#item as __hccl::If<{ #fits }>>::Itself);
    let empty = quote!(__hccl::RangeBounds::is_empty(&__hccl_bounds));
    let refuse = refuse(span, &empty, &text);
    // All tokens have one place, so that the compiler reports the error only once.
    quote_spanned! {span=>
        const #range: __hccl::RangeBounds<#item> = {
            let __hccl_range = #bounds;
            let __hccl_bounds = __hccl::reader::<#item, _>(&__hccl_range).read(&__hccl_range);
            #refuse
            __hccl_bounds
        };
    }
}

/// Makes the implementations of the traits, with the layout and the checks of values.
fn traits(input: &Struct, refused: Option<&Error>) -> TokenStream {
    let Struct { name, namespace, docs, fields, .. } = input;
    let (parameters, of) = target(input);
    let described = fields.iter().enumerate().filter(|_| refused.is_none());
    let (mut layouts, mut checks) = (Vec::new(), Vec::new());
    for (index, field) in described {
        layouts.push(layout_of(input, index, field));
        checks.push(check_value(input, index, field));
    }
    quote! {
        unsafe impl #parameters __hccl::FieldType for #of {
            const ITEM: __hccl::Item = __hccl::Item::Struct(
                __hccl::Cow::Borrowed(<#of as __hccl::Tiling>::LAYOUT),
            );
            fn check_value(&self) -> __hccl::Result<()> {
                #(#checks)*
                __hccl::core::result::Result::Ok(())
            }
        }
        unsafe impl #parameters __hccl::Tiling for #of {
            const LAYOUT: &'static __hccl::Layout = &__hccl::Layout {
                name: __hccl::Cow::Borrowed(#name),
                namespace: __hccl::Cow::Borrowed(#namespace),
                doc: __hccl::Cow::Borrowed(#docs),
                role: __hccl::Role::User,
                size: __hccl::core::mem::size_of::<#of>() as __hccl::core::primitive::u32,
                align: __hccl::core::mem::align_of::<#of>() as __hccl::core::primitive::u32,
                fields: __hccl::Cow::Borrowed(&[#(#layouts),*]),
            };
        }
    }
}

/// Returns the parameters of an implementation, and its type. Only a refused struct has parameters.
pub fn target(input: &Struct) -> (TokenStream, TokenStream) {
    let ident = &input.ident;
    if input.generics.params.is_empty() {
        return (TokenStream::new(), quote!(#ident));
    }
    let given = input.generics.params.iter().map(|parameter| match parameter {
        GenericParam::Lifetime(_) => quote!('static),
        GenericParam::Type(ty) => ty.ident.to_token_stream(),
        GenericParam::Const(constant) => {
            let name = &constant.ident;
            quote!({ #name })
        }
    });
    let parameters = input.generics.params.iter().filter_map(|parameter| match parameter {
        GenericParam::Lifetime(_) => None,
        GenericParam::Type(ty) => {
            let (name, bounds) = (&ty.ident, ty.bounds.iter());
            Some(quote!(#name: 'static #(+ #bounds)*))
        }
        GenericParam::Const(constant) => {
            let (name, ty) = (&constant.ident, &constant.ty);
            Some(quote!(const #name: #ty))
        }
    });
    (quote!(<#(#parameters),*>), quote!(#ident<#(#given),*>))
}

fn layout_of(input: &Struct, index: usize, field: &Field) -> Option<TokenStream> {
    let (ident, Field { ident: field_ident, name, docs, shape, .. }) = (&input.ident, field);
    let shape = shape.as_ref()?;
    let (item, fits) = (of_program(&shape.item, input), fits(index));
    let lengths = shape.lengths.iter().map(|length| without_self(length.to_token_stream(), ident));
    Some(quote! {
        __hccl::Field {
            name: __hccl::Cow::Borrowed(#name),
            doc: __hccl::Cow::Borrowed(#docs),
            offset: __hccl::core::mem::offset_of!(#ident, #field_ident) as __hccl::core::primitive::u32,
            // If a field does not fit, the layout is an error, too.
            item: { let _ = #fits; __hccl::Type::<#item>::__HCCL_ITEM },
            lengths: __hccl::Cow::Borrowed(&[#(__hccl::length(#lengths)),*]),
        }
    })
}

/// Makes the compiler check that these are all the fields, and that these are their types.
fn all_fields(input: &Struct) -> TokenStream {
    let ident = &input.ident;
    let names: Vec<&Ident> = input.fields.iter().map(|field| &field.ident).collect();
    let types = input.fields.iter().map(|field| of_program(&field.ty, input));
    quote! {
        #[allow(dead_code, reason = "it only has to compile")]
        fn __hccl_fields(__hccl_struct: &#ident) {
            let #ident { #(#names: _),* } = __hccl_struct;
            #(let _: &#types = &__hccl_struct.#names;)*
        }
    }
}

/// Makes the errors that depend on sizes, each at the field that causes it.
fn problems(input: &Struct) -> TokenStream {
    let (ident, pad) = (&input.ident, input.pad());
    let layout = quote!(<#ident as __hccl::Tiling>::LAYOUT);
    let fields = input.fields.iter().enumerate().map(|(index, field)| {
        let rust = &field.rust;
        problem(field.ident.span(), &quote!(__hccl::field_problem(#layout, #index, #rust, #pad)))
    });
    let last = input.fields.last().map_or(ident.span(), |field| field.ident.span());
    let size = quote!(__hccl::core::mem::size_of::<#ident>());
    let too_large = problem(ident.span(), &quote!(__hccl::size_problem(#layout, #size)));
    let tail = problem(last, &quote!(__hccl::tail_problem(#layout, #size, #pad)));
    let promise = input.size.iter().map(|promised| {
        // The size comes from the layout, which does not exist if a field does not fit. Then the
        // size is not known.
        let size = quote!(#layout.size as __hccl::core::primitive::usize);
        problem(promised.span(), &quote!(__hccl::promise_problem(#size, #promised)))
    });
    quote! { #(#fields)* #too_large #tail #(#promise)* }
}

/// Makes a compile error at `span` if there is a problem.
fn problem(span: Span, problem: &TokenStream) -> TokenStream {
    quote_spanned! {span=>
        const _: () = if let __hccl::core::option::Option::Some(__hccl_problem) = #problem {
            __hccl::core::panic!("{}", __hccl::Message::as_str(&__hccl_problem))
        };
    }
}

/// Makes the check of a field's values: their range, and the checks of the structs in them.
fn check_value(input: &Struct, index: usize, field: &Field) -> Option<TokenStream> {
    let (ident, shape) = (&field.ident, field.shape.as_ref()?);
    let item = of_program(&shape.item, input);
    let within = check_range(input, index, field);
    let one = quote! {
        #within
        __hccl::Type::<#item>::__hccl_check(__hccl_value)?;
    };
    Some(for_each(shape.lengths.len(), &quote!(&self.#ident), &one))
}

/// Makes loops that run `body` for each element of a field, as `__hccl_value`. `depth` is the
/// number of array dimensions.
fn for_each(depth: usize, of: &TokenStream, body: &TokenStream) -> TokenStream {
    let mut inner = body.clone();
    for _ in 0..depth {
        inner = quote!(for __hccl_value in __hccl_value { #inner });
    }
    quote!({ let __hccl_value = #of; #inner })
}

/// Makes the check that `__hccl_value` is in the range of the field.
fn check_range(input: &Struct, index: usize, field: &Field) -> Option<TokenStream> {
    let (Some(Range::Good(bounds)), Some(_)) = (&field.range, &field.shape) else { return None };
    let (range, of, rust) = (range(index), input.ident.unraw().to_string(), &field.rust);
    let text = compact(bounds);
    Some(quote!(__hccl::RangeBounds::check(&#range, __hccl_value, #of, #rust, #text)?;))
}

/// Makes the setters of fields with a range, and the offsets of the communication members.
fn methods(input: &Struct) -> TokenStream {
    let Struct { ident, visibility, fields, generics, .. } = input;
    let setters = fields.iter().enumerate().filter_map(|(index, field)| {
        let bounds = match field.range.as_ref()? {
            Range::Good(bounds) => compact(bounds),
            Range::Refused => String::new(),
        };
        let Field { ident, ty, rust, shape, .. } = field;
        let setter = format_ident!("set_{rust}", span = ident.span());
        let depth = shape.as_ref().map_or(0, |shape| shape.lengths.len());
        let each = if depth == 0 { "" } else { "each element of " };
        let doc = format!("Sets `{rust}`.\n\n# Errors\n\nIf {each}the value is outside of `{bounds}`; then nothing is changed.");
        let within = check_range(input, index, field).filter(|_| generics.params.is_empty());
        let check = within.map(|within| for_each(depth, &quote!(&__hccl_value), &within));
        Some(quote! {
            #[doc = #doc]
            #[allow(dead_code, reason = "a program may set the field itself")]
            #visibility fn #setter(&mut self, __hccl_value: #ty) -> __hccl::Result<&mut Self> {
                #check
                self.#ident = __hccl_value;
                __hccl::core::result::Result::Ok(self)
            }
        })
    });
    let offsets = fields.iter().filter_map(|field| {
        let Field { ident: member, rust, .. } = field;
        let constant = Ident::new(field.constant.as_ref()?, member.span());
        let doc = format!("The offset of `{rust}` in bytes, which `SetCcTilingV2` takes.");
        Some(quote! {
            #[doc = #doc]
            #[allow(dead_code, reason = "a program may need none of them")]
            #visibility const #constant: __hccl::core::primitive::u64 = __hccl::core::mem::offset_of!(Self, #member) as __hccl::core::primitive::u64;
        })
    });
    let (parameters, given, clause) = generics.split_for_impl();
    quote! {
        impl #parameters #ident #given #clause {
            #(#setters)*
            #(#offsets)*
        }
    }
}
