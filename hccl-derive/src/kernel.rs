//! `#[kernel]`: the names of a kernel, and the function that records it.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Block, Error, Expr, FnArg, GenericParam, Generics, Ident, ItemFn, Pat, Path, ReturnType, Stmt,
    Type,
};

use crate::attributes::{self, Errors};
use crate::types::compact;

/// The options of the attribute.
struct Options {
    /// The variant of `Mix`; `None` for a function that kernels call.
    mix: Option<Ident>,
    /// The path of `hccl`.
    root: Path,
}

const MIXES: [(&str, &str); 6] = [
    ("aiv_only", "AivOnly"),
    ("aic_only", "AicOnly"),
    ("aiv_1_0", "MixAiv10"),
    ("aic_1_0", "MixAic10"),
    ("aic_1_1", "MixAic11"),
    ("aic_1_2", "MixAic12"),
];

impl Options {
    fn read(attribute: TokenStream, of: &Ident, errors: &mut Errors) -> Options {
        let mut options = Options { mix: None, root: syn::parse_quote!(::hccl) };
        let all = MIXES.map(|(name, _)| format!("\"{name}\"")).join(", ");
        let good_so_far = errors.0.is_none();
        let mut inline = false;
        for entry in attributes::entries(attribute, errors) {
            if entry.key == "mix" {
                let Some(text) = errors.keep(entry.text("mix = \"aiv_1_0\"")) else { continue };
                match MIXES.iter().find(|(name, _)| *name == text.value()) {
                    Some((_, variant)) => options.mix = Some(Ident::new(variant, text.span())),
                    None => errors
                        .say(text.span(), format!("`mix` is one of {all}: write one of these")),
                }
            } else if entry.key == "inline" {
                inline = true;
                errors.keep(entry.alone());
            } else if entry.key == "crate" {
                if let Some(root) = errors.keep(entry.path("crate = ::hccl")) {
                    options.root = root;
                }
            } else {
                errors.say(
                    entry.key.span(),
                    "`kernel` takes `mix` or `inline`, and `crate`: leave everything else out",
                );
            }
        }
        if inline && options.mix.is_some() {
            let problem = "`inline` is for a function that kernels call, which runs on their cores: leave `mix` or `inline` out";
            errors.say(of.span(), problem);
        } else if !inline && options.mix.is_none() && good_so_far && errors.0.is_none() {
            let problem = format!(
                "which cores run `{of}`? Write `#[kernel(mix = ..)]` with one of {all}, or `#[kernel(inline)]` for a function that kernels call"
            );
            errors.say(of.span(), problem);
        }
        options
    }
}

