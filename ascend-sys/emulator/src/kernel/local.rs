//! The local memory of a vector core. It is as large as on the hardware, and its buffers are
//! managed by queues.
//!
//! In the emulator the steps of a core run one after another, so data in a queue is always
//! complete. It remains to check that each buffer is in the state that the program expects. A
//! buffer is allocated, filled, taken and freed, in this order.

use crate::profile::Product;
use ascend_program::layout::Number;
use ascend_program::step::Local;
use ascend_program::{LocalId, Program, QueueId, ScratchId};
use ascend_sync::lock_std as lock;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Mutex;

/// The alignment of buffers in bytes.
pub(super) const ALIGNMENT: u64 = 32;
/// The value of each byte of a buffer that was not written yet. It makes a NaN in every floating
/// point type.
const UNWRITTEN: u8 = 0xff;
/// The largest number of buffers that the queues of one position may have together.
const MOST_BUFFERS: usize = 8;

/// Returns the number of bytes of the unified buffer that a kernel can use.
fn usable(product: Product, mixed: bool) -> u64 {
    match product {
        Product::A2 | Product::A3 => (184 << 10) - if mixed { 256 } else { 0 },
        Product::Ascend950 => 248 << 10,
    }
}

/// The local memory of one vector core.
pub(super) struct LocalMemory {
    bytes: Vec<u8>,
    limit: u64,
    queues: Vec<Option<BufferQueue>>,
    scratches: Vec<Option<Range<usize>>>,
    tensors: Vec<Option<Tensor>>,
}

struct BufferQueue {
    /// The byte range of each buffer.
    buffers: Vec<Range<usize>>,
    states: Vec<BufferState>,
    /// The filled buffers, the oldest first.
    filled: VecDeque<usize>,
    /// The buffer at which the search for a free one begins.
    next: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BufferState {
    Free,
    Allocated,
    Filled,
    Taken,
}

#[derive(Clone)]
struct Tensor {
    range: Range<usize>,
    /// The queue and the index of the buffer, for a tensor from a queue.
    buffer: Option<(usize, usize)>,
}

/// The memory of cores that have ended, for reuse.
static SPARE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());
const MOST_SPARE: usize = 128;

impl Drop for LocalMemory {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let mut spare = lock(&SPARE);
        if bytes.capacity() > 0 && spare.len() < MOST_SPARE {
            spare.push(bytes);
        }
    }
}

impl LocalMemory {
    pub(super) fn new(program: &Program, product: Product) -> LocalMemory {
        let any = !program.queues.is_empty() || !program.scratches.is_empty();
        let mut bytes = if any { lock(&SPARE).pop().unwrap_or_default() } else { Vec::new() };
        bytes.clear();
        LocalMemory {
            bytes,
            limit: usable(product, program.mix.synchronises()),
            queues: program.queues.iter().map(|_| None).collect(),
            scratches: vec![None; program.scratches.len()],
            tensors: vec![None; program.locals.len()],
        }
    }

    fn take(&mut self, length: u64) -> Result<Range<usize>, String> {
        let used = self.bytes.len() as u64;
        let end = length
            .checked_next_multiple_of(ALIGNMENT)
            .and_then(|length| used.checked_add(length))
            .filter(|end| *end <= self.limit);
        let Some(end) = end else {
            return Err(format!(
                "a buffer of {length} bytes does not fit: a kernel can use {} bytes of local \
                 memory, of which {} are left; use smaller or fewer buffers",
                self.limit,
                self.limit - used
            ));
        };
        self.bytes.resize(end as usize, UNWRITTEN);
        Ok(used as usize..used as usize + length as usize)
    }

