//! One core of a kernel: its position in the program, its local memory, its records of clients, and
//! its wait.

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

/// The size in bytes of a piece of work, which takes about 20 microseconds.
pub(super) const PIECE: i64 = 64 << 10;

/// A core.
pub(super) struct Core {
    pub(super) walk: Walk<'static>,
    pub(super) memory: LocalMemory,
    pub(super) clients: Vec<Client>,
    /// The prepared task of each task variable of the program.
    pub(super) handles: Vec<Option<PreparedTask>>,
    pub(super) wait: Option<Wait>,
    pub(super) product: Option<Box<MatrixProduct>>,
    pub(super) ended: bool,
    /// The pending instructions, if a seed chooses the order of the launch.
    pub(super) units: Option<Box<PendingUnits>>,
    /// A step that is done only after the core's wait.
    pub(super) postponed: Option<&'static Node>,
    /// The track of the core, if the launch is recorded.
    pub(super) track: Option<Box<CoreTrack>>,
    /// The bits of the values that the core has read, if the launch is checked again after its end.
    pub(super) reads: Option<Vec<u64>>,
}

/// The object of a core's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Flag(u16),
    /// Instructions of the core's own units.
    Units(Counts),
    Barrier {
        vector: bool,
        number: u32,
    },
    /// The counter of finished turns of a client's message, and the value that it must reach.
    Turns {
        client: usize,
        slot: usize,
        finished: u32,
    },
    /// The place of a turn among all turns of a client, on Ascend 950.
    Place {
        client: usize,
        slot: usize,
        place: usize,
    },
    /// The end of the last task, in `Finalize`. Except on Ascend 950, `Finalize` then waits in
    /// `Farewell` until the server has ended the conversation.
    Last {
        client: usize,
    },
    Farewell {
        client: usize,
        generation: u64,
    },
}

/// Returns the error text for a value that cannot be computed.
pub(super) fn unknown(why: Unknown) -> String {
    match why {
        Unknown::Fault(fault) => fault.text,
        Unknown::Data | Unknown::Idle | Unknown::Short(_) => {
            "a variable is used before it has a value; set it on every path to this line".into()
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

    /// Returns the name of the core, for example "AIV 3".
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

    /// Returns the name of a turn of the task that this core has prepared in a slot, for example
    /// "tiles 2 of 4".
    pub(super) fn turn_name(&self, client: usize, slot: usize, turn: u32, world: &World) -> String {
        let tasks = self.handles.iter().zip(&world.program.tasks);
        let mut tasks = tasks.filter_map(|(handle, task)| Some((handle.as_ref()?, &task.name)));
        match tasks.find(|(handle, _)| handle.client == client && handle.slot == slot) {
            Some((handle, name)) => format!("{name} {turn} of {}", handle.total),
            None => format!("task {slot}, {turn}"),
        }
    }
}
