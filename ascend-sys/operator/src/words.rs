//! Prints rank numbers in words.

/// Returns the names of ranks: "rank 3", "ranks 0 and 2", "ranks 0 to 6, 9 and 11". `ranks` must be
/// in increasing order.
pub(crate) fn ranks(ranks: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &rank in ranks {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => parts.push((rank, rank)),
        }
    }
    let part = |(first, last): (usize, usize)| match last - first {
        0 => vec![first.to_string()],
        1 => vec![first.to_string(), last.to_string()],
        _ => vec![format!("{first} to {last}")],
    };
    let words: Vec<String> = parts.into_iter().flat_map(part).collect();
    let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
    match &words[..] {
        [] => "no rank".into(),
        [one] => format!("{noun} {one}"),
        [some @ .., last] => format!("{noun} {} and {last}", some.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::ranks;

    #[test]
    fn runs_of_ranks_are_one_word() {
        assert_eq!(ranks(&[]), "no rank");
        assert_eq!(ranks(&[3]), "rank 3");
        assert_eq!(ranks(&[0, 1]), "ranks 0 and 1");
        assert_eq!(ranks(&[0, 1, 2]), "ranks 0 to 2");
        assert_eq!(ranks(&[0, 2, 3, 4, 7, 8]), "ranks 0, 2 to 4, 7 and 8");
    }
}
