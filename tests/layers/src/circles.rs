//! Circles of a graph, and the arrows to cut so that only small ones are left.

use std::collections::{BTreeMap, BTreeSet};

/// Arrows between nodes, each with the cost of cutting it.
pub type Graph = BTreeMap<(usize, usize), usize>;

/// Returns the circles, largest first: the sets of nodes that all reach each other.
pub fn circles(graph: &Graph) -> Vec<BTreeSet<usize>> {
    let mut ways: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for &(from, to) in graph.keys() {
        ways.entry(from).or_default().push(to);
        ways.entry(to).or_default();
    }
    let (number, open, found) = Default::default();
    let mut search = Search { ways: &ways, number, open, found };
    for &node in ways.keys() {
        if !search.number.contains_key(&node) {
            search.visit(node);
        }
    }
    let mut found = search.found;
    found.sort_by_key(|circle| (std::cmp::Reverse(circle.len()), circle.first().copied()));
    found
}

/// Returns the number of nodes of the largest circle.
pub fn largest(graph: &Graph) -> usize {
    circles(graph).first().map_or(0, BTreeSet::len)
}

/// Tarjan's search for strongly connected components.
struct Search<'a> {
    ways: &'a BTreeMap<usize, Vec<usize>>,
    number: BTreeMap<usize, usize>,
    open: Vec<usize>,
    found: Vec<BTreeSet<usize>>,
}

impl Search<'_> {
    /// Visits the node and all nodes that it reaches, and records their circles. Returns the lowest
    /// number that the node reaches among those of open nodes.
    fn visit(&mut self, node: usize) -> usize {
        let own = self.number.len();
        self.number.insert(node, own);
        let depth = self.open.len();
        self.open.push(node);
        let mut lowest = own;
        let ways = self.ways;
        for &next in ways.get(&node).into_iter().flatten() {
            match self.number.get(&next) {
                None => lowest = lowest.min(self.visit(next)),
                Some(&number) if self.open.contains(&next) => lowest = lowest.min(number),
                Some(_) => {}
            }
        }
        if lowest == own {
            let circle: BTreeSet<_> = self.open.drain(depth..).collect();
            if circle.len() > 1 {
                self.found.push(circle);
            }
        }
        lowest
    }
}

/// Returns the arrows between the nodes of a circle.
pub fn inner(graph: &Graph, circle: &BTreeSet<usize>) -> Graph {
    let inside = |node| circle.contains(node);
    graph.iter().filter(|((f, t), _)| inside(f) && inside(t)).map(|(a, cost)| (*a, *cost)).collect()
}

/// Returns arrows whose removal leaves no circle of more than `most` nodes, in the order of their
/// removal. Each comes with the size of the largest circle that is left then. The next arrow is
/// always the one that leaves the smallest size. The set is small, but not always the smallest.
pub fn cuts(graph: &Graph, most: usize) -> Vec<((usize, usize), usize)> {
    // One cut may be enough.
    let alone = graph.iter().filter_map(|(arrow, cost)| {
        let mut rest = graph.clone();
        rest.remove(arrow);
        let left = largest(&rest);
        (left <= most).then_some((cost, left, *arrow))
    });
    if let Some((_, left, arrow)) = alone.min() {
        return vec![(arrow, left)];
    }
    let order = order(graph);
    let mut cut: BTreeSet<_> = graph.keys().copied().filter(|(f, t)| order[f] > order[t]).collect();
    let without = |cut: &BTreeSet<(usize, usize)>| -> Graph {
        graph.iter().filter(|(arrow, _)| !cut.contains(arrow)).map(|(a, c)| (*a, *c)).collect()
    };
    // Small circles may stay. So arrows are put back, the most expensive ones first, as long as no
    // circle becomes too large.
    let mut dear: Vec<_> = cut.iter().copied().collect();
    dear.sort_by_key(|arrow| std::cmp::Reverse(graph[arrow]));
    for arrow in dear {
        cut.remove(&arrow);
        if largest(&without(&cut)) > most {
            cut.insert(arrow);
        }
    }
    let mut done = BTreeSet::new();
    let mut sequence = Vec::new();
    while let Some((size, _, arrow)) = cut
        .difference(&done)
        .map(|arrow| {
            let mut tried = done.clone();
            tried.insert(*arrow);
            (largest(&without(&tried)), graph[arrow], *arrow)
        })
        .min()
    {
        done.insert(arrow);
        sequence.push((arrow, size));
    }
    sequence
}

