//! Makes programs from seeds. Every program is correct: it requests nothing that hccl or the
//! product refuses, and it ends.
//!
//! It ends because all ranks issue their operations in the order of one list: an operation only
//! waits for operations that are earlier in the list.

use hccl::Product;
use hccl::dtype::{DType, ReduceKind};

use super::program::*;
use super::reference::Random;

/// Returns the program with this number, for at most `most_ranks` ranks.
pub fn generate(seed: usize, product: Product, most_ranks: usize) -> Program {
    let mut random = Random::new(seed);
    // Neighbouring seeds begin with neighbouring states.
    random = Random::new(random.next() as usize);
    // Long buffers have several chunks of the emulator. Only programs with few ranks and few steps
    // have them, because they take time.
    let (most_ranks, scale, steps) = match random.below(24) {
        0 => (most_ranks.min(6), 50_000, 6),
        1..4 => (most_ranks, 3000, 16),
        4..14 => (most_ranks, 300, 16),
        _ => (most_ranks, 40, 16),
    };
    let ranks = 1 + random.below(most_ranks);
    let mut buffers = Vec::new();
    for number in 0..1 + random.below(3) {
        // At least one buffer can be reduced.
        let dtype = loop {
            let dtype = DType::ALL[random.below(DType::ALL.len())];
            if number > 0 || reduces(dtype, ReduceKind::Sum, product, false) {
                break dtype;
            }
        };
        for _ in 0..2 + random.below(2) {
            let len = scale + random.below(scale);
            buffers.push(Shape { dtype, len, any_bits: random.below(3) == 0 });
        }
    }
    let streams = 1 + random.below(3);
    let teams = teams(&mut random, ranks);
    let program = Program { seed, product, ranks, streams, buffers, teams, steps: Vec::new() };
    let mut generator = Generator {
        random,
        most: scale,
        program,
        members: Vec::new(),
        taken: vec![Vec::new(); ranks],
    };
    for _ in 0..4 + generator.random.below(steps) {
        generator.taken.iter_mut().for_each(Vec::clear);
        let step = match generator.random.below(6) {
            0 => generator.group(),
            _ => Step { is_group: false, operations: vec![generator.alone()] },
        };
        generator.program.steps.push(step);
    }
    generator.program
}

/// Returns the world, communicators of some ranks, and parts of all of them.
fn teams(random: &mut Random, ranks: usize) -> Vec<Team> {
    let mut teams =
        vec![Team { members: (0..ranks).collect(), origin: Origin::World, is_brief: false }];
    for _ in 0..random.below(3) {
        let members = some_of(random, &teams[0].members);
        teams.push(Team { members, origin: Origin::Meeting, is_brief: false });
    }
    let whole = teams.len();
    for number in 0..random.below(3) {
        let of = random.below(whole);
        let all = teams[of].members.clone();
        if random.below(2) == 0 {
            let members = some_of(random, &all);
            teams.push(Team { members, origin: Origin::Subset { of }, is_brief: false });
            continue;
        }
        // The last color means no part.
        let colors = 1 + random.below(3);
        let mut parts = vec![Vec::new(); colors + 1];
        let in_order = random.below(2) == 0;
        let order = if in_order { (0..all.len()).collect() } else { shuffled(random, all.len()) };
        for member in order {
            parts[random.below(colors + 1)].push(all[member]);
        }
        let origin = Origin::Split { of, number };
        let parts = parts.into_iter().take(colors).filter(|members| !members.is_empty());
        teams.extend(parts.map(|members| Team { members, origin, is_brief: false }));
    }
    for team in &mut teams {
        team.is_brief = random.below(3) == 0;
    }
    teams
}

/// Chooses at least one of `all`, in any order.
fn some_of(random: &mut Random, all: &[usize]) -> Vec<usize> {
    let count = 1 + random.below(all.len());
    shuffled(random, all.len()).into_iter().take(count).map(|at| all[at]).collect()
}

