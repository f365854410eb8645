//! Makes doc comments readable in sources that are not Rust.

use syn::{Attribute, Expr, ExprLit, Lit, Meta};

/// Returns the text of a doc comment, without examples, which are Rust, and without rustdoc's
/// links.
pub fn text(attributes: &[Attribute]) -> String {
    let mut fenced = false;
    let mut text = String::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        let Meta::NameValue(pair) = &attribute.meta else { continue };
        let Expr::Lit(ExprLit { lit: Lit::Str(lines), .. }) = &pair.value else { continue };
        for line in lines.value().split('\n') {
            let again = line.trim().is_empty() && text.ends_with("\n\n");
            if line.trim_start().starts_with("```") {
                fenced = !fenced;
            } else if !fenced && !again {
                text.push_str(&unlinked(line.strip_prefix(' ').unwrap_or(line)));
                text.push('\n');
            }
        }
    }
    text.trim().to_owned()
}

/// Replaces [`name`] and [`name`](path) by `name`.
fn unlinked(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some((before, link)) = rest.split_once("[`") {
        let Some((name, after)) = link.split_once("`]") else { break };
        text.push_str(&format!("{before}`{name}`"));
        rest = match after.strip_prefix('(').and_then(|path| path.split_once(')')) {
            Some((_, after)) => after,
            None => after,
        };
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doc_comment_is_its_prose() {
        let item: syn::ItemStruct = syn::parse_quote! {
            /// Of a [`Kernel`] and [`record`](Self::record), [not this](x).
            ///
            /// ```
            /// let x = 1;
            /// ```
            ///
            #[allow(dead_code)]
            #[doc = " The end"]
            struct Documented;
        };
        let expected = "Of a `Kernel` and `record`, [not this](x).\n\nThe end";
        assert_eq!(text(&item.attrs), expected);
        assert_eq!(unlinked("an open [`name"), "an open [`name");
    }
}