/// Places the nodes so that arrows that go back cost little. Nodes with a higher cost out than in
/// come first. Then each node moves to its best place as long as that lowers the cost.
fn order(graph: &Graph) -> BTreeMap<usize, usize> {
    let nodes: BTreeSet<usize> = graph.keys().flat_map(|(from, to)| [*from, *to]).collect();
    let mut left = nodes.clone();
    let (mut first, mut last) = (Vec::new(), Vec::new());
    while !left.is_empty() {
        let balance = |node: usize| {
            let (mut out, mut into) = (0i64, 0i64);
            for ((from, to), cost) in graph {
                if left.contains(from) && left.contains(to) {
                    out += if *from == node { *cost as i64 } else { 0 };
                    into += if *to == node { *cost as i64 } else { 0 };
                }
            }
            (out, into)
        };
        let balances: Vec<_> = left.iter().map(|node| (*node, balance(*node))).collect();
        if let Some((node, _)) = balances.iter().find(|(_, (out, _))| *out == 0) {
            last.push(*node);
            left.remove(node);
        } else if let Some((node, _)) = balances.iter().max_by_key(|(_, (out, into))| out - into) {
            first.push(*node);
            left.remove(node);
        }
    }
    first.extend(last.into_iter().rev());
    loop {
        let mut better = false;
        for node in &nodes {
            let at = first.iter().position(|other| other == node).unwrap_or(0);
            first.remove(at);
            // For every place, the cost of the arrows of the node that go back.
            let cost = |from: usize, to: usize| graph.get(&(from, to)).copied().unwrap_or(0) as i64;
            let mut now: i64 = first.iter().map(|other| cost(*other, *node)).sum();
            let mut costs = vec![now];
            for other in &first {
                now += cost(*node, *other) - cost(*other, *node);
                costs.push(now);
            }
            let best = (0..costs.len()).min_by_key(|place| costs[*place]).unwrap_or(at);
            let place = if costs[best] < costs[at] { best } else { at };
            better |= place != at;
            first.insert(place, *node);
        }
        if !better {
            break;
        }
    }
    first.into_iter().enumerate().map(|(place, node)| (node, place)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(nodes: usize) -> Graph {
        (0..nodes).map(|node| ((node, (node + 1) % nodes), 1)).collect()
    }

    #[test]
    fn a_ring_is_one_circle_and_a_line_is_none() {
        assert_eq!(largest(&ring(6)), 6);
        let mut line = ring(6);
        line.remove(&(5, 0));
        assert_eq!(largest(&line), 0);
    }

    #[test]
    fn two_rings_that_share_a_node_are_one_circle() {
        let mut two = ring(4);
        two.extend([((0, 10), 1), ((10, 11), 1), ((11, 0), 1), ((11, 20), 1)]);
        assert_eq!(circles(&two), [BTreeSet::from([0, 1, 2, 3, 10, 11])]);
    }

    #[test]
    fn one_cut_opens_a_ring_and_the_cheapest_is_taken() {
        let mut six: Graph = ring(6).into_keys().map(|arrow| (arrow, 3)).collect();
        six.insert((2, 3), 1);
        assert_eq!(cuts(&six, 5), [((2, 3), 0)]);
    }

    #[test]
    fn small_circles_need_no_cut() {
        let mut chain = Graph::new();
        for node in 0..8 {
            chain.extend([((node, node + 1), 2), ((node + 1, node), 1)]);
        }
        // Nine nodes in a row, each in a circle with the next.
        assert_eq!(largest(&chain), 9);
        assert_eq!(cuts(&chain, 5).len(), 1);
        assert_eq!(cuts(&chain, 2).len(), 4);
    }
}
