//! Checks the texts of a configuration that select algorithms and retries. The emulator does not
//! use the texts, but it refuses a text that CANN refuses.

/// The operations that a text about algorithms can name.
const OPERATIONS: [&str; 8] = [
    "allreduce",
    "allgather",
    "reducescatter",
    "broadcast",
    "reduce",
    "scatter",
    "alltoall",
    // All operations that the text does not name.
    "others",
];
/// The algorithms of each level: within a server, between servers, between groups of servers.
const LEVELS: [(&str, &[&str]); 3] = [
    ("level0", &["NA"]),
    ("level1", &["NA", "ring", "H-D_R", "NHR", "NHR_V1", "NB", "AHC", "pipeline", "pairwise"]),
    ("level2", &["NA", "ring", "H-D_R", "NHR", "NB", "pipeline"]),
];

/// Returns whether a text names algorithms. It names them either for all operations, as in
/// `level0:NA;level1:NHR`, or for single operations, as in
/// `allreduce=level0:NA;level1:ring/alltoall=level0:NA;level1:pairwise`.
pub(super) fn algorithms(text: &str) -> bool {
    if !text.contains('=') {
        return levels(text);
    }
    once(text.split('/'), |part| {
        let (operation, rest) = part.split_once('=')?;
        (OPERATIONS.contains(&operation) && levels(rest)).then_some(operation)
    })
}

fn levels(text: &str) -> bool {
    once(text.split(';'), |part| {
        let (level, algorithm) = part.split_once(':')?;
        let (_, known) = LEVELS.iter().find(|(name, _)| *name == level)?;
        known.contains(&algorithm).then_some(level)
    })
}

/// Returns whether a text says on which levels to retry: `L1:1, L2:0`.
pub(super) fn retry_levels(text: &str) -> bool {
    once(text.split(','), |part| {
        let (level, on) = part.trim().split_once(':')?;
        (matches!(level, "L0" | "L1" | "L2") && matches!(on.trim(), "0" | "1")).then_some(level)
    })
}

/// Returns whether a text says how to retry: attempts, and two times in milliseconds.
pub(super) fn retry_parameters(text: &str) -> bool {
    let mut parts = text.split(',').map(str::trim);
    let mut within = |name: &str, low: u32, high: u32| {
        parts
            .next()
            .and_then(|part| part.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok())
            .is_some_and(|value: u32| (low..=high).contains(&value))
    };
    within("MaxCnt", 1, 10)
        && within("HoldTime", 0, 60_000)
        && within("IntervalTime", 0, 60_000)
        && parts.next().is_none()
}

/// Returns whether `about` names a subject for every part, and all subjects are different.
fn once<'a>(
    parts: impl Iterator<Item = &'a str>,
    about: impl Fn(&'a str) -> Option<&'a str>,
) -> bool {
    let mut seen = Vec::new();
    parts.map(about).all(|about| match about {
        Some(about) if !seen.contains(&about) => {
            seen.push(about);
            true
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_texts_are_good() {
        for good in [
            "level0:NA;level1:H-D_R",
            "level0:NA;level1:NHR;level2:ring",
            "level1:pairwise",
            "allreduce=level0:NA;level1:ring/alltoall=level1:pairwise",
        ] {
            assert!(algorithms(good), "{good}");
        }
        for bad in [
            "",
            "ring",
            "level1",
            "level1:",
            "level1:fast",
            "level2:AHC",
            "level3:ring",
            "level1:ring;level1:NHR",
            "level1:ring;",
            "sum=level1:ring",
            "reduce=level1:ring/reduce=level1:NHR",
            "reduce=level1:ring/level1:NHR",
        ] {
            assert!(!algorithms(bad), "{bad}");
        }
        for good in ["L1:0", "L1:1, L2:0", "L0:0,L1:1,L2:1"] {
            assert!(retry_levels(good), "{good}");
        }
        for bad in ["", "1", "L1", "L1:2", "L3:0", "L1:1;L2:1", "L1:0,L1:1", "L1:0,"] {
            assert!(!retry_levels(bad), "{bad}");
        }
    }
}
