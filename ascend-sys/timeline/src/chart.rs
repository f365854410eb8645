//! The contents of a picture: rows of spans, and arrows between them.

/// A whole timeline. Times are nanoseconds since the start of its first entry.
pub(crate) struct Chart {
    /// The title of the picture.
    pub(crate) title: String,
    pub(crate) length: u64,
    pub(crate) groups: Vec<RowGroup>,
    /// Arrows from the records of notifies to the waits that took them.
    pub(crate) flows: Vec<Flow>,
    /// The number of entries that the recording had no room for.
    pub(crate) left_out: u64,
}

/// The rows of one device, or of the links between devices.
pub(crate) struct RowGroup {
    pub(crate) name: String,
    pub(crate) rows: Vec<Row>,
}

/// An arrow from a moment of one thread to a moment of another thread.
pub(crate) struct Flow {
    /// The start of the arrow: the number of a thread (see `Merged`), and the time. `to` has the
    /// same form.
    pub(crate) from: (u64, u64),
    pub(crate) to: (u64, u64),
    /// Whether the two threads belong to different devices.
    pub(crate) across: bool,
}

pub(crate) struct Row {
    pub(crate) name: String,
    /// The number of the operator thread that the row shows. `None` for other rows.
    pub(crate) thread: Option<u64>,
    pub(crate) kind: RowKind,
    pub(crate) spans: Vec<Span>,
    /// The moments to mark, each with its time and its text.
    pub(crate) marks: Vec<(u64, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RowKind {
    Kernel,
    Cube,
    Vector,
    Server,
    /// A thread of an operator.
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
    /// A time in nanoseconds.
    Time(u64),
}

/// The kind of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpanKind {
    /// A launch. `Failed` is a launch or a primitive that failed.
    Kernel,
    Failed,
    /// A block on a core.
    Block,
    Runs,
    Multiplies,
    Waits,
    /// A turn of a server. In `Meets` it waits for the other ranks, and in `Moves` its data moves.
    /// `Moves` is also a primitive that moves data between devices.
    Turn,
    Meets,
    Moves,
    /// A copy or a reduction within a device. `Records` is the record of a notify.
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
