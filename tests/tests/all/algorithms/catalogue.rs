//! All algorithms with the formulas of their costs, as code.

use hccl::operator::algorithms::hierarchical::Groups;
use hccl::operator::algorithms::*;
use hccl::operator::{MainThread, Operator, Recorder};
use hccl::prelude::*;

/// The expected value, or the upper limit, of a number that a test compares.
#[derive(Clone, Copy, Debug)]
pub enum Should {
    Be(u64),
    NotExceed(u64),
}
use Should::{Be, NotExceed};

impl Should {
    pub fn holds(self, found: u64) -> bool {
        match self {
            Be(number) => found == number,
            NotExceed(number) => found <= number,
        }
    }
}

/// An algorithm for a collective.
pub struct Case {
    pub algorithm: &'static str,
    pub collective: &'static str,
    /// The division of the ranks, such as "2+2", or an empty text.
    pub division: String,
    pub operator: Operator,
    /// The number of messages that must follow one another.
    pub steps: Should,
    /// The largest number of elements that a rank sends. It is for a whole vector of n elements, as
    /// [`whole`] counts them.
    pub sent: Should,
}

/// Returns the length of the whole vector of an operator of `count` elements: all elements that are
/// gathered, reduced or scattered.
pub fn whole(collective: &str, ranks: u32, count: u64) -> u64 {
    match collective {
        "all-reduce" | "broadcast" | "reduce" => count,
        _ => count * u64::from(ranks),
    }
}

/// Returns a count of elements that all algorithms can share evenly among `ranks` ranks.
pub fn even(ranks: u32) -> usize {
    let (p, places) = (ranks as usize, 1 << ranks.ilog2());
    4 * p * p * places
}

type Function = fn(&Recorder<'_>, &mut MainThread<'_>);
type Grouped = fn(&Recorder<'_>, &mut MainThread<'_>, &Groups);

/// Makes the operator of a collective.
fn operator(
    collective: &str,
    root: u32,
    function: impl Fn(&Recorder<'_>, &mut MainThread<'_>) + Send + Sync + 'static,
) -> Operator {
    match collective {
        "all-reduce" => Operator::all_reduce("all-reduce", Sum, function),
        "reduce-scatter" => Operator::reduce_scatter("reduce-scatter", Sum, function),
        "all-gather" => Operator::all_gather("all-gather", function),
        "all-to-all" => Operator::all_to_all("all-to-all", function),
        "broadcast" => Operator::broadcast("broadcast", root, function),
        "reduce" => Operator::reduce("reduce", Sum, root, function),
        "scatter" => Operator::scatter("scatter", root, function),
        _ => Operator::gather("gather", root, function),
    }
}

