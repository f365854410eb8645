//! Makes and checks names in C++.

/// Turns a name into lower camel case: `tile_num` into `tileNum`. Underscores at the front stay.
pub fn lower_camel(name: &str) -> String {
    let stem = name.trim_start_matches('_');
    let mut camel = name[..name.len() - stem.len()].to_owned();
    for (i, word) in stem.split('_').filter(|word| !word.is_empty()).enumerate() {
        let (first, rest) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
        if i == 0 {
            camel.push_str(first)
        } else {
            camel.extend(first.chars().flat_map(char::to_uppercase))
        }
        camel.push_str(rest);
    }
    camel
}

/// Returns the problem of a name in C++, if there is one.
pub fn problem(name: &str) -> Option<String> {
    let valid = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(valid)
    {
        return Some(format!(
            "`{name}` is not a name in C++: use letters, digits and underscores, and no digit \
             first"
        ));
    }
    if ascend_names::KEYWORDS.contains(&name) {
        return Some(format!(
            "`{name}` is a keyword of Ascend C: give another name with `#[tiling(name = \"...\")]`"
        ));
    }
    let upper = |c: char| c.is_ascii_uppercase();
    if name.contains("__") || name.strip_prefix('_').is_some_and(|rest| rest.starts_with(upper)) {
        return Some(format!(
            "`{name}` is reserved for C++ compilers: give another name with `#[tiling(name = \"...\")]`"
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_change_from_snake_to_lower_camel_case() {
        for (rust, cpp) in [
            ("tile_num", "tileNum"),
            ("m", "m"),
            ("_pad", "_pad"),
            ("_pad_2", "_pad2"),
            ("all_to_all_cc", "allToAllCc"),
            ("a__b_", "aB"),
            ("largeK", "largeK"),
        ] {
            assert_eq!(lower_camel(rust), cpp);
        }
    }

    #[test]
    fn names_that_cpp_does_not_take_are_told() {
        for (name, part) in [
            ("", "not a name"),
            ("1st", "not a name"),
            ("größe", "not a name"),
            ("a b", "not a name"),
            ("double", "a keyword"),
            ("half", "a keyword"),
            ("a__b", "reserved"),
            ("_Tile", "reserved"),
        ] {
            assert!(problem(name).is_some_and(|text| text.contains(part)), "{name}");
        }
        assert_eq!(problem("_tile1"), None);
    }
}
