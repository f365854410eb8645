//! Checks the local memory of a vector core: its size, and the data in its queues.

use std::collections::VecDeque;

use super::Product;
use super::buffer::{LocalBuffer, Touch, Use};
use super::clock::{Clock, Unit};
use super::view::{View, many};
use crate::declared::*;
use crate::program::{Mix, Program};
use crate::step::{Buffer, Local, Source};

/// The greatest number of buffers of all queues of one position together. Each buffer takes a
/// hardware event.
const MOST_BUFFERS: u32 = 8;

/// The index that stands for the buffer of a tensor without a buffer. The call that allocates the
/// tensor waits forever, which has been reported.
const NO_BUFFER: usize = usize::MAX;

/// The local memory of one core.
#[derive(Debug)]
pub(super) struct LocalMemory {
    queues: Vec<Option<InUse>>,
    scratches: Vec<Option<(u64, LocalBuffer)>>,
    tensors: Vec<Tensor>,
    bytes: u64,
    /// The number of buffers of queues, by the position of the queue.
    buffers: [u32; 2],
}

/// A queue that has been initialised.
#[derive(Debug, Clone)]
struct InUse {
    /// The number of bytes of a buffer.
    bytes: u64,
    buffers: Vec<QueueBuffer>,
    /// The enqueued buffers, the oldest first, with the clock of each enqueue.
    enqueued: VecDeque<(usize, Clock)>,
    /// The index at which the search for a free buffer begins.
    next: usize,
    /// The source that took the last buffer.
    source: Source,
}

/// A buffer of a queue.
#[derive(Debug, Clone, Default)]
struct QueueBuffer {
    is_taken: bool,
    /// The clock when the buffer was freed.
    freed: Option<Clock>,
    memory: LocalBuffer,
}

impl InUse {
    fn taken(&self) -> u32 {
        self.buffers.iter().filter(|buffer| buffer.is_taken).count() as u32
    }
}

/// Returns the unit that fills the buffers of a queue, and the unit that uses the data in them.
fn ends(position: Position) -> (Unit, Unit) {
    match position {
        Position::VecIn => (Unit::In, Unit::Vector),
        Position::VecOut => (Unit::Vector, Unit::Out),
    }
}

/// The memory that the name of a tensor stands for.
#[derive(Debug, Clone, Copy)]
enum Tensor {
    /// No memory so far.
    Nothing,
    /// A buffer of a queue: the queue, the bytes of the buffer, and its index in the queue.
    Held(QueueId, u64, usize),
    /// A buffer without a queue.
    Scratch(ScratchId, u64),
    /// The tensor has been given to its queue.
    Enqueued,
    /// The tensor has been freed.
    Freed,
}

/// A part of local memory: a buffer, and a range of bytes in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    buffer: BufferName,
    from: u128,
    to: u128,
}

/// The name of a buffer, which is a buffer of a queue or a scratch buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BufferName {
    Queue(QueueId, usize),
    Scratch(ScratchId),
}

impl Span {
    /// Returns the part that begins `from` bytes after the start and has `bytes` bytes.
    pub(super) fn part(&self, from: u128, bytes: u128) -> Span {
        let from = self.from + from;
        Span { buffer: self.buffer, from, to: from + bytes }
    }

    /// Returns whether both have bytes in common but do not begin at the same byte.
    pub(super) fn shifted(&self, other: &Span) -> bool {
        self.overlaps(other) && self.from != other.from
    }

    pub(super) fn overlaps(&self, other: &Span) -> bool {
        self.buffer == other.buffer && self.from < other.to && other.from < self.to
    }
}

/// Returns the size of the local memory that a kernel of this mix can allocate, in bytes.
fn usable(product: Product, mix: Mix) -> u64 {
    let mixed = mix.ratio(Core::Aic) > 0 && mix.ratio(Core::Aiv) > 0;
    match product {
        Product::A2 | Product::A3 => 184 * 1024 - if mixed { 256 } else { 0 },
        Product::Ascend950 => 248 * 1024,
    }
}

impl LocalMemory {
    pub(super) fn new(program: &Program) -> Self {
        LocalMemory {
            queues: vec![None; program.queues.len()],
            scratches: vec![None; program.scratches.len()],
            tensors: vec![Tensor::Nothing; program.locals.len()],
            bytes: 0,
            buffers: [0; 2],
        }
    }