    /// Implements `InitBuffer` of a queue: gives the queue its buffers, with `length` bytes each.
    pub(super) fn init_queue(
        &mut self,
        program: &Program,
        id: QueueId,
        length: u64,
    ) -> Result<(), String> {
        let declared = &program.queues[id.0 as usize];
        let name = &declared.name;
        if self.queues[id.0 as usize].is_some() {
            return Err(format!(
                "the queue {name} has buffers already; call InitBuffer once for it"
            ));
        }
        let position = declared.what.position;
        let others = program.queues.iter().zip(&self.queues);
        let others = others.filter(|(other, _)| other.what.position == position);
        let others: usize = others.map(|(_, q)| q.as_ref().map_or(0, |q| q.buffers.len())).sum();
        let count = usize::from(declared.what.buffers);
        if others + count > MOST_BUFFERS {
            return Err(format!(
                "the queues of {position:?} would have {} buffers together; use at most \
                 {MOST_BUFFERS}",
                others + count
            ));
        }
        let buffers: Result<Vec<_>, String> = (0..count).map(|_| self.take(length)).collect();
        let states = vec![BufferState::Free; count];
        let filled = VecDeque::with_capacity(count);
        self.queues[id.0 as usize] =
            Some(BufferQueue { buffers: buffers?, states, filled, next: 0 });
        Ok(())
    }

    /// Implements `InitBuffer` of a buffer without a queue.
    pub(super) fn init_scratch(
        &mut self,
        program: &Program,
        id: ScratchId,
        length: u64,
    ) -> Result<(), String> {
        if self.scratches[id.0 as usize].is_some() {
            return Err(format!(
                "{} has a buffer already; call InitBuffer once for it",
                program.scratches[id.0 as usize].name
            ));
        }
        self.scratches[id.0 as usize] = Some(self.take(length)?);
        Ok(())
    }

    fn queue(&mut self, program: &Program, id: QueueId) -> Result<&mut BufferQueue, String> {
        self.queues[id.0 as usize].as_mut().ok_or_else(|| {
            format!(
                "the queue {} has no buffers yet; call InitBuffer first",
                program.queues[id.0 as usize].name
            )
        })
    }

    /// Implements `AllocTensor`: gives a free buffer of the queue to a tensor.
    pub(super) fn alloc(
        &mut self,
        program: &Program,
        id: QueueId,
        tensor: LocalId,
    ) -> Result<(), String> {
        let queue = self.queue(program, id)?;
        let count = queue.buffers.len();
        let free = (0..count).map(|n| (queue.next + n) % count);
        let Some(free) = free.into_iter().find(|n| queue.states[*n] == BufferState::Free) else {
            return Err(format!(
                "all {count} buffers of the queue {} are in use, so AllocTensor waits for ever: each must be freed (FreeTensor)",
                program.queues[id.0 as usize].name
            ));
        };
        queue.states[free] = BufferState::Allocated;
        queue.next = (free + 1) % count;
        let range = queue.buffers[free].clone();
        self.tensors[tensor.0 as usize] =
            Some(Tensor { range, buffer: Some((id.0 as usize, free)) });
        Ok(())
    }

    /// Returns the index of the buffer of a tensor in a queue. The buffer must be in one of the
    /// states `wanted`.
    fn buffer(
        &mut self,
        program: &Program,
        id: QueueId,
        tensor: LocalId,
        wanted: &[BufferState],
        what: &str,
    ) -> Result<usize, String> {
        let name = &program.locals[tensor.0 as usize].name;
        let queue = &program.queues[id.0 as usize].name;
        let buffer = self.tensors[tensor.0 as usize].as_ref().and_then(|tensor| tensor.buffer);
        match buffer {
            Some((of, number)) if of == id.0 as usize => {
                let state = self.queue(program, id)?.states[number];
                if wanted.contains(&state) {
                    return Ok(number);
                }
                let is = match state {
                    BufferState::Free => "free",
                    BufferState::Allocated => "allocated and not enqueued",
                    BufferState::Filled => "enqueued and not dequeued",
                    BufferState::Taken => "dequeued",
                };
                Err(format!(
                    "{what} of {name}, whose buffer of the queue {queue} is {is}; call \
                     AllocTensor, EnQue, DeQue and FreeTensor in this order"
                ))
            }
            _ => Err(format!(
                "{what} of {name}, which is not a buffer of the queue {queue}; pass a tensor \
                 from AllocTensor or DeQue of this queue"
            )),
        }
    }

    /// Implements `EnQue`: enqueues the buffer of a tensor.
    pub(super) fn enqueue(
        &mut self,
        program: &Program,
        id: QueueId,
        tensor: LocalId,
    ) -> Result<(), String> {
        let number = self.buffer(program, id, tensor, &[BufferState::Allocated], "EnQue")?;
        let queue = self.queue(program, id)?;
        queue.states[number] = BufferState::Filled;
        queue.filled.push_back(number);
        Ok(())
    }