/// Returns whether a product has this reduction for elements of a type. `variable` means parts of
/// different lengths.
fn reduces(dtype: DType, kind: ReduceKind, product: Product, variable: bool) -> bool {
    use DType::*;
    let is_950 = product == Product::Ascend950;
    let of_product = match kind {
        ReduceKind::Prod => !matches!(dtype, I16 | BF16) && (is_950 || !variable),
        _ => true,
    };
    of_product
        && match dtype {
            I8 | I16 | I32 | F16 | BF16 | F32 => true,
            I64 => !variable || product != Product::A2,
            U64 | F64 => is_950 && !variable,
            _ => false,
        }
}

fn shuffled(random: &mut Random, n: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    for last in (1..n).rev() {
        order.swap(last, random.below(last + 1));
    }
    order
}

struct Generator {
    random: Random,
    /// The largest number of elements that one operation uses of a buffer. No buffer is shorter.
    most: usize,
    program: Program,
    /// The members of the current operation.
    members: Vec<usize>,
    /// The spans that the ranks use so far in the current step.
    taken: Vec<Vec<Span>>,
}

impl Generator {
    fn alone(&mut self) -> Operation {
        let team = self.random.below(self.program.teams.len());
        let dtype = self.dtype();
        let kind = self.kind(dtype, self.program.teams[team].members.len());
        let mut operation = self.operation(team, kind, dtype, false);
        for side in &mut operation.sides {
            side.stream = self.random.below(self.program.streams);
            let whole = side.received.counts.is_empty()
                || side.destination.is_some_and(|span| span.len == side.received.total());
            let is_in_place = side.source.is_none();
            let has_no_source = matches!(kind, Kind::Message { .. } | Kind::Scatter(_));
            let may_be_fresh =
                side.destination.is_some() && whole && (!is_in_place || has_no_source);
            side.fresh = may_be_fresh && self.random.below(4) == 0;
        }
        operation
    }

    /// Returns a group of independent operations. Each communicator has a stream of its own.
    fn group(&mut self) -> Step {
        let only_messages = self.program.product == Product::Ascend950;
        let messages = only_messages || self.random.below(3) == 0;
        let mut teams = shuffled(&mut self.random, self.program.teams.len());
        teams.truncate(self.program.streams);
        let most = self.most;
        // Shorter spans leave room for all operations.
        self.most /= 16;
        let mut operations: Vec<Operation> = Vec::new();
        for _ in 0..1 + self.random.below(if messages { 5 } else { 3 }) {
            let at = self.random.below(teams.len());
            let (team, dtype) = (teams[at], self.dtype());
            let kind = self.kind(dtype, self.program.teams[team].members.len());
            let is_message = matches!(kind, Kind::Message { .. });
            // Skips operations that a group does not accept. One message from one rank to another
            // is enough.
            if matches!(kind, Kind::Reduce(..) | Kind::Batch | Kind::Barrier)
                || is_message != messages
                || is_message && operations.iter().any(|o| o.team == team && o.kind == kind)
            {
                continue;
            }
            let mut operation = self.operation(team, kind, dtype, true);
            for (side, member) in operation.sides.iter_mut().zip(&self.members) {
                side.stream = (at + member) % self.program.streams;
            }
            operations.push(operation);
        }
        self.most = most;
        Step { is_group: true, operations }
    }

    fn dtype(&mut self) -> DType {
        self.program.buffers[self.random.below(self.program.buffers.len())].dtype
    }

    fn operation(&mut self, team: usize, kind: Kind, dtype: DType, in_group: bool) -> Operation {
        self.members = self.program.teams[team].members.clone();
        // In a group, `all_reduce` is the only operation with a variant in place.
        let may_be_in_place = !in_group || matches!(kind, Kind::AllReduce(_));
        let in_place = may_be_in_place && self.random.below(3) == 0;
        let mut sides = self.spans(kind, dtype, self.members.len(), in_place);
        for side in &mut sides {
            side.ending = Ending::ALL[self.random.below(Ending::ALL.len())];
        }
        Operation { team, kind, dtype, sides }
    }