    pub(super) fn step(&mut self, view: &mut View<'_, '_>, buffer: &Buffer) {
        if view.core.kind == Core::Aic {
            let message = "a cube core has no local memory for vectors".to_owned();
            view.error("core", message, "move it to vector cores");
            return;
        }
        match *buffer {
            Buffer::InitQueue(queue) => self.init_queue(view, queue),
            Buffer::InitScratch(scratch) => self.init_scratch(view, scratch),
            Buffer::Alloc(queue, local) => self.alloc(view, queue, local),
            Buffer::Enqueue(queue, local) => self.enqueue(view, queue, local),
            Buffer::Dequeue(queue, local) => self.dequeue(view, queue, local),
            Buffer::Free(queue, local) => self.free(view, queue, local),
            Buffer::Get(scratch, local) => match &self.scratches[scratch.0 as usize] {
                Some((bytes, _)) => self.bind(local, Tensor::Scratch(scratch, *bytes)),
                None => {
                    let name = view.words().scratch(scratch);
                    let message = format!("`{name}` has not been initialised");
                    view.error("memory", message, "initialise it before it is used");
                }
            },
        }
    }

    fn bind(&mut self, local: LocalId, tensor: Tensor) {
        self.tensors[local.0 as usize] = tensor;
    }

    fn init_queue(&mut self, view: &mut View<'_, '_>, queue: QueueId) {
        let Declared { name, what } = &view.ground.program.queues[queue.0 as usize];
        let (position, buffers) = (what.position, u32::from(what.buffers));
        if self.queues[queue.0 as usize].is_some() {
            let message = format!("`{name}` is initialised a second time");
            view.error("memory", message, "initialise it once, outside of loops");
            return;
        }
        let bytes = self.lay_out(view, name, what.length, what.number.size(), buffers);
        let sum = &mut self.buffers[usize::from(position == Position::VecOut)];
        *sum += buffers;
        if *sum > MOST_BUFFERS {
            let way = if position == Position::VecIn { "into" } else { "out of" };
            let message = format!(
                "queues {way} the vector unit have {sum} buffers, but {MOST_BUFFERS} is the most"
            );
            view.error("buffers", message, "use fewer buffers, or buffers without a queue");
        }
        if buffers == 0 {
            let message = format!("`{name}` has no buffer");
            let help = "give the queue one buffer, or two so that copies overlap with computation";
            view.error("buffers", message, help);
        }
        let source = view.source;
        self.queues[queue.0 as usize] = Some(InUse {
            bytes,
            buffers: vec![QueueBuffer::default(); buffers as usize],
            enqueued: VecDeque::new(),
            next: 0,
            source,
        });
    }

    fn init_scratch(&mut self, view: &mut View<'_, '_>, scratch: ScratchId) {
        let Declared { name, what } = &view.ground.program.scratches[scratch.0 as usize];
        if self.scratches[scratch.0 as usize].is_some() {
            let message = format!("`{name}` is initialised a second time");
            view.error("memory", message, "initialise it once, outside of loops");
            return;
        }
        let bytes = self.lay_out(view, name, what.length, what.number.size(), 1);
        self.scratches[scratch.0 as usize] = Some((bytes, LocalBuffer::default()));
    }

    /// Reserves memory for a number of buffers. Returns the number of bytes of each, or `u64::MAX`
    /// if that number is unknown, which has been reported.
    fn lay_out(
        &mut self,
        view: &mut View<'_, '_>,
        name: &str,
        length: ValueId,
        size: u32,
        buffers: u32,
    ) -> u64 {
        let Some(length) = view.count(length) else { return u64::MAX };
        if length == 0 {
            let message = format!("the buffers of `{name}` have no element");
            view.error("memory", message, "give it a length above 0");
        }
        let bytes = length.saturating_mul(size.into()).checked_next_multiple_of(32);
        let bytes = bytes.unwrap_or(u64::MAX);
        self.bytes = self.bytes.saturating_add(bytes.saturating_mul(buffers.into()));
        let (product, mix) = (view.product(), view.ground.program.mix);
        if self.bytes > usable(product, mix) {
            let message = format!(
                "with `{name}` the buffers take {} bytes of local memory, but a kernel of type {} on {} has {}",
                self.bytes,
                mix.ascend_c().trim_start_matches("KERNEL_TYPE_"),
                product.name(),
                usable(product, mix)
            );
            view.error("memory", message, "use shorter tiles or fewer buffers");
        }
        bytes
    }

    fn in_use(&mut self, view: &mut View<'_, '_>, queue: QueueId) -> Option<&mut InUse> {
        let found = self.queues[queue.0 as usize].as_mut();
        if found.is_none() {
            let message = format!("`{}` has not been initialised", view.words().queue(queue));
            view.error("memory", message, "initialise it before it is used");
        }
        found
    }

