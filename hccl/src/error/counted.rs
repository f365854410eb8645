//! Counts in the texts of errors.

/// Returns a count with its noun: "1 element", "2 elements".
pub(crate) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