    fn kind(&mut self, dtype: DType, p: usize) -> Kind {
        loop {
            let reduction = ReduceKind::ALL[self.random.below(ReduceKind::ALL.len())];
            let root = self.random.below(p);
            let product = self.program.product;
            let fixed = reduces(dtype, reduction, product, false);
            let variable = reduces(dtype, reduction, product, true);
            return match self.random.below(14) {
                0 if fixed => Kind::AllReduce(reduction),
                1 if fixed => Kind::Reduce(reduction, root),
                2 if fixed => Kind::ReduceScatter(reduction),
                3 if variable => Kind::ReduceScatterV(reduction),
                4 => Kind::Broadcast(root),
                5 => Kind::AllGather,
                6 => Kind::Scatter(root),
                7 => Kind::AllToAll,
                8 => Kind::AllGatherV,
                9 => Kind::AllToAllV,
                10 => Kind::AllToAllVc,
                11 if p > 1 => {
                    let to = (root + 1 + self.random.below(p - 1)) % p;
                    Kind::Message { from: root, to }
                }
                12 => Kind::Batch,
                13 => Kind::Barrier,
                _ => continue,
            };
        }
    }

    /// Chooses the spans that each rank reads and writes.
    fn spans(&mut self, kind: Kind, dtype: DType, p: usize, in_place: bool) -> Vec<Side> {
        let mut sides = vec![Side::default(); p];
        let n = self.length(self.most);
        let share = self.length(self.most / p);
        match kind {
            Kind::AllReduce(_) => {
                for (rank, side) in sides.iter_mut().enumerate() {
                    side.source = (!in_place).then(|| self.span(rank, dtype, n));
                    side.destination = Some(self.span(rank, dtype, n));
                }
            }
            Kind::Reduce(_, root) => {
                for (rank, side) in sides.iter_mut().enumerate() {
                    side.source = (!in_place).then(|| self.span(rank, dtype, n));
                    if in_place || rank == root {
                        side.destination = Some(self.span(rank, dtype, n));
                    }
                }
            }
            Kind::Broadcast(_) => {
                for (rank, side) in sides.iter_mut().enumerate() {
                    side.destination = Some(self.span(rank, dtype, n));
                }
            }
            Kind::AllGather => {
                for (rank, side) in sides.iter_mut().enumerate() {
                    side.source = (!in_place).then(|| self.span(rank, dtype, share));
                    side.destination = Some(self.span(rank, dtype, share * p));
                }
            }
            Kind::ReduceScatter(_) => {
                for (rank, side) in sides.iter_mut().enumerate() {
                    let destination = if in_place { share * p } else { share };
                    side.source = (!in_place).then(|| self.span(rank, dtype, share * p));
                    side.destination = Some(self.span(rank, dtype, destination));
                }
            }
            Kind::Scatter(root) => {
                for (rank, side) in sides.iter_mut().enumerate() {
                    side.source = (rank == root).then(|| self.span(rank, dtype, share * p));
                    side.destination = Some(self.span(rank, dtype, share));
                }
            }
            Kind::AllToAll => {
                for (rank, side) in sides.iter_mut().enumerate() {
                    side.source = Some(self.span(rank, dtype, share * p));
                    side.destination = Some(self.span(rank, dtype, share * p));
                }
            }
            Kind::AllGatherV => {
                let counts = self.counts(p);
                for (rank, side) in sides.iter_mut().enumerate() {
                    side.source = Some(self.span(rank, dtype, counts[rank]));
                    side.received = self.apart(counts.clone());
                    side.destination = Some(self.long_enough(rank, dtype, &side.received));
                }
            }
            Kind::ReduceScatterV(_) => {
                let counts = self.counts(p);
                for (rank, side) in sides.iter_mut().enumerate() {
                    side.sent = self.anywhere(counts.clone());
                    side.source = Some(self.long_enough(rank, dtype, &side.sent));
                    side.destination = Some(self.span(rank, dtype, counts[rank]));
                }
            }
            Kind::AllToAllV => {
                let matrix: Vec<Vec<usize>> = (0..p).map(|_| self.counts(p)).collect();
                let matrix = self.within_buffers(matrix);
                for (rank, side) in sides.iter_mut().enumerate() {
                    side.sent = self.anywhere(matrix[rank].clone());
                    side.source = Some(self.long_enough(rank, dtype, &side.sent));
                    side.received = self.apart(matrix.iter().map(|row| row[rank]).collect());
                    side.destination = Some(self.long_enough(rank, dtype, &side.received));
                }
            }
            Kind::AllToAllVc => {
                let matrix: Vec<Vec<usize>> = (0..p).map(|_| self.counts(p)).collect();
                let matrix = self.within_buffers(matrix);
                for (rank, side) in sides.iter_mut().enumerate() {
                    side.sent = packed(matrix[rank].clone());
                    side.source = Some(self.span(rank, dtype, side.sent.total()));
                    side.received = packed(matrix.iter().map(|row| row[rank]).collect());
                    side.destination = Some(self.span(rank, dtype, side.received.total()));
                }
            }
            Kind::Message { from, to } => {
                sides[from].source = Some(self.span(from, dtype, n));
                sides[to].destination = Some(self.span(to, dtype, n));
            }
            Kind::Batch => self.messages(&mut sides),
            Kind::Barrier => {}
        }
        sides
    }

