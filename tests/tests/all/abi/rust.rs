//! The declarations in `bindings.rs` and `functions.rs`, with types as text without spaces.
//!
//! `bindings.rs` itself asserts that its layouts are those of the compiled types, and does not
//! compile otherwise. So the layouts that are read from it can be compared with the data.

use std::collections::BTreeMap;

use quote::ToTokens;
use syn::{Expr, Fields, FnArg, ForeignItem, GenericArgument, Item, ItemImpl, Lit, Stmt, Type};

/// Everything that can be compared, by name.
#[derive(Default)]
pub struct Source {
    /// The functions that `bindings.rs` declares.
    pub imports: BTreeMap<String, Signature>,
    /// The fields of the table in `functions.rs`.
    pub fields: BTreeMap<String, Signature>,
    pub enums: BTreeMap<String, Enum>,
    /// The type and the value of each constant.
    pub constants: BTreeMap<String, (String, i128)>,
    pub aliases: BTreeMap<String, String>,
    pub records: BTreeMap<String, Record>,
    /// The layouts, by the words that bindgen gives to its assertions, such as
    /// `Size of HcclRootInfoDef`.
    pub layout: BTreeMap<String, u64>,
}

pub struct Signature {
    pub params: Vec<(String, String)>,
    /// The output type, or an empty text.
    pub output: String,
    pub variadic: bool,
}

#[derive(Default)]
pub struct Enum {
    pub representation: String,
    pub values: Vec<(String, i64)>,
}

pub struct Record {
    pub kind: &'static str,
    /// The name and the type of each field.
    pub fields: Vec<(String, String)>,
}

impl Source {
    pub fn load() -> Source {
        let mut source = Source::default();
        let bindings = include_str!("../../../../ascend-sys/src/bindings.rs");
        for item in syn::parse_file(bindings).expect("bindings.rs is Rust").items {
            source.take(item);
        }
        let functions = include_str!("../../../../ascend-sys/src/functions.rs");
        for item in syn::parse_file(functions).expect("functions.rs is Rust").items {
            let Item::Struct(table) = item else { continue };
            for field in table.fields {
                source.fields.insert(text(&field.ident), pointer(&field.ty));
            }
        }
        source
    }

    /// Returns the name of the structure behind a typedef.
    pub fn resolve<'a>(&'a self, name: &'a str) -> &'a str {
        self.aliases.get(name).map_or(name, String::as_str)
    }

    fn take(&mut self, item: Item) {
        match item {
            Item::Struct(item) => match &item.fields {
                // A newtype is an enum of C.
                Fields::Unnamed(fields) => {
                    let owner = self.enums.entry(text(&item.ident)).or_default();
                    owner.representation = text(&fields.unnamed[0].ty);
                }
                fields => self.record("struct", &item.ident, fields.iter()),
            },
            Item::Union(item) => self.record("union", &item.ident, item.fields.named.iter()),
            Item::Type(item) => {
                self.aliases.insert(text(&item.ident), text(&item.ty));
            }
            // `pub use self::HcclOpExpansionMode as HcclConfigTypeOpExpansionMode;`
            Item::Use(item) => {
                let syn::UseTree::Path(path) = &item.tree else { return };
                let syn::UseTree::Rename(alias) = &*path.tree else { return };
                self.aliases.insert(text(&alias.rename), text(&alias.ident));
            }
            Item::Impl(item) if item.trait_.is_none() => self.values(&item),
            Item::Const(item) => match &*item.expr {
                Expr::Block(block) => block.block.stmts.iter().for_each(|it| self.assertion(it)),
                value => {
                    let value = (text(&item.ty), number(value));
                    self.constants.insert(text(&item.ident), value);
                }
            },
            Item::Mod(module) => {
                for item in module.content.into_iter().flat_map(|(_, items)| items) {
                    let Item::ForeignMod(block) = item else { continue };
                    for item in block.items {
                        let ForeignItem::Fn(function) = item else { continue };
                        let sig = function.sig;
                        let params = sig.inputs.iter().map(|input| match input {
                            FnArg::Typed(input) => (text(&input.pat), text(&input.ty)),
                            FnArg::Receiver(_) => panic!("a method in an extern block"),
                        });
                        let signature = Signature {
                            params: params.collect(),
                            output: text(&sig.output).replace("->", ""),
                            variadic: sig.variadic.is_some(),
                        };
                        self.imports.insert(text(&sig.ident), signature);
                    }
                }
            }
            _ => {}
        }
    }

