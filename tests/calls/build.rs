//! Makes two lists. One has all functions of the C ABI, with their parameters and a way to call
//! each, from the table in `ascend-sys/src/functions.rs`, which is made from the headers. The other
//! has the values of all enums, from `bindings.rs`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use quote::ToTokens;
use syn::{Expr, GenericArgument, ImplItem, Item, Lit, PathArguments, Type, TypeBareFn};

fn main() {
    let sources = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"))
        .join("../../ascend-sys/src");
    let read = |name: &str| {
        let path = sources.join(name);
        println!("cargo:rerun-if-changed={}", path.display());
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        syn::parse_file(&text).expect("it is Rust")
    };
    println!("cargo:rerun-if-changed=build.rs");
    let mut text =
        String::from("/// Every function of the table.\npub static FUNCTIONS: &[Function] = &[\n");
    for item in read("functions.rs").items {
        let Item::Struct(table) = item else { continue };
        for field in table.fields {
            let name = field.ident.expect("a field has a name").to_string();
            entry(&mut text, &name, function(&field.ty));
        }
    }
    text += "];\n\n/// The values of every enum of C.\npub static ENUMS: &[(&str, &[i64])] = &[\n";
    let mut enums: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for item in read("bindings.rs").items {
        let Item::Impl(item) = item else { continue };
        if item.trait_.is_some() {
            continue;
        }
        for constant in &item.items {
            let ImplItem::Const(constant) = constant else { continue };
            let Expr::Call(call) = &constant.expr else { continue };
            enums.entry(tokens(&item.self_ty)).or_default().push(number(&call.args[0]));
        }
    }
    for (name, values) in enums {
        writeln!(text, "    ({name:?}, &{values:?}),").expect("it grows");
    }
    text += "];\n";
    let out = env::var("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&out).join("functions.rs"), text).expect("the list can be written");
}

/// Returns the function type in `Option<unsafe extern "C" fn(...)>`.
fn function(ty: &Type) -> &TypeBareFn {
    let Type::Path(option) = ty else { panic!("{} is no option", tokens(ty)) };
    let last = option.path.segments.last().expect("a path has segments");
    let PathArguments::AngleBracketed(arguments) = &last.arguments else {
        panic!("{} is no option", tokens(ty))
    };
    match arguments.args.first() {
        Some(GenericArgument::Type(Type::BareFn(function))) => function,
        _ => panic!("{} holds no function", tokens(ty)),
    }
}

fn entry(text: &mut String, name: &str, function: &TypeBareFn) {
    let mut parameters = String::new();
    for input in &function.inputs {
        let ty = tokens(&input.ty);
        let name = input.name.as_ref().map_or(String::new(), |(name, _)| name.to_string());
        let short = ty.replace("::core::ffi::", "");
        let pointee = match &input.ty {
            Type::Ptr(pointer) if tokens(&pointer.elem) != "::core::ffi::c_void" => {
                format!("size_of::<{}>()", pointer.elem.to_token_stream())
            }
            _ => "0".to_owned(),
        };
        write!(
            parameters,
            "Parameter {{ name: {name:?}, ty: {short:?}, size: size_of::<{ty}>(), pointee: {pointee} }}, ",
            ty = input.ty.to_token_stream(),
        )
        .expect("it grows");
    }
    let values: Vec<String> =
        (0..function.inputs.len()).map(|at| format!("values[{at}].take()")).collect();
    writeln!(
        text,
        "    Function {{ name: {name:?}, parameters: &[{parameters}],\n        \
         is_there: |table| table.{name}.is_some(),\n        \
         // SAFETY: the caller's, for these values.\n        \
         call: |table, {values_name}| table.{name}.map(|function| unsafe {{ function({}) }}.into()) }},",
        values.join(", "),
        values_name = if values.is_empty() { "_" } else { "values" },
    )
    .expect("it grows");
}

fn number(value: &Expr) -> i64 {
    match value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(number) => number.base10_parse().expect("it fits"),
            other => panic!("{} is no integer", tokens(other)),
        },
        Expr::Unary(minus) => -number(&minus.expr),
        other => panic!("{} is no number", tokens(other)),
    }
}

/// Returns the source text of a node, with spaces only after `*mut` and `*const`.
fn tokens(of: &impl ToTokens) -> String {
    let text: String = of.to_token_stream().to_string().split(' ').collect();
    text.replace("*mut", "*mut ").replace("*const", "*const ")
}
