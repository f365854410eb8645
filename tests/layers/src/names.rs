//! Type names that stand for two things in one crate.

use std::collections::BTreeMap;

use crate::cfg;
use crate::read::TypeName;
use crate::tree::Crate;

/// Names that may have several meanings: the crate, the name, the number of things, and the reason.
pub const ALLOWED: &[(&str, &str, usize, &str)] = &[
    ("hccl", "Mistake", 2, "public in `kernel` and in `operator`"),
    ("hccl", "Open", 2, "public: the state of a stream, and of a task of a kernel"),
    ("hccl", "RecordError", 2, "public in `kernel` and in `operator`"),
    ("hccl", "Recorded", 2, "public in `kernel` and in `operator`"),
    ("hccl", "Recorder", 2, "public in `group` and in `operator`"),
    ("hccl", "Result", 2, "public: of the crate, and of recording a kernel"),
];

/// Returns the types that have their name in common with another type, by name. Types that never
/// exist together count as one.
pub fn doubled(all: &Crate) -> BTreeMap<&str, Vec<&TypeName>> {
    let mut names: BTreeMap<&str, Vec<&TypeName>> = BTreeMap::new();
    for one in &all.types {
        names.entry(&one.name).or_default().push(one);
    }
    names.retain(|_, types| {
        types.iter().enumerate().any(|(at, one)| {
            types[..at].iter().any(|other| {
                let scopes = [one, other].map(|t| &all.scopes[t.scope].cfgs);
                cfg::possible(scopes.into_iter().flatten().chain(&one.cfgs).chain(&other.cfgs))
            })
        })
    });
    names
}

#[cfg(test)]
mod tests {
    use crate::tree::tests::read;

    fn doubled(files: &[(&str, &str)]) -> Vec<String> {
        let all = read(files);
        super::doubled(&all).keys().map(ToString::to_string).collect()
    }

    #[test]
    fn a_name_of_two_types_is_found_in_any_two_modules() {
        let found = doubled(&[
            ("lib.rs", "mod a; struct Place; enum Once {} mod inline { type State = u8; }"),
            (
                "a.rs",
                "pub enum Place {} trait State { type Associated; } trait T { type Associated; }",
            ),
        ]);
        assert_eq!(found, ["Place", "State"]);
    }

    #[test]
    fn types_that_never_exist_together_are_one() {
        let found = doubled(&[
            (
                "lib.rs",
                "#[cfg(loom)] mod a; #[cfg(not(loom))] mod b; \
                 #[cfg(target_arch = \"x86_64\")] struct Isa; \
                 #[cfg(target_arch = \"aarch64\")] struct Isa; \
                 #[cfg(unix)] struct Two; #[cfg(loom)] struct Two;",
            ),
            ("a.rs", "struct Cell;"),
            ("b.rs", "struct Cell;"),
        ]);
        assert_eq!(found, ["Two"]);
    }

    #[test]
    fn a_trait_in_a_module_sealed_may_have_the_name_of_what_it_seals() {
        let text = "mod sealed { pub trait Source {} } pub trait Source: sealed::Source {}";
        assert!(doubled(&[("lib.rs", text)]).is_empty());
    }

    #[test]
    fn types_of_tests_and_of_functions_do_not_count() {
        let found = doubled(&[(
            "lib.rs",
            "struct A; struct B; #[cfg(test)] mod tests { struct A; } fn f() { struct B; }",
        )]);
        assert!(found.is_empty());
    }
}
