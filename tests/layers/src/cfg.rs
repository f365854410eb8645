//! Conditions of `#[cfg(..)]`: which items exist outside tests, and which two never exist together.

use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, Lit, Meta, Token};

/// A condition of conditional compilation.
#[derive(Clone, Debug)]
pub enum Cfg {
    All(Vec<Cfg>),
    Any(Vec<Cfg>),
    Not(Box<Cfg>),
    /// A name, and the value of `name = "value"`.
    Is(String, Option<String>),
}

impl Cfg {
    /// Returns the conditions of an item's attributes.
    pub fn of(attributes: &[Attribute]) -> Vec<Cfg> {
        let conditions = attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"));
        conditions
            .filter_map(|attribute| attribute.parse_args::<Meta>().ok())
            .map(|meta| Cfg::read(&meta))
            .collect()
    }

    fn read(meta: &Meta) -> Cfg {
        let name = meta.path().get_ident().map(ToString::to_string).unwrap_or_default();
        match meta {
            Meta::Path(_) => Cfg::Is(name, None),
            Meta::NameValue(pair) => {
                let value = match &pair.value {
                    Expr::Lit(literal) => match &literal.lit {
                        Lit::Str(text) => Some(text.value()),
                        _ => None,
                    },
                    _ => None,
                };
                Cfg::Is(name, value)
            }
            Meta::List(list) => {
                let inner = list
                    .parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
                    .unwrap_or_default();
                let mut inner: Vec<_> = inner.iter().map(Cfg::read).collect();
                match (name.as_str(), inner.len()) {
                    ("not", 1) => Cfg::Not(Box::new(inner.remove(0))),
                    ("any", _) => Cfg::Any(inner),
                    _ => Cfg::All(inner),
                }
            }
        }
    }

    fn atoms<'a>(&'a self, found: &mut Vec<Atom<'a>>) {
        match self {
            Cfg::All(inner) | Cfg::Any(inner) => inner.iter().for_each(|cfg| cfg.atoms(found)),
            Cfg::Not(inner) => inner.atoms(found),
            Cfg::Is(name, value) if !found.contains(&(name, value)) => found.push((name, value)),
            Cfg::Is(..) => {}
        }
    }

    fn holds(&self, is: &dyn Fn(Atom<'_>) -> bool) -> bool {
        match self {
            Cfg::All(inner) => inner.iter().all(|cfg| cfg.holds(is)),
            Cfg::Any(inner) => inner.iter().any(|cfg| cfg.holds(is)),
            Cfg::Not(inner) => !inner.holds(is),
            Cfg::Is(name, value) => is((name, value)),
        }
    }
}

type Atom<'a> = (&'a String, &'a Option<String>);

/// Returns whether all conditions can hold together, outside tests and documentation. Returns true
/// if there are too many different conditions to try.
pub fn possible<'a>(conditions: impl Iterator<Item = &'a Cfg> + Clone) -> bool {
    let mut atoms = Vec::new();
    conditions.clone().for_each(|cfg| cfg.atoms(&mut atoms));
    if atoms.is_empty() || atoms.len() > 16 {
        return true;
    }
    (0..1u32 << atoms.len()).any(|chosen| {
        let chosen: Vec<_> = (0..atoms.len()).filter(|at| chosen >> at & 1 == 1).collect();
        let is = |atom: Atom<'_>| chosen.iter().any(|at| atoms[*at] == atom);
        let sensible = chosen.iter().all(|at| {
            let (name, value) = atoms[*at];
            let twice = name.starts_with("target_")
                && chosen.iter().any(|other| atoms[*other].0 == name && atoms[*other].1 != value);
            name != "test" && name != "doc" && !twice
        });
        sensible && conditions.clone().all(|cfg| cfg.holds(&is))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(one: &str, other: &str) -> bool {
        let read = |text| Cfg::read(&syn::parse_str(text).unwrap());
        possible([read(one), read(other)].iter())
    }

    #[test]
    fn conditions_that_contradict_each_other_are_found() {
        assert!(both("loom", "unix"));
        assert!(!both("loom", "not(loom)"));
        assert!(!both("not(any(loom, miri))", "miri"));
        assert!(!both("target_arch = \"x86_64\"", "all(unix, target_arch = \"aarch64\")"));
        assert!(both("feature = \"a\"", "feature = \"b\""));
    }

    #[test]
    fn what_exists_only_in_tests_or_documentation_does_not_exist() {
        assert!(!both("test", "unix"));
        assert!(!both("all(test, not(loom))", "unix"));
        assert!(both("any(test, loom)", "unix"));
        assert!(both("not(test)", "unix"));
        assert!(!both("doc", "unix"));
    }
}