    /// Returns a number of elements: often few, often one at which the code changes its way.
    fn length(&mut self, most: usize) -> usize {
        let edges = [1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 255, 256, 257, 1024, 4096, 16384];
        let len = match self.random.below(9) {
            0 => 0,
            8 => most,
            1 | 2 => edges[self.random.below(edges.len())],
            3 | 4 => self.random.below(9),
            _ => self.random.below(most + 1),
        };
        len.min(most)
    }

    /// Returns `len` elements of a buffer that no operation of the step uses yet.
    fn span(&mut self, rank: usize, dtype: DType, len: usize) -> Span {
        self.try_span(rank, dtype, len).unwrap_or_else(|| {
            let taken = &self.taken[self.members[rank]];
            let buffers = self.program.buffers.iter().enumerate();
            let buffers = buffers.filter(|(_, shape)| shape.dtype == dtype);
            // A gap begins at the beginning of a buffer, or where a span ends.
            let mut gaps = buffers.flat_map(|(buffer, shape)| {
                let ends =
                    taken.iter().filter(move |span| span.buffer == buffer).map(|span| span.end());
                let spans = ends.chain([0]).map(move |start| Span { buffer, start, len });
                spans.filter(|span| span.end() <= shape.len)
            });
            let is_free = |span: &Span| taken.iter().all(|&other| span.is_apart_from(other));
            let span = gaps.find(is_free).expect("there is room for what a step takes");
            self.taken[self.members[rank]].push(span);
            span
        })
    }

    fn try_span(&mut self, rank: usize, dtype: DType, len: usize) -> Option<Span> {
        for _ in 0..8 {
            let buffer = self.random.below(self.program.buffers.len());
            let shape = &self.program.buffers[buffer];
            if shape.dtype != dtype || len > shape.len {
                continue;
            }
            let start = match self.random.below(3) {
                0 => 0,
                _ => self.random.below(shape.len - len + 1),
            };
            let span = Span { buffer, start, len };
            let taken = &mut self.taken[self.members[rank]];
            if taken.iter().all(|&other| span.is_apart_from(other)) {
                taken.push(span);
                return Some(span);
            }
        }
        None
    }