    fn alloc(&mut self, view: &mut View<'_, '_>, queue: QueueId, local: LocalId) {
        let Queue { buffers, position, .. } = view.ground.program.queues[queue.0 as usize].what;
        let (fills, _) = ends(position);
        let source = view.source;
        let Some(state) = self.in_use(view, queue) else { return };
        let bytes = state.bytes;
        let count = state.buffers.len();
        let free = (0..count).map(|at| (state.next + at) % count);
        let Some(free) = free.into_iter().find(|at| !state.buffers[*at].is_taken) else {
            let name = view.words().queue(queue);
            let message = format!(
                "`{name}` has {}, all in use here, so this waits forever",
                many(buffers.into(), "buffer")
            );
            view.error("queue", message, "free a tensor first, or give the queue one more buffer");
            return self.bind(local, Tensor::Held(queue, bytes, NO_BUFFER));
        };
        state.next = (free + 1) % count;
        state.source = source;
        let buffer = &mut state.buffers[free];
        buffer.is_taken = true;
        buffer.memory.forget_contents();
        if let Some(freed) = buffer.freed.take() {
            view.units.acquire(fills, &freed);
        }
        self.bind(local, Tensor::Held(queue, bytes, free));
    }

    /// Returns the index of a tensor's buffer, if the core holds the tensor and it belongs to this
    /// queue. Otherwise reports the failure and returns `None`.
    fn holds(
        &self,
        view: &mut View<'_, '_>,
        queue: QueueId,
        local: LocalId,
        verb: &str,
    ) -> Option<usize> {
        let name = view.words().tensor(local);
        match self.tensors[local.0 as usize] {
            Tensor::Held(of, _, at) if of == queue => return Some(at),
            Tensor::Held(of, ..) => {
                let (of, to) = (view.words().queue(of), view.words().queue(queue));
                let message =
                    format!("`{name}` belongs to queue `{of}`, but this {verb} it in queue `{to}`");
                let help = "enqueue and free a tensor in the queue that allocated it";
                view.error("queue", message, help);
            }
            other => {
                let again = match (other, verb) {
                    (Tensor::Enqueued, "enqueues") | (Tensor::Freed, "frees") => " again,",
                    _ => "",
                };
                let (state, to) = (state_words(other), view.words().queue(queue));
                let message =
                    format!("`{name}` {state}, but this {verb} it{again} in queue `{to}`");
                view.error("queue", message, "allocate, enqueue, dequeue and free, in this order");
            }
        }
        None
    }

    fn enqueue(&mut self, view: &mut View<'_, '_>, queue: QueueId, local: LocalId) {
        let (fills, _) = ends(view.ground.program.queues[queue.0 as usize].what.position);
        if let Some(at) = self.holds(view, queue, local, "enqueues")
            && let Some(state) = self.in_use(view, queue)
        {
            state.enqueued.push_back((at, view.units.release(fills)));
            self.bind(local, Tensor::Enqueued);
        }
    }

    fn dequeue(&mut self, view: &mut View<'_, '_>, queue: QueueId, local: LocalId) {
        let (_, uses) = ends(view.ground.program.queues[queue.0 as usize].what.position);
        let Some(state) = self.in_use(view, queue) else { return };
        let bytes = state.bytes;
        let Some((at, filled)) = state.enqueued.pop_front() else {
            let message = format!(
                "nothing has been enqueued in `{}`, so this waits forever",
                view.words().queue(queue)
            );
            view.error("queue", message, "enqueue a tensor first");
            return self.bind(local, Tensor::Held(queue, bytes, 0));
        };
        view.units.acquire(uses, &filled);
        self.bind(local, Tensor::Held(queue, bytes, at));
    }

    fn free(&mut self, view: &mut View<'_, '_>, queue: QueueId, local: LocalId) {
        let (_, uses) = ends(view.ground.program.queues[queue.0 as usize].what.position);
        if let Some(at) = self.holds(view, queue, local, "frees")
            && let Some(state) = self.in_use(view, queue)
        {
            if let Some(buffer) = state.buffers.get_mut(at) {
                buffer.is_taken = false;
                buffer.freed = Some(view.units.release(uses));
            }
            self.bind(local, Tensor::Freed);
        }
    }

    /// Returns the bytes of a tensor that a unit uses. Reports an error if they do not begin at a
    /// multiple of 32 bytes. If they do not lie within the tensor, reports that and returns `None`.
    pub(super) fn operand(
        &self,
        view: &mut View<'_, '_>,
        local: &Local,
        bytes: u128,
    ) -> Option<Span> {
        let span = self.span(view, local, bytes)?;
        if span.from % 32 != 0 {
            let message = format!(
                "`{}` is used from byte {} on, which is not a multiple of 32",
                view.words().tensor(local.tensor),
                span.from
            );
            view.error("align", message, "begin at a multiple of 32 bytes");
        }
        Some(span)
    }

