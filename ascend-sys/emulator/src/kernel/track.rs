//! The records of cores and servers for a [timeline](crate::timeline), if their block of devices
//! records one.

use super::area::Area;
use super::turn;
use super::work::PreparedWork;
use crate::machine;
use crate::timeline::Log;
use ascend_program::Core as Kind;
use ascend_timeline::{Block, CoreKind, Doing, Moved, Part, ServersKey, TurnSpan};
use std::sync::Arc;

/// The track of one core. The core counts as running from its beginning, or the end of a wait, to
/// its next wait.
pub(super) struct CoreTrack {
    log: Arc<Log>,
    block: Block,
    at: At,
    /// The start time and the sizes of the product that is being computed, if there is one.
    product: Option<(u64, [u64; 3])>,
    /// The time at which the interpreter entered this core; `u64::MAX` while it is not there.
    /// `interpreted` is the time that it has spent there since the last wait.
    entered: u64,
    interpreted: u64,
}

enum At {
    Nothing,
    Running { from: u64, first: String },
    Waiting { from: u64, what: String, place: String },
    Ended,
}

impl CoreTrack {
    pub(super) fn new(
        log: &Arc<Log>,
        kind: Kind,
        index: u32,
        core_index: u32,
        block: u32,
    ) -> CoreTrack {
        let (parts, products, marks) = Default::default();
        let kind = match kind {
            Kind::Aic => CoreKind::Cube,
            Kind::Aiv => CoreKind::Vector,
        };
        CoreTrack {
            log: Arc::clone(log),
            block: Block { kind, index, core_index, block, from: 0, to: 0, parts, products, marks },
            at: At::Nothing,
            product: None,
            entered: 0,
            interpreted: 0,
        }
    }

    /// Notes that the interpreter enters the core, whose position is `place`.
    pub(super) fn enter(&mut self, place: String) {
        self.entered = self.log.now();
        if let At::Nothing = self.at {
            self.block.from = self.entered;
            self.at = At::Running { from: self.entered, first: place };
        }
    }

    /// Notes that the interpreter leaves the core.
    pub(super) fn leave(&mut self) {
        self.interpreted += self.log.now().saturating_sub(self.entered);
        self.entered = u64::MAX;
    }

    pub(super) fn waits(&mut self, what: String, place: String) {
        let now = self.log.now();
        self.runs_until(now, &place);
        self.at = At::Waiting { from: now, what, place };
    }

    pub(super) fn goes_on(&mut self) {
        let now = self.log.now();
        if let At::Waiting { from, what, place } = std::mem::replace(&mut self.at, At::Nothing) {
            let first = place.clone();
            self.push(Doing::Waits { what, place }, from, now);
            self.at = At::Running { from: now, first };
            (self.entered, self.interpreted) = (now, 0);
        }
    }

    pub(super) fn multiplies(&mut self, sizes: [u64; 3]) {
        self.product = Some((self.log.now(), sizes));
    }

    pub(super) fn multiplied(&mut self) {
        if let Some((from, sizes)) = self.product.take()
            && self.log.has_room()
        {
            let what = Doing::Multiplies { sizes };
            self.block.products.push(Part { what, from, to: self.log.now() });
        }
    }

    /// Notes that the core has written a message to the server.
    pub(super) fn tells(&mut self, what: String) {
        if self.log.has_room() {
            self.block.marks.push((self.log.now(), what));
        }
    }

    /// Notes that the core or its launch has ended.
    pub(super) fn end(&mut self, place: &str) {
        let now = self.log.now();
        match std::mem::replace(&mut self.at, At::Ended) {
            At::Nothing | At::Ended => return,
            At::Waiting { from, what, place } => {
                self.push(Doing::Waits { what, place }, from, now);
            }
            running @ At::Running { .. } => {
                self.multiplied();
                self.at = running;
                self.runs_until(now, place);
                self.at = At::Ended;
            }
        }
        self.block.to = now;
    }

    /// Returns the record of the core after its end; `None` if it has not ended or has done
    /// nothing.
    pub(super) fn into_block(self) -> Option<Block> {
        matches!(self.at, At::Ended).then_some(self.block).filter(|block| block.to > 0)
    }

    fn runs_until(&mut self, now: u64, last: &str) {
        if let At::Running { from, first } = std::mem::replace(&mut self.at, At::Nothing) {
            let interpreted = self.interpreted + now.saturating_sub(self.entered);
            let interpreted = interpreted.min(now - from);
            self.push(Doing::Runs { first, last: last.to_owned(), interpreted }, from, now);
        }
    }

    fn push(&mut self, what: Doing, from: u64, to: u64) {
        if self.log.has_room() {
            self.block.parts.push(Part { what, from, to });
        }
    }
}

/// Makes the span of a turn that a rank begins now.
pub(super) fn turn(
    log: &Log,
    area: &Area,
    work: &PreparedWork,
    finished: u32,
    number: u64,
) -> TurnSpan {
    let name = format!("{} {} of {}", work.name, finished + 1, work.total());
    let moved = turn::received(work, &area.member, finished);
    begun(log, area, name, work.kind.name(), &work.place, (number, true), moved)
}

/// Makes the span of one-sided writes that begin now. Their data is added later.
pub(super) fn writes(log: &Log, area: &Area, count: u64, place: &str) -> TurnSpan {
    let name = format!("{count} writes");
    begun(log, area, name, "BatchWrite", place, (0, false), Vec::new())
}

fn begun(
    log: &Log,
    Area { member, hub, group, .. }: &Area,
    name: String,
    operation: &str,
    place: &str,
    (number, meets): (u64, bool),
    moved: Vec<Moved>,
) -> TurnSpan {
    let from = log.now();
    TurnSpan {
        device: machine::named(member.device),
        servers: match hub.comm.job_key() {
            Some(key) => ServersKey::Job(key),
            None => ServersKey::Process(std::process::id(), hub.number),
        },
        group: group.clone(),
        rank: member.rank,
        number,
        meets,
        name,
        operation: operation.to_owned(),
        place: place.to_owned(),
        from,
        to: from,
        moved,
    }
}
