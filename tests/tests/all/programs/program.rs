//! A random program as data: ranks with buffers, communicators, and a list of operations. The
//! `Display` of [`Program`] prints it for readers.

use std::fmt;

use hccl::Product;
use hccl::dtype::{DType, ReduceKind};

/// A program. Every rank has the same buffers, and executes the steps in the order of the list.
#[derive(Clone, Debug)]
pub struct Program {
    pub seed: usize,
    pub product: Product,
    pub ranks: usize,
    /// The number of streams of each rank.
    pub streams: usize,
    pub buffers: Vec<Shape>,
    pub teams: Vec<Team>,
    pub steps: Vec<Step>,
}

impl Program {
    /// Returns for each communicator the step before which it has to exist, or `None` if no step
    /// needs it.
    pub fn beginnings(&self) -> Vec<Option<usize>> {
        let uses = |team: usize| {
            self.steps.iter().position(|step| step.operations.iter().any(|o| o.team == team))
        };
        let first: Vec<Option<usize>> = (0..self.teams.len()).map(uses).collect();
        let earliest = |first: &[Option<usize>], of: &dyn Fn(usize, Origin) -> bool| {
            let teams = self.teams.iter().enumerate().filter(|(at, team)| of(*at, team.origin));
            teams.filter_map(|(at, _)| first[at]).min()
        };
        // The parts of a split are made together, and a communicator exists before its parts.
        let teams = 0..self.teams.len();
        let with_split = teams.clone().map(|team| match self.teams[team].origin {
            split @ Origin::Split { .. } => earliest(&first, &|_, other| other == split),
            _ => first[team],
        });
        let with_split: Vec<Option<usize>> = with_split.collect();
        let or_part =
            |team| earliest(&with_split, &|at, origin| at == team || origin.parent() == Some(team));
        teams.map(or_part).collect()
    }

    /// Returns for each communicator the step after which no step needs it, or `None` if no step
    /// needs it at all.
    pub fn ends(&self) -> Vec<Option<usize>> {
        let beginnings = self.beginnings();
        let uses = |team: usize| {
            self.steps.iter().rposition(|step| step.operations.iter().any(|o| o.team == team))
        };
        let divided = |team: usize| {
            let parts = self.teams.iter().zip(&beginnings);
            parts
                .filter(|(part, _)| part.origin.parent() == Some(team))
                .filter_map(|(_, at)| *at)
                .max()
        };
        (0..self.teams.len()).map(|team| uses(team).max(divided(team))).collect()
    }
}

/// The operations that are issued at once.
#[derive(Clone, Debug)]
pub struct Step {
    pub is_group: bool,
    /// One operation, or all operations of a group.
    pub operations: Vec<Operation>,
}

/// The type and the length of a buffer on each rank.
#[derive(Clone, Debug)]
pub struct Shape {
    pub dtype: DType,
    pub len: usize,
    /// Whether the buffer is filled with any bits, instead of numbers of moderate size.
    pub any_bits: bool,
}

/// A communicator: its ranks, and how it is made.
#[derive(Clone, Debug)]
pub struct Team {
    /// Ranks of the program. The position of a rank is its number in the communicator.
    pub members: Vec<usize>,
    pub origin: Origin,
    /// Whether the program drops the communicator after its last use, instead of at the end of the
    /// program.
    pub is_brief: bool,
}

/// The way in which a communicator is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Made of all ranks of the run.
    World,
    /// Made with a root info of its own.
    Meeting,
    /// Made from another communicator.
    Subset { of: usize },
    /// Made from another communicator, together with the parts that have the same number.
    Split { of: usize, number: usize },
}

impl Origin {
    pub fn parent(self) -> Option<usize> {
        match self {
            Origin::World | Origin::Meeting => None,
            Origin::Subset { of } | Origin::Split { of, .. } => Some(of),
        }
    }
}

/// One operation of a communicator.
#[derive(Clone, Debug)]
pub struct Operation {
    /// The position in the list of teams.
    pub team: usize,
    pub kind: Kind,
    pub dtype: DType,
    /// The part of each rank of the communicator.
    pub sides: Vec<Side>,
}

/// The kind of an operation. Roots and peers are ranks of the communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    AllReduce(ReduceKind),
    Reduce(ReduceKind, usize),
    Broadcast(usize),
    AllGather,
    ReduceScatter(ReduceKind),
    Scatter(usize),
    AllToAll,
    AllGatherV,
    ReduceScatterV(ReduceKind),
    AllToAllV,
    AllToAllVc,
    Message { from: usize, to: usize },
    Batch,
    Barrier,
}

/// The part of one rank in an operation.
#[derive(Clone, Debug, Default)]
pub struct Side {
    /// The source. Without one the operation is in place, in the destination.
    pub source: Option<Span>,
    pub destination: Option<Span>,
    /// The division of the source and of the destination, if the parts differ in length.
    pub sent: Parts,
    pub received: Parts,
    /// The messages of a batch.
    pub messages: Vec<Item>,
    pub stream: usize,
    /// Whether the operation writes to a buffer that was never written. A copy then brings the
    /// result to the destination.
    pub fresh: bool,
    pub ending: Ending,
}