    /// Returns a span for a divided buffer, at least as long as the parts need.
    fn long_enough(&mut self, rank: usize, dtype: DType, parts: &Parts) -> Span {
        let more = self.random.below(3) * self.random.below(self.most / 8 + 1);
        self.span(rank, dtype, (parts.extent() + more).min(self.most))
    }

    /// Returns a count for each rank, in total no more than a buffer holds.
    fn counts(&mut self, p: usize) -> Vec<usize> {
        let is_nothing = self.random.below(12) == 0;
        let each = self.most / p;
        (0..p).map(|_| if is_nothing { 0 } else { self.length(each) }).collect()
    }

    /// Reduces the columns until each rank's received data fits into a buffer, too.
    fn within_buffers(&self, mut matrix: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
        for column in 0..matrix.len() {
            let mut left = self.most;
            for row in &mut matrix {
                row[column] = row[column].min(left);
                left -= row[column];
            }
        }
        matrix
    }

    /// Returns parts that do not overlap: in any order, with or without gaps.
    fn apart(&mut self, counts: Vec<usize>) -> Parts {
        let p = counts.len();
        let order = match self.random.below(2) {
            0 => (0..p).collect(),
            _ => shuffled(&mut self.random, p),
        };
        let mut slack = match self.random.below(2) {
            0 => 0,
            _ => self.most - counts.iter().sum::<usize>(),
        };
        let (mut displacements, mut next) = (vec![0; p], 0);
        for rank in order {
            let gap = self.random.below(slack / 2 + 1);
            slack -= gap;
            displacements[rank] = next + gap;
            next += gap + counts[rank];
        }
        self.with_wild_nothings(Parts { counts, displacements })
    }

    /// Returns parts of a source: packed, apart, or overlapping.
    fn anywhere(&mut self, counts: Vec<usize>) -> Parts {
        if self.random.below(3) > 0 {
            return self.apart(counts);
        }
        let at = |count: &usize| self.random.below(self.most - count + 1);
        let displacements = counts.iter().map(at).collect();
        self.with_wild_nothings(Parts { counts, displacements })
    }

    /// Moves empty parts anywhere, because the offset of an empty part has no meaning.
    fn with_wild_nothings(&mut self, mut parts: Parts) -> Parts {
        for (at, &count) in parts.displacements.iter_mut().zip(&parts.counts) {
            if count == 0 && self.random.below(2) == 0 {
                *at = self.random.below(1 << 40);
            }
        }
        parts
    }

    /// Adds messages between some pairs, of any types.
    fn messages(&mut self, sides: &mut [Side]) {
        let p = sides.len();
        let density = 1 + self.random.below(4);
        for (from, to) in (0..p).flat_map(|from| (0..p).map(move |to| (from, to))) {
            if self.random.below(p) >= density {
                continue;
            }
            let dtype = self.dtype();
            let len = self.length(self.most / 4);
            // A rank can send the same elements to several ranks.
            let before = sides[from].messages.iter().rfind(|item| item.sends).map(|item| item.span);
            let repeated = before.filter(|span| self.program.buffers[span.buffer].dtype == dtype);
            let repeated = repeated.filter(|_| self.random.below(3) == 0);
            let Some(source) = repeated.or_else(|| self.try_span(from, dtype, len)) else {
                continue;
            };
            let Some(destination) = self.try_span(to, dtype, source.len) else { continue };
            sides[from].messages.push(Item { sends: true, peer: to, span: source });
            sides[to].messages.push(Item { sends: false, peer: from, span: destination });
        }
        for side in sides {
            let order = shuffled(&mut self.random, side.messages.len());
            side.messages = order.into_iter().map(|at| side.messages[at].clone()).collect();
        }
    }
}

/// Returns parts that follow each other without gaps.
fn packed(counts: Vec<usize>) -> Parts {
    let mut next = 0;
    let displacements = counts.iter().map(|count| {
        next += count;
        next - count
    });
    Parts { displacements: displacements.collect(), counts }
}