    /// Checks a use of one element by the core itself.
    pub(super) fn element(&mut self, view: &mut View<'_, '_>, local: &Local, touch: Touch) {
        let number = view.ground.program.locals[local.tensor.0 as usize].what;
        match self.span(view, local, number.size().into()) {
            Some(span) => self.touch(view, local, span, Unit::Scalar, touch),
            None => self.widen(local),
        }
    }

    fn buffer(&mut self, name: BufferName) -> Option<&mut LocalBuffer> {
        match name {
            BufferName::Queue(queue, at) => {
                let state = self.queues[queue.0 as usize].as_mut()?;
                state.buffers.get_mut(at).map(|buffer| &mut buffer.memory)
            }
            BufferName::Scratch(scratch) => {
                self.scratches[scratch.0 as usize].as_mut().map(|(_, memory)| memory)
            }
        }
    }

    /// Marks that an unknown part of a tensor is written.
    pub(super) fn widen(&mut self, local: &Local) {
        let name = match self.tensors[local.tensor.0 as usize] {
            Tensor::Held(queue, _, at) => BufferName::Queue(queue, at),
            Tensor::Scratch(scratch, _) => BufferName::Scratch(scratch),
            _ => return,
        };
        if let Some(buffer) = self.buffer(name) {
            buffer.widen();
        }
    }

    /// Records that a unit uses bytes of a tensor. Reports earlier uses that are not ordered with
    /// the new use, and reads of bytes that no unit has written.
    pub(super) fn touch(
        &mut self,
        view: &mut View<'_, '_>,
        local: &Local,
        span: Span,
        unit: Unit,
        touch: Touch,
    ) {
        let Span { buffer, from, to } = span;
        let Some(memory) = self.buffer(buffer).filter(|_| from < to) else { return };
        let unwritten = if touch == Touch::Read { memory.unwritten(from, to) } else { None };
        let of = Use { unit, touch, from, to, source: view.source };
        let (open, all) = memory.note(of, view.units);
        if let Some(earlier) = open {
            let queue = matches!(buffer, BufferName::Queue(..));
            view.unordered(local, &earlier, &of, queue);
        }
        if let Some(byte) = unwritten {
            view.unwritten(local, byte);
        }
        if !all {
            let name = view.words().tensor(local.tensor);
            let message = format!("`{name}` has so many uses that not all of them are compared");
            view.note("long", message, "use a buffer for each purpose");
        }
    }

    /// Marks bytes of a tensor as written, after a use that may have spoiled more bytes than it
    /// wrote.
    pub(super) fn define(&mut self, span: Span) {
        if let Some(buffer) = self.buffer(span.buffer) {
            buffer.define(span.from, span.to);
        }
    }

    fn span(&self, view: &mut View<'_, '_>, local: &Local, bytes: u128) -> Option<Span> {
        let Declared { name, what } = &view.ground.program.locals[local.tensor.0 as usize];
        let size = u128::from(what.size());
        let offset = local.offset.map_or(Some(0), |offset| view.count(offset))?;
        let from = u128::from(offset) * size;
        let (buffer, held) = match self.tensors[local.tensor.0 as usize] {
            Tensor::Held(queue, held, at) => (BufferName::Queue(queue, at), held),
            Tensor::Scratch(scratch, held) => (BufferName::Scratch(scratch), held),
            other => {
                let message = format!("`{name}` {}", state_words(other));
                view.error("tensor", message, "use a tensor only while you hold it");
                return None;
            }
        };
        let to = from + bytes;
        if to > held.into() && bytes > 0 {
            let (first, last) = (from / size, to.div_ceil(size));
            let message = format!(
                "this uses elements {first}..{last} of `{name}`, which has {} of {what}",
                u128::from(held) / size,
            );
            view.error("bounds", message, "give its queue longer buffers, or count fewer elements");
            return None;
        }
        Some(Span { buffer, from, to })
    }

    /// Returns the queues with buffers that are not freed at the end of the kernel, each with the
    /// number of these buffers and the source that took the last one.
    pub(super) fn taken(&self) -> impl Iterator<Item = (QueueId, u32, Source)> {
        self.queues.iter().enumerate().filter_map(|(at, state)| {
            let state = state.as_ref()?;
            (state.taken() > 0).then(|| (QueueId(at as u32), state.taken(), state.source))
        })
    }
}

fn state_words(tensor: Tensor) -> &'static str {
    match tensor {
        Tensor::Nothing => "has no memory yet",
        Tensor::Held(..) | Tensor::Scratch(..) => "has no queue",
        Tensor::Enqueued => "has been enqueued",
        Tensor::Freed => "has been freed",
    }
}