    /// Implements `DeQue`: gives the oldest enqueued buffer to a tensor.
    pub(super) fn dequeue(
        &mut self,
        program: &Program,
        id: QueueId,
        tensor: LocalId,
    ) -> Result<(), String> {
        let queue = self.queue(program, id)?;
        let Some(number) = queue.filled.pop_front() else {
            return Err(format!(
                "nothing is enqueued in the queue {}, so DeQue waits for ever; call EnQue before \
                 it",
                program.queues[id.0 as usize].name
            ));
        };
        queue.states[number] = BufferState::Taken;
        let range = queue.buffers[number].clone();
        self.tensors[tensor.0 as usize] =
            Some(Tensor { range, buffer: Some((id.0 as usize, number)) });
        Ok(())
    }

    /// Implements `FreeTensor`: frees the buffer of a tensor.
    pub(super) fn free(
        &mut self,
        program: &Program,
        id: QueueId,
        tensor: LocalId,
    ) -> Result<(), String> {
        let states = [BufferState::Allocated, BufferState::Taken];
        let number = self.buffer(program, id, tensor, &states, "FreeTensor")?;
        self.queue(program, id)?.states[number] = BufferState::Free;
        self.tensors[tensor.0 as usize] = None;
        Ok(())
    }

    /// Returns the index and the byte range of the queue's buffer that a tensor has. `None` if the
    /// tensor has no buffer of a queue.
    pub(super) fn held(&self, tensor: LocalId) -> Option<(usize, Range<usize>)> {
        let tensor = self.tensors[tensor.0 as usize].as_ref()?;
        tensor.buffer.map(|(_, number)| (number, tensor.range.clone()))
    }

    /// Overwrites a range whose content is no longer defined.
    pub(super) fn decay(&mut self, range: Range<usize>) {
        let end = range.end.min(self.bytes.len());
        if let Some(bytes) = self.bytes.get_mut(range.start..end) {
            bytes.fill(UNWRITTEN);
        }
    }

    /// Implements `TBuf::Get`: gives the buffer without a queue to a tensor.
    pub(super) fn get(
        &mut self,
        program: &Program,
        id: ScratchId,
        tensor: LocalId,
    ) -> Result<(), String> {
        let Some(range) = self.scratches[id.0 as usize].clone() else {
            let name = &program.scratches[id.0 as usize].name;
            return Err(format!("{name} has no buffer yet; call InitBuffer first"));
        };
        self.tensors[tensor.0 as usize] = Some(Tensor { range, buffer: None });
        Ok(())
    }

    /// Returns the byte range of some elements of a tensor. `offset` and `count` are in elements.
    pub(super) fn place(
        &self,
        program: &Program,
        local: &Local,
        offset: u64,
        count: u64,
    ) -> Result<Range<usize>, String> {
        let declared = &program.locals[local.tensor.0 as usize];
        let size = u64::from(declared.what.size());
        let Some(tensor) = &self.tensors[local.tensor.0 as usize] else {
            return Err(format!(
                "{} is not a tensor at this point; call AllocTensor, DeQue or Get before it is \
                 used",
                declared.name
            ));
        };
        let start = offset.checked_mul(size);
        let bytes = count.checked_mul(size);
        let end = start.zip(bytes).and_then(|(start, bytes)| start.checked_add(bytes));
        match (start, end) {
            (Some(start), Some(end)) if end <= tensor.range.len() as u64 => {
                Ok(tensor.range.start + start as usize..tensor.range.start + end as usize)
            }
            _ => Err(format!(
                "elements {offset} to {} of {} are touched, which has {}; touch fewer, or use a \
                 larger buffer",
                offset.saturating_add(count),
                declared.name,
                tensor.range.len() as u64 / size
            )),
        }
    }

    pub(super) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    pub(super) fn bytes_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        &mut self.bytes[range]
    }

    /// Returns the whole memory, for the arithmetic.
    pub(super) fn all(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Returns the element type of a tensor.
    pub(super) fn number(program: &Program, local: &Local) -> Number {
        program.locals[local.tensor.0 as usize].what
    }
}