/// Returns all cases for `ranks` ranks and `count` elements, with a root where one is needed.
/// `count` must be [even].
pub fn catalogue(ranks: u32, root: u32, count: usize) -> Vec<Case> {
    let p = u64::from(ranks);
    let all = |name| whole(name, ranks, count as u64);
    // The steps of a logarithm, and the largest power of two that is not above the number of ranks.
    let log = u64::from(ranks.next_power_of_two().ilog2());
    let (k, q) = (u64::from(ranks.ilog2()), 1u64 << ranks.ilog2());
    let some = u64::from(ranks > 1);
    let mut cases = Vec::new();
    let mut add =
        |algorithm, collective, function: Function, steps, sent: &dyn Fn(u64) -> Should| {
            let sent = sent(all(collective));
            let operator = operator(collective, root, function);
            let division = String::new();
            cases.push(Case { algorithm, collective, division, operator, steps, sent });
        };
    // The elements that a rank does not have itself.
    let rest = |n: u64| Be(n / p * (p - 1));
    let twice = |n: u64| Be(2 * (n / p * (p - 1)));
    let everything = |n: u64| Be(some * n);

    add("ring", "all-reduce", ring::all_reduce, Be(2 * (p - 1)), &twice);
    add("ring", "reduce-scatter", ring::reduce_scatter, Be(p - 1), &rest);
    add("ring", "all-gather", ring::all_gather, Be(p - 1), &rest);
    add("ring", "scatter", ring::scatter, Be(p - 1), &rest);
    add("ring", "gather", ring::gather, Be(p - 1), &rest);
    add("ring", "broadcast", ring::broadcast, Be(p - 1), &everything);
    add("ring", "reduce", ring::reduce, Be(p - 1), &everything);

    add("mesh, one-shot", "all-reduce", mesh::all_reduce_one_shot, Be(some), &|n| Be((p - 1) * n));
    add("mesh, two-shot", "all-reduce", mesh::all_reduce_two_shot, Be(2 * some), &twice);
    add("mesh", "reduce-scatter", mesh::reduce_scatter, Be(some), &rest);
    add("mesh", "all-gather", mesh::all_gather, Be(some), &rest);
    add("mesh", "broadcast", mesh::broadcast, Be(2 * some), &twice);
    add("mesh", "reduce", mesh::reduce, Be(2 * some), &everything);
    add("mesh", "scatter", mesh::scatter, Be(some), &rest);
    add("mesh", "gather", mesh::gather, Be(some), &|n| Be(some * n / p));
    add("mesh", "all-to-all", mesh::all_to_all, Be(some), &rest);

    add("star", "broadcast", star::broadcast, Be(some), &|n| Be((p - 1) * n));
    add("star", "reduce", star::reduce, Be(some), &everything);
    add("star", "scatter", star::scatter, Be(some), &rest);
    add("star", "gather", star::gather, Be(some), &|n| Be(some * n / p));

    // Ranks that fold into a neighbour send everything. That neighbour sends the result back.
    let folds = u64::from(p != q);
    let halves = move |n: u64| n / q * (q - 1);
    let blocks = move |n: u64| (1..=k).map(|i| p.div_ceil(1 << i) * (n / p)).sum::<u64>();
    add(
        "halving-doubling",
        "all-reduce",
        halving_doubling::all_reduce,
        Be(2 * k + 2 * folds),
        &|n| Be(2 * halves(n) + folds * n),
    );
    add(
        "halving-doubling",
        "reduce-scatter",
        halving_doubling::reduce_scatter,
        Be(k + 2 * folds),
        &|n| {
            if folds == 0 { rest(n) } else { NotExceed(n.max(blocks(n) + n / p)) }
        },
    );
    add("halving-doubling", "all-gather", halving_doubling::all_gather, Be(k + 2 * folds), &|n| {
        if folds == 0 { rest(n) } else { NotExceed(blocks(n) + n) }
    });
    add("halving-doubling", "reduce", halving_doubling::reduce, Be(2 * k + folds), &|n| {
        NotExceed(if folds == 0 { 2 * halves(n) } else { n.max(2 * halves(n)) })
    });
    add("halving-doubling", "broadcast", halving_doubling::broadcast, Be(log), &|n| Be(log * n));

    add("NHR", "all-reduce", nhr::all_reduce, Be(2 * log), &twice);
    add("NHR", "reduce-scatter", nhr::reduce_scatter, Be(log), &rest);
    add("NHR", "all-gather", nhr::all_gather, Be(log), &rest);
    add("NHR", "scatter", nhr::scatter, Be(log), &rest);
    add("NHR", "broadcast", nhr::broadcast, Be(2 * log), &twice);
    add("NB", "all-reduce", nb::all_reduce, Be(2 * log), &twice);
    add("NB", "reduce-scatter", nb::reduce_scatter, Be(log), &rest);
    add("NB", "all-gather", nb::all_gather, Be(log), &rest);
    add("NB", "scatter", nb::scatter, Be(log), &rest);
    add("NB", "broadcast", nb::broadcast, Be(2 * log), &twice);

    add("pairwise", "all-to-all", pairwise::all_to_all, Be(p - 1), &rest);

    for cards in (1..=ranks).filter(|cards| ranks.is_multiple_of(*cards)) {
        let servers = u64::from(ranks / cards);
        let steps = if cards == 1 { servers - 1 } else { servers };
        let mut add = |collective, operator, times| {
            let sent = Be(times * (all(collective) / p * (p - 1)));
            let steps = Be(times * steps);
            let (algorithm, division) = ("pipeline", sizes(&Groups::of_size(ranks, cards)));
            cases.push(Case { algorithm, collective, division, operator, steps, sent });
        };
        let function = move |op: &Recorder<'_>, main: &mut MainThread<'_>| {
            pipeline::all_reduce(op, main, cards);
        };
        add("all-reduce", operator("all-reduce", root, function), 2);
        let function = move |op: &Recorder<'_>, main: &mut MainThread<'_>| {
            pipeline::reduce_scatter(op, main, cards);
        };
        add("reduce-scatter", operator("reduce-scatter", root, function), 1);
        let function = move |op: &Recorder<'_>, main: &mut MainThread<'_>| {
            pipeline::all_gather(op, main, cards);
        };
        add("all-gather", operator("all-gather", root, function), 1);
    }

    for groups in divisions(ranks) {
        let lengths = || groups.iter().map(|group| group.len() as u64);
        let (least, most) = (lengths().min().unwrap_or(1), lengths().max().unwrap_or(1));
        let (count, division) = (groups.iter().count() as u64, sizes(&groups));
        let log = |n: u64| u64::from(n.next_power_of_two().ilog2());
        let (within, between) = (log(most), log(count));
        // The formula is exact if all groups have the same size.
        let should = if least == most { Be } else { NotExceed };
        let mut add = |collective, function: Grouped, steps, sent: &dyn Fn(u64) -> Should| {
            let groups = groups.clone();
            let function = move |op: &Recorder<'_>, main: &mut MainThread<'_>| {
                function(op, main, &groups);
            };
            let (operator, division) = (operator(collective, root, function), division.clone());
            let (algorithm, steps, sent) = ("hierarchical", should(steps), sent(all(collective)));
            cases.push(Case { algorithm, collective, division, operator, steps, sent });
        };
        // `inner` is the number of bytes that a rank sends within its group, once. `part` is the
        // size of its part, which it sends to other groups.
        let (inner, part) = (|n: u64| (most - 1) * n / most, |n: u64| n / least);
        add("all-reduce", hierarchical::all_reduce, 2 * (within + between), &|n| {
            should(2 * inner(n) + 2 * (count - 1) * n / (count * least))
        });
        // A rank of a small group exchanges messages with several ranks of a large one.
        let several = most.div_ceil(least);
        let (steps, blocks) = (within + (count - 1) * several, (p - 1) * several);
        let sent = |n: u64| should(blocks * n / p);
        add("reduce-scatter", hierarchical::reduce_scatter, steps, &sent);
        add("all-gather", hierarchical::all_gather, steps, &sent);
        let steps = 2 * within + between;
        add("broadcast", hierarchical::broadcast, steps, &|n| {
            should(2 * inner(n) + between * part(n))
        });
        let once = within + between;
        add("scatter", hierarchical::scatter, once, &|n| NotExceed(n / p * (p - 1)));
        add("reduce", hierarchical::reduce, steps, &|n| NotExceed(2 * inner(n) + part(n)));
        // A block is sent once by its owner, and once more by the member that is responsible for
        // its receiver.
        let twice = lengths().map(|m| p - 1 + (p - m).div_ceil(m) * (m - 1)).max().unwrap_or(0);
        let steps = most - 1 + (count - 1) * several;
        add("all-to-all", hierarchical::all_to_all, steps, &|n| Be(twice * n / p));
    }
    cases
}