    fn record<'a>(
        &mut self,
        kind: &'static str,
        name: &syn::Ident,
        fields: impl Iterator<Item = &'a syn::Field>,
    ) {
        let fields = fields.map(|field| (text(&field.ident), text(&field.ty))).collect();
        self.records.insert(text(name), Record { kind, fields });
    }

    /// Reads values such as `impl HcclResult { pub const HCCL_SUCCESS: HcclResult = HcclResult(0);
    /// }`.
    fn values(&mut self, item: &ItemImpl) {
        for item_const in &item.items {
            let syn::ImplItem::Const(constant) = item_const else { continue };
            let Expr::Call(call) = &constant.expr else { continue };
            let value = i64::try_from(number(&call.args[0])).expect("enums have 32 bits");
            let owner = self.enums.entry(text(&item.self_ty)).or_default();
            owner.values.push((text(&constant.ident), value));
        }
    }

    /// Reads a size or offset: `["Size of HcclRootInfoDef"][size_of::<HcclRootInfoDef>() -
    /// 4108usize];`
    fn assertion(&mut self, statement: &Stmt) {
        let Stmt::Expr(Expr::Index(index), _) = statement else { return };
        let (Expr::Array(array), Expr::Binary(difference)) = (&*index.expr, &*index.index) else {
            return;
        };
        let Expr::Lit(words) = &array.elems[0] else { return };
        let Lit::Str(words) = &words.lit else { return };
        let value = u64::try_from(number(&difference.right)).expect("sizes are positive");
        self.layout.insert(words.value(), value);
    }
}

/// Returns the signature inside `Option<unsafe extern "C" fn(...)>`.
fn pointer(ty: &Type) -> Signature {
    let Type::Path(option) = ty else { panic!("{} is no option", text(ty)) };
    let last = option.path.segments.last().expect("a path has segments");
    let syn::PathArguments::AngleBracketed(arguments) = &last.arguments else {
        panic!("{} is no option", text(ty))
    };
    let Some(GenericArgument::Type(Type::BareFn(function))) = arguments.args.first() else {
        panic!("{} holds no function", text(ty))
    };
    let params = function.inputs.iter().map(|input| {
        let name = input.name.as_ref().map(|(name, _)| text(name));
        (name.unwrap_or_default(), text(&input.ty))
    });
    Signature {
        params: params.collect(),
        output: text(&function.output).replace("->", ""),
        variadic: function.variadic.is_some(),
    }
}

fn number(value: &Expr) -> i128 {
    match value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(number) => number.base10_parse().expect("it fits"),
            other => panic!("{} is no integer", text(other)),
        },
        Expr::Unary(minus) => -number(&minus.expr),
        other => panic!("{} is no number", text(other)),
    }
}

/// Returns source text without spaces, without the path of C's types and without the commas that
/// rustfmt adds at the end of a list, and with one name for `c_uint`.
fn text(tokens: &impl ToTokens) -> String {
    let text: String = tokens.to_token_stream().to_string().split_whitespace().collect();
    text.replace("::core::ffi::", "").replace("c_uint", "u32").replace(",)", ")").replace(",>", ">")
}

/// Returns the name that bindgen gives to a field or parameter of C.
pub fn rust_name(c: &str) -> String {
    let keyword = matches!(c, "type" | "fn");
    if keyword { format!("{c}_") } else { c.to_owned() }
}

/// Returns the Rust type for a type of C, in the form of [`text`]; empty for `void`.
pub fn rust_type(c: &str) -> String {
    if let Some((element, length)) = c.strip_suffix(']').and_then(|c| c.split_once('[')) {
        return format!("[{};{length}usize]", rust_type(element));
    }
    if c == "void" {
        return String::new();
    }
    let spaced = c.replace('*', " * ");
    let mut words =
        spaced.split_whitespace().filter(|word| !matches!(*word, "struct" | "union")).peekable();
    // `const` before the first star belongs to the target of the first pointer.
    let mut constant = false;
    let mut base = Vec::new();
    while let Some(word) = words.next_if(|word| *word != "*") {
        if word == "const" { constant = true } else { base.push(word) }
    }
    let mut ty = match base.join(" ").as_str() {
        "void" => "c_void",
        "char" => "c_char",
        "int" => "c_int",
        "unsigned char" => "c_uchar",
        "int8_t" => "i8",
        "uint8_t" => "u8",
        "int16_t" => "i16",
        "uint16_t" => "u16",
        "int32_t" => "i32",
        "uint32_t" | "unsigned int" => "u32",
        "int64_t" => "i64",
        "uint64_t" | "unsigned long" | "unsigned long long" => "u64",
        "size_t" => "usize",
        "float" => "f32",
        name => name,
    }
    .to_owned();
    for word in words {
        match word {
            "const" => constant = true,
            _ => {
                ty = format!("*{}{ty}", if constant { "const" } else { "mut" });
                constant = false;
            }
        }
    }
    ty
}

#[test]
fn types_of_c_are_translated() {
    for (c, rust) in [
        ("void", ""),
        ("const void *", "*constc_void"),
        ("void **", "*mut*mutc_void"),
        ("const char *const *", "*const*constc_char"),
        ("char *const *", "*const*mutc_char"),
        ("struct in_addr", "in_addr"),
        ("uint8_t[36]", "[u8;36usize]"),
        ("HcclComm *", "*mutHcclComm"),
    ] {
        assert_eq!(rust_type(c), rust);
    }
}