/// Elements of a buffer. Spans are ordered by buffer and place. An empty span comes before other
/// spans at the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    pub buffer: usize,
    pub start: usize,
    pub len: usize,
}

impl Span {
    pub fn end(self) -> usize {
        self.start + self.len
    }

    /// Returns whether the spans are in different buffers, or one ends before the other one begins.
    pub fn is_apart_from(self, other: Span) -> bool {
        self.buffer != other.buffer || self.end() <= other.start || other.end() <= self.start
    }

    /// Returns the `len` elements of this span from `at` on.
    pub fn part(self, at: usize, len: usize) -> Span {
        Span { start: self.start + at, len, ..self }
    }
}

/// Counts and displacements in elements, one of each for every rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    pub counts: Vec<usize>,
    pub displacements: Vec<usize>,
}

impl Parts {
    /// Returns the part of a rank within `span`.
    pub fn of(&self, rank: usize, span: Span) -> Span {
        span.part(self.displacements[rank], self.counts[rank])
    }

    pub fn extent(&self) -> usize {
        let parts = self.counts.iter().zip(&self.displacements).filter(|(count, _)| **count > 0);
        parts.map(|(count, at)| count + at).max().unwrap_or(0)
    }

    pub fn total(&self) -> usize {
        self.counts.iter().sum()
    }
}

/// A message of a batch.
#[derive(Clone, Debug)]
pub struct Item {
    pub sends: bool,
    pub peer: usize,
    pub span: Span,
}

/// The way in which the program handles the `Work`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    #[default]
    Waited,
    Awaited,
    /// Polled once and dropped.
    Abandoned,
    /// Waited for at the end of the program.
    Kept,
    Dropped,
    Forgotten,
}

impl Ending {
    pub const ALL: [Ending; 6] = [
        Ending::Waited,
        Ending::Awaited,
        Ending::Abandoned,
        Ending::Kept,
        Ending::Dropped,
        Ending::Forgotten,
    ];
}

impl Kind {
    pub fn reduction(self) -> Option<ReduceKind> {
        match self {
            Kind::AllReduce(kind)
            | Kind::Reduce(kind, _)
            | Kind::ReduceScatter(kind)
            | Kind::ReduceScatterV(kind) => Some(kind),
            _ => None,
        }
    }

    /// Returns the name of the operation and the arguments on which the ranks agree, apart from
    /// communicator and type.
    fn text(self) -> String {
        match self {
            Kind::AllReduce(kind) => format!("all_reduce {kind}"),
            Kind::Reduce(kind, root) => format!("reduce {kind} to {root}"),
            Kind::Broadcast(root) => format!("broadcast from {root}"),
            Kind::AllGather => "all_gather".into(),
            Kind::ReduceScatter(kind) => format!("reduce_scatter {kind}"),
            Kind::Scatter(root) => format!("scatter from {root}"),
            Kind::AllToAll => "all_to_all".into(),
            Kind::AllGatherV => "all_gather_v".into(),
            Kind::ReduceScatterV(kind) => format!("reduce_scatter_v {kind}"),
            Kind::AllToAllV => "all_to_all_v".into(),
            Kind::AllToAllVc => "all_to_all_vc".into(),
            Kind::Message { from, to } => format!("send from {from} to {to}"),
            Kind::Batch => "batch".into(),
            Kind::Barrier => "barrier".into(),
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Program { seed, product, ranks, streams, .. } = self;
        writeln!(f, "program {seed}: {product}, {ranks} ranks with {streams} streams each")?;
        for (index, Shape { dtype, len, any_bits }) in self.buffers.iter().enumerate() {
            let filled = if *any_bits { "any bits" } else { "numbers" };
            writeln!(f, "  b{index}: {len} x {dtype}, {filled}")?;
        }
        let needed = self.beginnings();
        for (index, Team { members, origin, is_brief }) in self.teams.iter().enumerate() {
            if needed[index].is_some() {
                let end = if *is_brief { ", dropped early" } else { "" };
                writeln!(f, "  c{index}: {origin:?}, ranks {members:?}{end}")?;
            }
        }
        for Step { is_group, operations } in &self.steps {
            if *is_group {
                writeln!(f, "  group of {}:", operations.len())?;
            }
            for Operation { team, kind, dtype, sides } in operations {
                writeln!(f, "  c{team}.{} of {dtype}", kind.text())?;
                for (rank, side) in sides.iter().enumerate() {
                    writeln!(f, "    {rank:2}: {side}")?;
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Side { source, destination, sent, received, messages, stream, fresh, ending } = self;
        if let Some(source) = source {
            write!(f, "{source}{sent} ")?;
        }
        if let Some(destination) = destination {
            write!(f, "-> {destination}{received} ")?;
        }
        for Item { sends, peer, span } in messages {
            write!(f, "{span} {} {peer}, ", if *sends { "to" } else { "from" })?;
        }
        write!(f, "on stream {stream}, {ending:?}{}", if *fresh { ", fresh" } else { "" })
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b{}[{}..{}]", self.buffer, self.start, self.end())
    }
}

impl fmt::Display for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.counts.is_empty() {
            return Ok(());
        }
        write!(f, " as")?;
        for (count, at) in self.counts.iter().zip(&self.displacements) {
            write!(f, " {count}@{at}")?;
        }
        Ok(())
    }
}