/// Returns a matrix in which some pairs send nothing.
fn matrix(ranks: u32) -> CountMatrix {
    let counts = (0..ranks * ranks).map(|at| u64::from((at * 7 + at / ranks) % 5));
    CountMatrix::new(ranks, counts.collect::<Vec<_>>()).unwrap()
}

/// Returns the operators whose blocks may have different lengths.
pub fn with_a_matrix(ranks: u32) -> Vec<(String, Operator)> {
    let counts = matrix(ranks);
    let mut operators = vec![
        ("pairwise".to_owned(), Operator::all_to_all_v("pairwise", &counts, pairwise::all_to_all)),
        ("mesh".to_owned(), Operator::all_to_all_v("mesh", &counts, mesh::all_to_all)),
    ];
    for groups in divisions(ranks) {
        let name = format!("hierarchical {}", sizes(&groups));
        let function = move |op: &Recorder<'_>, main: &mut MainThread<'_>| {
            hierarchical::all_to_all(op, main, &groups);
        };
        operators.push((name, Operator::all_to_all_v("hierarchical", &counts, function)));
    }
    operators
}

/// Returns the sizes of the groups as text, such as "2+2+1".
fn sizes(groups: &Groups) -> String {
    groups.iter().map(|group| group.len().to_string()).collect::<Vec<_>>().join("+")
}

/// Returns divisions of the ranks into groups: servers of one size, with a smaller one at the end,
/// and groups of 1, 2, 3, ... ranks, dealt out in turn.
fn divisions(ranks: u32) -> Vec<Groups> {
    let mut divisions: Vec<_> =
        [1, 2, 3, 4, 8, ranks].into_iter().map(|size| Groups::of_size(ranks, size)).collect();
    let (mut dealt, mut next) = (Vec::new(), 0);
    for size in 1.. {
        if next >= ranks {
            break;
        }
        // The ranks are taken from both ends, so that neighbours are in different groups.
        let end = ranks.min(next + size);
        let deal = |i: u32| if i.is_multiple_of(2) { i / 2 } else { ranks - 1 - i / 2 };
        dealt.push((next..end).map(deal).collect());
        next = end;
    }
    divisions.push(Groups::new(dealt));
    divisions.dedup();
    divisions
}