/// Expands to the function, and to the function that records it.
pub fn expand(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let Ok(mut function) = syn::parse2::<ItemFn>(item.clone()) else {
        let problem = "`kernel` is for functions only: write it above a function";
        let error = Error::new(Span::call_site(), problem).into_compile_error();
        return quote!(#error #item);
    };
    let mut errors = Errors::default();
    let Options { mix, root } = Options::read(attribute, &function.sig.ident, &mut errors);
    Namer.visit_block_mut(&mut function.block);
    let names: Stmt = syn::parse_quote! {
        #[allow(unused_imports, reason = "which of them depends on the types")]
        use #root::kernel::__private::{Named as _, Nameless as _};
    };
    function.block.stmts.insert(0, names);
    let Some(mix) = mix else {
        return match errors.0 {
            None => called(function, &root),
            Some(error) => refused(&function, &root, &error),
        };
    };
    let arguments = arguments(&function, &mut errors);
    let (first, rest) = match (errors.0, arguments.split_first()) {
        (None, Some(((_, first), rest))) => (*first, rest),
        (error, _) => {
            let none = || Error::new(function.sig.ident.span(), FIRST);
            return refused(&function, &root, &error.unwrap_or_else(none));
        }
    };
    let ident = &function.sig.ident;
    let name = ident.unraw().to_string();
    let rest = rest.iter().map(|(argument, ty)| {
        let name = argument.unraw().to_string();
        quote_spanned! {ty.span()=>
            <#ty as __hccl::Argument>::declare(__hccl_recording, #name, __hccl_here)
        }
    });
    let generics = &function.sig.generics;
    let (parameters, where_clause) = (&generics.params, &generics.where_clause);
    let given = parameters.iter().filter_map(|parameter| match parameter {
        GenericParam::Type(ty) => Some(ty.ident.to_token_stream()),
        GenericParam::Const(constant) => {
            // Without the braces the name could mean a type of the program.
            let name = &constant.ident;
            Some(quote!({ #name }))
        }
        GenericParam::Lifetime(_) => None,
    });
    let here = quote_spanned!(ident.span()=> __hccl::here());
    let (check, first) = first_argument(first, generics);
    let visibility = &function.vis;
    let docs = crate::docs::text(&function.attrs);
    let record = quote! {
        /// Runs the kernel once, to record it.
        ///
        /// # Errors
        ///
        /// Lists everything in the kernel that no product can do, with its lines.
        #visibility fn record<#parameters>() -> __hccl::RecordResult<<#first as __hccl::First>::Tiling>
        #where_clause
        {
            let __hccl_here = #here;
            __hccl::record::<#first>(
                (#name, #docs),
                __hccl::Mix::#mix,
                __hccl_here,
                |__hccl_recording, __hccl_kernel| {
                    #ident::<#(#given),*>(__hccl_kernel #(, #rest)*)
                },
            )
        }
    };
    let names = quote! {
        #[allow(unused_imports, reason = "what has parameters is checked where it is used")]
        use #root::kernel::__private::{self as __hccl, Unfit as _};
        #check
    };
    with_record(&function, &names, &record)
}

/// Expands a function that kernels call, so that its steps are recorded as a call. The body becomes
/// a closure. Otherwise the calls in it would be recorded with the line of the caller, because the
/// function tracks its caller.
fn called(mut function: ItemFn, root: &Path) -> TokenStream {
    let signature = &function.sig;
    let (name, docs) = (signature.ident.unraw().to_string(), crate::docs::text(&function.attrs));
    if !name.is_ascii() || signature.constness.is_some() || signature.asyncness.is_some() {
        return quote!(#function);
    }
    let body = &function.block;
    let output = match &signature.output {
        ReturnType::Type(arrow, ty) if is_nameable(ty) => quote!(#arrow #ty),
        _ => TokenStream::new(),
    };
    function.block = syn::parse_quote!({
        let __hccl_call = #root::kernel::__private::call(#name, #docs);
        #[allow(clippy::redundant_closure_call, reason = "so that its steps have their own lines")]
        let __hccl_result = (move || #output #body)();
        ::core::mem::drop(__hccl_call);
        __hccl_result
    });
    let tracks = |attribute: &syn::Attribute| attribute.path().is_ident("track_caller");
    if !function.attrs.iter().any(tracks) {
        function.attrs.push(syn::parse_quote!(#[track_caller]));
    }
    quote!(#function)
}

/// Returns whether a type can be the result type of a closure.
fn is_nameable(ty: &Type) -> bool {
    struct Opaque(bool);
    impl VisitMut for Opaque {
        fn visit_type_impl_trait_mut(&mut self, _: &mut syn::TypeImplTrait) {
            self.0 = true;
        }
    }
    let mut opaque = Opaque(false);
    opaque.visit_type_mut(&mut ty.clone());
    !opaque.0
}

/// Returns the check of the first argument's type, and the type itself. If the type is refused, the
/// compiler reports nothing more about it.
fn first_argument(ty: &Type, generics: &Generics) -> (TokenStream, TokenStream) {
    if !generics.params.is_empty() {
        // A constant cannot use the parameters of the function.
        return (TokenStream::new(), ty.to_token_stream());
    }
    let text = format!("{FIRST}, and `T` has `#[derive(Tiling)]`: not `{}`", compact(ty));
    let check = quote_spanned! {ty.span()=>
        const __HCCL_IS_FIRST: __hccl::core::primitive::bool = {
            if !__hccl::Type::<#ty>::__HCCL_IS_FIRST {
                __hccl::core::panic!("{}", #text)
            }
            true
        };
    };
    (check, quote!(<#ty as __hccl::FirstIf<{ __HCCL_IS_FIRST }>>::Itself))
}

/// Expands a function that is refused. The function and its `record` are kept, so that the compiler
/// does not report their uses as well.
fn refused(function: &ItemFn, root: &Path, error: &Error) -> TokenStream {
    if function.sig.receiver().is_some() {
        // The function is in an `impl` block, where no type can be declared.
        let errors = error.to_compile_error();
        return quote!(#function #errors);
    }
    let (errors, nothing) = crate::symbols::nothing(error);
    let signature = &function.sig;
    let (visibility, parameters) = (&function.vis, &signature.generics.params);
    let clause = &signature.generics.where_clause;
    let names = quote! {
        use #root::kernel::__private as __hccl;
        #errors
    };
    let record = quote! {
        #visibility fn record<#parameters>() -> #nothing #clause {
            loop {}
        }
    };
    with_record(function, &names, &record)
}

/// Expands to the function, and to a type of the same name that has the function `record`.
fn with_record(function: &ItemFn, names: &TokenStream, record: &TokenStream) -> TokenStream {
    let (ident, visibility) = (&function.sig.ident, &function.vis);
    let name = ident.unraw().to_string();
    let doc = format!(
        "The kernel [`{name}`](fn@{name}): [`record`](Self::record) makes a program of the function."
    );
    let conditions = function.attrs.iter().filter(|attribute| attribute.path().is_ident("cfg"));
    let conditions: Vec<_> = conditions.collect();
    quote! {
        #function

        #(#conditions)*
        #[doc = #doc]
        #[allow(non_camel_case_types, reason = "it goes with the function")]
        #visibility enum #ident {}

        #(#conditions)*
        const _: () = {
            #names
            impl #ident {
                #record
            }
        };
    }
}

const FIRST: &str =
    "the first argument of a kernel is `k: Kernel<T>` with its tiling struct, or `k: Kernel`";

/// Returns the names and types of the arguments.
fn arguments<'a>(function: &'a ItemFn, errors: &mut Errors) -> Vec<(&'a Ident, &'a Type)> {
    let signature = &function.sig;
    let refused = [
        (
            signature.asyncness.map(|token| token.span),
            "a kernel is not `async`: it only records, so remove `async`",
        ),
        (
            signature.constness.map(|token| token.span),
            "a kernel is not `const`: it records, so remove `const`",
        ),
        (
            signature.unsafety.map(|token| token.span),
            "a kernel is not `unsafe`: it only records, so remove `unsafe`",
        ),
    ];
    for (span, problem) in refused {
        if let Some(span) = span {
            errors.say(span, problem);
        }
    }
    if let ReturnType::Type(_, ty) = &signature.output {
        let problem = "a kernel returns nothing: write results to its outputs, and remove the \
                       return type";
        errors.add(Error::new_spanned(ty, problem));
    }
    let mut arguments = Vec::new();
    for argument in &signature.inputs {
        match argument {
            FnArg::Receiver(receiver) => errors.add(Error::new_spanned(receiver, FIRST)),
            FnArg::Typed(typed) => match (&*typed.pat, &*typed.ty) {
                (_, Type::ImplTrait(ty)) => {
                    let problem = "an argument of a kernel has a type with a name: write \
                                   `Input<E>` or `Output<E>`, with `E` a parameter of the kernel";
                    errors.add(Error::new_spanned(ty, problem));
                }
                (Pat::Ident(pattern), ty) if pattern.subpat.is_none() => {
                    arguments.push((&pattern.ident, ty));
                }
                (pattern, _) => {
                    errors.add(Error::new_spanned(
                        pattern,
                        "an argument of a kernel has a name: write `name: type`",
                    ));
                }
            },
        }
    }
    arguments
}

/// A visitor that inserts a statement after each `let`. The statement gives the variables of the
/// `let` their names in the program. The visitor also names the variables of loops, and leaves all
/// other code as it is.
struct Namer;

/// The methods that take a closure with a loop variable. The variable gets the name of the
/// closure's parameter.
const LOOPS: [&str; 4] = ["range", "range_by", "iterate", "iterate_to_send"];

impl Namer {
    fn names(pattern: &Pat) -> Vec<Stmt> {
        let mut idents = Vec::new();
        bound(pattern, &mut idents);
        let name = |ident: &Ident| {
            let name = ident.unraw().to_string();
            if name.starts_with('_') || !name.is_ascii() {
                return None;
            }
            // Two traits of `hccl` have this method, and every type implements one of the two. No
            // other trait has a method of that name.
            syn::parse2(quote_spanned!(ident.span()=> (&#ident).__hccl_name(#name);)).ok()
        };
        idents.into_iter().filter_map(name).collect()
    }
}

impl VisitMut for Namer {
    fn visit_block_mut(&mut self, block: &mut Block) {
        visit_mut::visit_block_mut(self, block);
        let mut statements = Vec::with_capacity(block.stmts.len());
        for statement in block.stmts.drain(..) {
            let names = match &statement {
                Stmt::Local(local) if local.init.is_some() => Self::names(&local.pat),
                _ => Vec::new(),
            };
            statements.push(statement);
            statements.extend(names);
        }
        block.stmts = statements;
    }

    fn visit_expr_method_call_mut(&mut self, call: &mut syn::ExprMethodCall) {
        visit_mut::visit_expr_method_call_mut(self, call);
        if !LOOPS.iter().any(|name| call.method == name) {
            return;
        }
        let Some(Expr::Closure(closure)) = call.args.last_mut() else { return };
        let Some(names) = closure.inputs.first().map(Self::names) else {
            return;
        };
        if !names.is_empty() {
            let body = &closure.body;
            let body = syn::parse_quote_spanned!(body.span()=> { #(#names)* #body });
            *closure.body = body;
        }
    }

    // Items inside of a kernel are ordinary Rust.
    fn visit_item_mut(&mut self, _: &mut syn::Item) {}
}

/// Collects the names that a pattern binds by value.
fn bound<'a>(pattern: &'a Pat, idents: &mut Vec<&'a Ident>) {
    match pattern {
        Pat::Ident(pattern) if pattern.by_ref.is_none() && pattern.subpat.is_none() => {
            idents.push(&pattern.ident);
        }
        Pat::Type(typed) => bound(&typed.pat, idents),
        Pat::Paren(inner) => bound(&inner.pat, idents),
        Pat::Tuple(tuple) => tuple.elems.iter().for_each(|part| bound(part, idents)),
        Pat::Slice(slice) => slice.elems.iter().for_each(|part| bound(part, idents)),
        Pat::Struct(fields) => fields.fields.iter().for_each(|field| bound(&field.pat, idents)),
        _ => {}
    }
}
