//! The contents of a picture: rows of spans, and arrows between them.

/// A whole timeline. Times are nanoseconds since the first thing in it.
pub(crate) struct Chart {
    /// The title of the picture.
    pub(crate) title: String,
    pub(crate) length: u64,
    pub(crate) groups: Vec<RowGroup>,
    /// Arrows from records of notifies to the waits that took them.
    pub(crate) flows: Vec<Flow>,
    /// Entries for which there was no room.
    pub(crate) left_out: u64,
}

/// The rows of a device, or of the links.
pub(crate) struct RowGroup {
    pub(crate) name: String,
    pub(crate) rows: Vec<Row>,
}

/// An arrow from a moment of a thread to one of another thread.
pub(crate) struct Flow {
    /// The handle of the thread, and the time, of each end.
    pub(crate) from: (u64, u64),
    pub(crate) to: (u64, u64),
    /// Whether the two belong to different devices.
    pub(crate) across: bool,
}

pub(crate) struct Row {
    pub(crate) name: String,
    /// The handle of the thread of operators whose row it is.
    pub(crate) thread: Option<u64>,
    pub(crate) kind: RowKind,
    pub(crate) spans: Vec<Span>,
    /// Moments.
    pub(crate) marks: Vec<(u64, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RowKind {
    Kernel,
    Cube,
    Vector,
    Server,
    /// A thread of operators.
    Thread,
    Link,
}

impl Row {
    pub(crate) fn new(name: String, kind: RowKind) -> Row {
        Row { name, thread: None, kind, spans: Vec::new(), marks: Vec::new() }
    }
}

pub(crate) struct Span {
    pub(crate) name: String,
    pub(crate) look: SpanKind,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) says: Vec<(&'static str, Says)>,
    pub(crate) parts: Vec<Span>,
}

/// Further information on a span.
pub(crate) enum Says {
    Text(String),
    Number(u64),
    /// Nanoseconds.
    Time(u64),
}

/// The kind of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpanKind {
    /// A launch, and one that failed.
    Kernel,
    Failed,
    /// A block on a core.
    Block,
    Runs,
    Multiplies,
    Waits,
    /// A turn of a server; there it waits for the other ranks, then data moves.
    Turn,
    Meets,
    Moves,
    /// A copy within a device, and the record of a notify.
    Copies,
    Records,
    /// The bytes that a link carries.
    Carries,
}

impl Span {
    pub(crate) fn shift(&mut self, zero: u64) {
        self.from = self.from.saturating_sub(zero);
        self.to = self.to.saturating_sub(zero);
        self.parts.iter_mut().for_each(|part| part.shift(zero));
    }
}
