//! One core of a kernel: its position in the program, its local memory, its books, and its wait.

use super::books::{Client, PreparedTask};
use super::local::LocalMemory;
use super::matmul::MatrixProduct;
use super::order::{Counts, PendingUnits};
use super::track::CoreTrack;
use super::world::World;
use ascend_program::flow::{Unknown, Walk};
use ascend_program::layout::Number;
use ascend_program::step::{Node, Source};
use ascend_program::{Core as Kind, Program, ValueId};

/// A piece of work, in bytes: about 20 microseconds.
pub(super) const PIECE: i64 = 64 << 10;

/// A core.
pub(super) struct Core {
    pub(super) walk: Walk<'static>,
    pub(super) memory: LocalMemory,
    pub(super) clients: Vec<Client>,
    /// The tasks that their names stand for.
    pub(super) handles: Vec<Option<PreparedTask>>,
    pub(super) wait: Option<Wait>,
    pub(super) product: Option<Box<MatrixProduct>>,
    pub(super) ended: bool,
    /// The pending instructions, if a seed chooses the order of the launch.
    pub(super) units: Option<Box<PendingUnits>>,
    /// A step that has to wait before it is done.
    pub(super) postponed: Option<&'static Node>,
    /// The track, for a launch that is recorded.
    pub(super) track: Option<Box<CoreTrack>>,
    /// The bits of the values it has read, if the launch is looked at again when it is over.
    pub(super) reads: Option<Vec<u64>>,
}

/// The thing that a core waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Flag(u16),
    /// Instructions of its own units.
    Units(Counts),
    Barrier {
        vector: bool,
        number: u32,
    },
    /// For a client: the value that the counter of turns of a message must reach.
    Turns {
        client: usize,
        slot: usize,
        finished: u32,
    },
    /// For a client of Ascend 950: the place of a turn among all.
    Place {
        client: usize,
        slot: usize,
        place: usize,
    },
    /// `Finalize` waits first for the end of the last task, then for the server to leave.
    Last {
        client: usize,
    },
    Farewell {
        client: usize,
        generation: u64,
    },
}

/// The text for a value that cannot be computed.
pub(super) fn unknown(why: Unknown) -> String {
    match why {
        Unknown::Fault(fault) => fault.text,
        Unknown::Data | Unknown::Idle | Unknown::Short(_) => {
            "a variable is used before it has a value".into()
        }
    }
}

impl Core {
    pub(super) fn new(walk: Walk<'static>, program: &Program, memory: LocalMemory) -> Core {
        Core {
            walk,
            memory,
            clients: program.clients.iter().map(|_| Client::default()).collect(),
            handles: program.tasks.iter().map(|_| None).collect(),
            wait: None,
            product: None,
            ended: false,
            units: None,
            postponed: None,
            track: None,
            reads: None,
        }
    }

    pub(super) fn kind(&self) -> Kind {
        self.walk.core()
    }

    pub(super) fn index(&self) -> u32 {
        self.walk.index()
    }

    pub(super) fn source(&self) -> Source {
        self.walk.source()
    }

    /// "AIV 3".
    pub(super) fn name(&self) -> String {
        let kind = match self.kind() {
            Kind::Aic => "AIC",
            Kind::Aiv => "AIV",
        };
        format!("{kind} {}", self.index())
    }

    pub(super) fn count(&self, id: ValueId) -> Result<u64, String> {
        self.walk.count(id).map_err(unknown)
    }

    pub(super) fn value(&self, id: ValueId) -> Result<u64, String> {
        self.walk.value(id).map_err(unknown)
    }

    pub(super) fn tiling_number(&self, offset: u64, number: Number) -> Result<u64, String> {
        self.walk.tiling(offset, number).map_err(|fault| fault.text)
    }

    /// "tiles 2 of 4": a turn of the task that this core has prepared in a slot.
    pub(super) fn turn_name(&self, client: usize, slot: usize, turn: u32, world: &World) -> String {
        let tasks = self.handles.iter().zip(&world.program.tasks);
        let mut tasks = tasks.filter_map(|(handle, task)| Some((handle.as_ref()?, &task.name)));
        match tasks.find(|(handle, _)| handle.client == client && handle.slot == slot) {
            Some((handle, name)) => format!("{name} {turn} of {}", handle.total),
            None => format!("task {slot}, {turn}"),
        }
    }
}
