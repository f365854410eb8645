//! One core of a kernel: an interpreter that stops where the core would wait, and goes on from there.

use super::client::{self, Client, Handle, Held};
use super::local::Memory;
use super::matmul::Product;
use super::posted;
use super::track::Track;
use super::world::World;
use ascend_program::flow::{Unknown, Walk};
use ascend_program::layout::Number;
use ascend_program::step::Source;
use ascend_program::{Core as Kind, Program, ValueId};

/// What one step costs, and how many bytes cost as much: a piece of work is about 20 microseconds.
const STEP: i64 = 64;
pub(super) const PIECE: i64 = 64 << 10;

/// A core.
pub(super) struct Core {
    pub(super) walk: Walk<'static>,
    pub(super) memory: Memory,
    pub(super) clients: Vec<Client>,
    /// What the names of tasks stand for.
    pub(super) handles: Vec<Option<Handle>>,
    pub(super) wait: Option<Wait>,
    pub(super) product: Option<Box<Product>>,
    pub(super) ended: bool,
    /// Of a launch that is recorded.
    pub(super) track: Option<Box<Track>>,
}

/// What a core waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Flag(u16),
    Barrier {
        vector: bool,
        number: u32,
    },
    /// Of a client: what the counter of turns of a message must come to.
    Turns {
        client: usize,
        slot: usize,
        finished: u32,
    },
    /// Of a client of Ascend 950: the place of a turn among all.
    Place {
        client: usize,
        slot: usize,
        place: usize,
    },
    /// `Finalize`: first that the last task is done, then that the server leaves.
    Last {
        client: usize,
    },
    Farewell {
        client: usize,
        generation: u64,
    },
}

/// What became of a core's turn.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It could go on.
    Runs,
    Waits,
    Ended,
}

/// A value that cannot be computed.
fn unknown(why: Unknown) -> String {
    match why {
        Unknown::Fault(fault) => fault.text,
        Unknown::Data => "a variable is used before it has a value".into(),
    }
}

impl Core {
    pub(super) fn new(walk: Walk<'static>, program: &Program, memory: Memory) -> Core {
        Core {
            walk,
            memory,
            clients: program.clients.iter().map(|_| Client::default()).collect(),
            handles: program.tasks.iter().map(|_| None).collect(),
            wait: None,
            product: None,
            ended: false,
            track: None,
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

    /// Goes on until it waits, ends, or has used up `budget`.
    pub(super) fn run(&mut self, world: &mut World, budget: &mut i64) -> Result<Progress, String> {
        if self.ended {
            return Ok(Progress::Ended);
        }
        if self.track.is_none() {
            return self.go_on(world, budget);
        }
        let here = client::place(&world.program, self.source());
        if let Some(track) = &mut self.track {
            track.enter(here);
        }
        let progress = self.go_on(world, budget);
        let there = client::place(&world.program, self.source());
        if let Some(track) = &mut self.track {
            track.leave();
            if self.ended {
                track.end(&there);
            }
        }
        progress
    }

    fn go_on(&mut self, world: &mut World, budget: &mut i64) -> Result<Progress, String> {
        let mut moved = false;
        loop {
            if let Some(wait) = self.wait {
                if !self.is_over(wait, world)? {
                    return Ok(if moved { Progress::Runs } else { Progress::Waits });
                }
                self.wait = None;
                if let Some(track) = &mut self.track {
                    track.goes_on();
                }
                moved = true;
                // What a wait ends in may be the next one.
                continue;
            }
            if *budget <= 0 {
                return Ok(Progress::Runs);
            }
            moved = true;
            if let Some(product) = &mut self.product {
                if !product.go_on()? {
                    *budget = 0;
                    return Ok(Progress::Runs);
                }
                self.product = None;
                if let Some(track) = &mut self.track {
                    track.multiplied();
                }
            }
            let Some(node) = self.walk.advance().map_err(unknown)? else {
                self.ended = true;
                return Ok(Progress::Ended);
            };
            *budget -= STEP;
            self.step(&node.step, world, budget)?;
            if self.wait.is_some() && self.track.is_some() {
                self.track_wait(world);
            }
        }
    }

    /// Writes down what it waits for from now on.
    #[cold]
    fn track_wait(&mut self, world: &World) {
        let what = match self.wait {
            None => return,
            Some(Wait::Flag(flag)) => format!("flag {flag}"),
            Some(Wait::Barrier { .. }) => "SyncAll".to_owned(),
            Some(Wait::Turns { client, slot, finished }) => {
                self.turn_name(client, slot, finished, world)
            }
            Some(Wait::Place { client, slot, place }) => {
                format!("place {place} for {}", self.turn_name(client, slot, 1, world))
            }
            Some(Wait::Last { .. } | Wait::Farewell { .. }) => "Finalize".to_owned(),
        };
        let place = client::place(&world.program, self.source());
        if let Some(track) = &mut self.track {
            track.waits(what, place);
        }
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

    /// Whether a wait is over; what belongs to its end is done then.
    fn is_over(&mut self, wait: Wait, world: &mut World) -> Result<bool, String> {
        match wait {
            Wait::Flag(flag) => Ok(world.flags.await_one(self.kind(), self.index(), flag)),
            Wait::Barrier { vector, number } => Ok(world.flags.is_open(vector, number)),
            Wait::Turns { client, slot, finished } => {
                client::turns_are_done(world, client, slot, finished)
            }
            Wait::Place { client, slot, place } => {
                posted::is_over(self, client, slot, place, world)
            }
            Wait::Last { client } => client::finish(self, world, client),
            Wait::Farewell { client, generation } => {
                Ok(client::server_has_left(world, client, generation))
            }
        }
    }

    /// What it waits for, in words.
    pub(super) fn describe(&self, world: &World) -> String {
        let Some(wait) = self.wait else {
            return if self.ended { "has ended".into() } else { "runs".into() };
        };
        match wait {
            Wait::Flag(flag) => format!("waits for flag {flag}"),
            Wait::Barrier { vector, number } => {
                let form = if vector { "SyncAll<true>" } else { "SyncAll<false>" };
                let missing = world.flags.missing(vector, number);
                let named = missing.iter().take(4).cloned().collect::<Vec<_>>().join(", ");
                let more = missing.len().saturating_sub(4);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                format!("waits in {form} for {named}{more}")
            }
            Wait::Turns { client, slot, finished } => {
                format!("waits in Wait for {}", Held { world, client, slot, finished })
            }
            Wait::Place { client, slot, place } => {
                let held = Held { world, client, slot, finished: 0 };
                format!("waits in Wait for place {place} of the engine, which {held} is to have")
            }
            Wait::Last { client } => match self.clients[client].last {
                Some((slot, finished)) => {
                    format!("waits in Finalize for {}", Held { world, client, slot, finished })
                }
                None => "waits in Finalize".into(),
            },
            Wait::Farewell { .. } => "waits in Finalize for the server to leave".into(),
        }
    }
}
