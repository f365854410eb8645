//! Reads pictures: returns the elements with their attributes, in order, if the text is
//! well-formed.

use std::collections::HashMap;

/// An element, and the text directly after its opening tag.
#[derive(Debug, Default)]
pub struct Element {
    pub name: String,
    pub attributes: HashMap<String, String>,
    pub text: String,
}

impl Element {
    pub fn get(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }

    pub fn is(&self, class: &str) -> bool {
        self.get("class").split(' ').any(|is| is == class)
    }

    pub fn number(&self, name: &str) -> f64 {
        self.get(name).parse().unwrap()
    }
}

/// Returns all elements. The error names the part that is not well-formed.
pub fn elements(picture: &str) -> Result<Vec<Element>, String> {
    let (mut found, mut open): (Vec<Element>, Vec<String>) = (Vec::new(), Vec::new());
    let mut parts = picture.split('<');
    if !parts.next().unwrap_or_default().is_empty() {
        return Err("it begins with text".into());
    }
    for part in parts {
        let (tag, text) = part.split_once('>').ok_or_else(|| format!("no end of {part}"))?;
        let text = plain(text)?;
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop().as_deref() != Some(name) {
                return Err(format!("{name} ends and was not open"));
            }
            if !text.trim().is_empty() && open.is_empty() {
                return Err(format!("text at the end: {text}"));
            }
            continue;
        }
        let empty = tag.ends_with('/');
        let tag = tag.trim_end_matches('/');
        let (name, mut rest) = tag.split_once(' ').unwrap_or((tag, ""));
        let mut element = Element { name: name.into(), ..Element::default() };
        rest = rest.trim();
        while !rest.is_empty() {
            let (key, value) = rest.split_once("=\"").ok_or_else(|| format!("no value: {rest}"))?;
            let (value, more) = value.split_once('"').ok_or_else(|| format!("no end: {value}"))?;
            if element.attributes.insert(key.into(), plain(value)?).is_some() {
                return Err(format!("{key} twice in {tag}"));
            }
            rest = more.trim();
        }
        element.text = text;
        found.push(element);
        if !empty {
            open.push(name.into());
        }
    }
    if open.is_empty() { Ok(found) } else { Err(format!("never closed: {open:?}")) }
}

/// Returns the text without escapes.
fn plain(text: &str) -> Result<String, String> {
    let mut pieces = text.split('&');
    let mut plain = String::from(pieces.next().unwrap_or_default());
    for piece in pieces {
        let (name, rest) = piece.split_once(';').ok_or_else(|| format!("a bare & in {text}"))?;
        plain.push(match name {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            _ => return Err(format!("what is &{name};?")),
        });
        plain.push_str(rest);
    }
    match plain.chars().find(|c| c.is_control() && *c != '\n') {
        Some(c) => Err(format!("XML has no {c:?}")),
        None => Ok(plain),
    }
}
