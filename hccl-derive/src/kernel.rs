//! `#[kernel]`: names, and what records the function.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::Parser;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Block, Error, Expr, FnArg, GenericParam, Ident, ItemFn, LitStr, Pat, Path, Result, ReturnType,
    Stmt, Type,
};

/// What the attribute says.
struct Options {
    /// The variant of `Mix`; none for a helper.
    mix: Option<Ident>,
    /// Where `hccl` is.
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
    fn read(attribute: TokenStream, of: &Ident) -> Result<Options> {
        let (mut mix, mut inline, mut root) = (None, false, syn::parse_quote!(::hccl));
        let all = || MIXES.map(|(name, _)| format!("\"{name}\"")).join(", ");
        let parser = syn::meta::parser(|meta| {
            if meta.path.is_ident("mix") {
                let text: LitStr = meta.value()?.parse()?;
                let known = MIXES.iter().find(|(name, _)| *name == text.value());
                let Some((_, variant)) = known else {
                    return Err(Error::new(text.span(), format!("`mix` is one of {}", all())));
                };
                mix = Some(Ident::new(variant, text.span()));
            } else if meta.path.is_ident("inline") {
                inline = true;
            } else if meta.path.is_ident("crate") {
                root = meta.value()?.call(Path::parse_mod_style)?;
            } else {
                return Err(meta.error("`kernel` takes `mix` or `inline`, and `crate`"));
            }
            Ok(())
        });
        parser.parse2(attribute)?;
        if inline == mix.is_some() {
            let problem = format!(
                "which cores run `{of}`? Write `#[kernel(mix = ..)]` with one of {}, or `#[kernel(inline)]` for a function that kernels call",
                all()
            );
            return Err(Error::new(of.span(), problem));
        }
        Ok(Options { mix, root })
    }
}

pub fn expand(attribute: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let mut function: ItemFn = syn::parse2(item)?;
    let Options { mix, root } = Options::read(attribute, &function.sig.ident)?;
    let private = quote!(#root::kernel::__private);
    Namer { private: private.clone() }.visit_block_mut(&mut function.block);
    let Some(mix) = mix else { return Ok(quote!(#function)) };
    let arguments = arguments(&function)?;

    let ident = &function.sig.ident;
    let name = ident.unraw().to_string();
    let (first, rest) = match arguments.split_first() {
        Some(((_, first), rest)) => (*first, rest),
        None => return Err(Error::new(ident.span(), FIRST)),
    };
    let rest = rest.iter().map(|(argument, ty)| {
        let name = argument.unraw().to_string();
        quote_spanned!(ty.span()=> <#ty as #private::Argument>::declare(start, #name, here))
    });
    let visibility = &function.vis;
    let conditions = function.attrs.iter().filter(|attribute| attribute.path().is_ident("cfg"));
    let conditions: Vec<_> = conditions.collect();
    let generics = &function.sig.generics;
    let (parameters, where_clause) = (&generics.params, &generics.where_clause);
    let given = parameters.iter().filter_map(|parameter| match parameter {
        GenericParam::Type(ty) => Some(&ty.ident),
        GenericParam::Const(constant) => Some(&constant.ident),
        GenericParam::Lifetime(_) => None,
    });
    let doc = format!(
        "The kernel [`{name}`](fn@{name}): [`record`](Self::record) makes a program of it."
    );
    let here = quote_spanned!(ident.span()=> #private::here());
    // At the type, which is what an error is about.
    let tiling = quote_spanned!(first.span()=> <#first as #private::First>::Tiling);
    Ok(quote! {
        #function

        #(#conditions)*
        #[doc = #doc]
        #[allow(non_camel_case_types, reason = "it goes with the function")]
        #visibility enum #ident {}

        #(#conditions)*
        impl #ident {
            /// Runs the kernel once, to record it.
            ///
            /// # Errors
            ///
            /// Everything in the kernel that no product can do, with its lines.
            #visibility fn record<#parameters>() -> #private::Result<#tiling>
            #where_clause
            {
                let here = #here;
                #private::record::<#first>(#name, #private::Mix::#mix, here, |start, k| {
                    #ident::<#(#given),*>(k #(, #rest)*)
                })
            }
        }
    })
}

const FIRST: &str =
    "the first argument of a kernel is `k: Kernel<T>` with its tiling struct, or `k: Kernel`";

/// Names and types of the arguments.
fn arguments(function: &ItemFn) -> Result<Vec<(&Ident, &Type)>> {
    let signature = &function.sig;
    let refused = [
        (signature.asyncness.map(|token| token.span), "a kernel is not `async`: it only records"),
        (signature.constness.map(|token| token.span), "a kernel is not `const`: it records"),
        (signature.unsafety.map(|token| token.span), "a kernel is not `unsafe`: it only records"),
    ];
    for (span, problem) in refused {
        if let Some(span) = span {
            return Err(Error::new(span, problem));
        }
    }
    if let ReturnType::Type(_, ty) = &signature.output {
        let problem = "a kernel returns nothing: results go into its outputs";
        return Err(Error::new(ty.span(), problem));
    }
    let arguments = signature.inputs.iter().map(|argument| match argument {
        FnArg::Receiver(receiver) => Err(Error::new(receiver.span(), FIRST)),
        FnArg::Typed(typed) => match &*typed.pat {
            Pat::Ident(pattern) if pattern.subpat.is_none() => Ok((&pattern.ident, &*typed.ty)),
            pattern => Err(Error::new(pattern.span(), "an argument of a kernel has a name")),
        },
    });
    arguments.collect()
}

/// Gives what `let` binds its name, behind the `let`; all else stays as it is.
struct Namer {
    private: TokenStream,
}

/// Methods whose closure has a parameter that takes its name.
const LOOPS: [&str; 4] = ["range", "range_by", "iterate", "iterate_to_send"];

impl Namer {
    fn names(&self, pattern: &Pat) -> Vec<Stmt> {
        let mut idents = Vec::new();
        bound(pattern, &mut idents);
        let private = &self.private;
        let name = |ident: &Ident| {
            let name = ident.unraw().to_string();
            if name.starts_with('_') || !name.is_ascii() {
                return None;
            }
            let call = quote_spanned!(ident.span()=> (&#ident).__name(#name););
            syn::parse2(quote!({
                #[allow(unused_imports, reason = "which of them depends on the type")]
                use #private::{Named as _, Nameless as _};
                #call
            }))
            .ok()
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
                Stmt::Local(local) if local.init.is_some() => self.names(&local.pat),
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
        let Some(names) = closure.inputs.first().map(|pattern| self.names(pattern)) else { return };
        if !names.is_empty() {
            let body = &closure.body;
            let body = syn::parse_quote_spanned!(body.span()=> { #(#names)* #body });
            *closure.body = body;
        }
    }

    // Items inside of a kernel are ordinary Rust.
    fn visit_item_mut(&mut self, _: &mut syn::Item) {}
}

/// The names that a pattern binds by value.
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
