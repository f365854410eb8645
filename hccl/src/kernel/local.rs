//! The local memory of a vector core: its queues, buffers and tensors, and the copies between it
//! and global memory.

mod pieces;

pub use pieces::{Amount, Pieces};

use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;

use ascend_program::step::{Buffer, Copy as Move, Local, Read, Step};
use ascend_program::{
    Core, Declared, LocalId, Of, Queue as QueueOf, QueueId, Scratch as ScratchOf, ScratchId,
};

use super::control::Kernel;
use super::count::Count;
use super::record::{self, Caller, Id, KernelRecorder, NamedKind};
use super::tensor::{Input, Output, number, rename};
use super::value::{Recordable, Scalar, Value};
use crate::dtype::Element;

/// The direction in which a [`Queue`] passes its tensors (`TPosition`).
///
/// ```
/// use hccl::kernel::*;
///
/// #[kernel(mix = "aiv_only")]
/// fn own(k: Kernel, x: Input<f32>, y: Output<f32>) {
///     let inputs = k.queue::<f32>(Position::VecIn, 2, 64);
///     let outputs = k.queue::<f32>(Position::VecOut, 2, 64);
///     let (a, b) = (inputs.alloc(), outputs.alloc());
///     k.copy_in(&a, x, 64);
///     inputs.enqueue(a);
///     let a = inputs.dequeue();
///     k.relu(&b, &a, 64);
///     inputs.free(a);
///     outputs.enqueue(b);
///     let b = outputs.dequeue();
///     k.copy_out(y, &b, 64);
///     outputs.free(b);
/// }
/// # fn main() -> hccl::Result<()> {
/// # own::record()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Position {
    /// From global memory to the vector unit (`VECIN`).
    VecIn,
    /// From the vector unit to global memory (`VECOUT`).
    VecOut,
}

/// A queue of buffers in local memory, which pass from one unit of the core to the next (`TQue`).
/// Made by [`Kernel::queue`].
///
/// Buffers circulate as tensors. [`alloc`](Self::alloc) waits for a free buffer. The unit that
/// fills the tensor passes it on with [`enqueue`](Self::enqueue). The unit that uses the tensor
/// gets it with [`dequeue`](Self::dequeue) and gives it back with [`free`](Self::free). `enqueue`
/// and `free` consume the tensor, so a later use of it does not compile.
///
/// ```
/// use hccl::kernel::*;
///
/// /// `y = -x`, 256 elements on each core.
/// #[kernel(mix = "aiv_only")]
/// fn negate(k: Kernel, x: Input<f32>, y: Output<f32>) {
///     let inputs = k.queue::<f32>(Position::VecIn, 1, 256);
///     let outputs = k.queue::<f32>(Position::VecOut, 1, 256);
///     let start = k.block_index().cast::<u64>() * 256;
///
///     let a = inputs.alloc();
///     k.copy_in(&a, x.at(start), 256);
///     inputs.enqueue(a); // the copy may still be running
///
///     let a = inputs.dequeue(); // waits for the copy
///     let b = outputs.alloc();
///     k.muls(&b, &a, -1.0, 256);
///     inputs.free(a);
///     outputs.enqueue(b);
///
///     let b = outputs.dequeue();
///     k.copy_out(y.at(start), &b, 256);
///     outputs.free(b);
/// }
/// # fn main() -> hccl::Result<()> {
/// # use hccl::prelude::*;
/// # let device = Runtime::emulator(1)?.device(0)?;
/// # let stream = device.stream()?;
/// # let x = device.upload(&[2.0_f32; 512], &stream)?;
/// # let mut y = device.zeros::<f32>(512, &stream)?;
/// # let mut kernel = negate::record()?.load(&device)?;
/// # kernel.launch(2).input(&x).output(&mut y).submit(&stream)?.wait()?;
/// # assert_eq!(y.to_vec(&stream).wait()?, [-2.0; 512]);
/// # Ok(())
/// # }
/// ```
pub struct Queue<E> {
    recording: u64,
    queue: QueueId,
    of: PhantomData<fn() -> E>,
}

/// A buffer in local memory for intermediate results (`TBuf`), made by [`Kernel::scratch`].
///
/// ```
/// use hccl::kernel::*;
///
/// /// Each core puts the sum of its 64 elements into `y`.
/// #[kernel(mix = "aiv_only")]
/// fn sums(k: Kernel, x: Input<f32>, y: Output<f32>) {
///     let inputs = k.queue::<f32>(Position::VecIn, 1, 64);
///     let sum = k.scratch::<f32>(8).get();
///     let work = k.scratch::<f32>(64).get();
///     let core = k.block_index();
///     let a = inputs.alloc();
///     k.copy_in(&a, x.at(core * 64), 64);
///     inputs.enqueue(a);
///     let a = inputs.dequeue();
///     k.reduce_sum(&sum, &a, &work, 64);
///     inputs.free(a);
///     k.wait_for(Pipe::Out, Pipe::Vector); // the copy out waits for the sum
///     k.copy_out(y.at(core), &sum, 1);
/// }
/// # fn main() -> hccl::Result<()> {
/// # use hccl::prelude::*;
/// # let device = Runtime::emulator(1)?.device(0)?;
/// # let stream = device.stream()?;
/// # let x = device.upload(&[2.0_f32; 256], &stream)?;
/// # let mut y = device.zeros::<f32>(4, &stream)?;
/// # let mut kernel = sums::record()?.load(&device)?;
/// # kernel.launch(4).input(&x).output(&mut y).submit(&stream)?.wait()?;
/// # assert_eq!(y.to_vec(&stream).wait()?, [128.0; 4]);
/// # Ok(())
/// # }
/// ```
pub struct Scratch<E> {
    recording: u64,
    scratch: ScratchId,
    of: PhantomData<fn() -> E>,
}

/// A tensor in local memory (`LocalTensor`).
///
/// ```
/// use hccl::kernel::*;
///
/// #[kernel(mix = "aiv_only")]
/// fn own(k: Kernel, x: Input<f32>, y: Output<f32>) {
///     let a: LocalTensor<f32> = k.scratch::<f32>(64).get();
///     k.copy_in(&a, x, 64);
///     k.wait_for(Pipe::Out, Pipe::In); // the copy out waits for the copy in
///     k.copy_out(y, &a, 64);
/// }
/// # fn main() -> hccl::Result<()> {
/// # own::record()?;
/// # Ok(())
/// # }
/// ```
pub struct LocalTensor<E> {
    recording: u64,
    local: LocalId,
    of: PhantomData<fn() -> E>,
}

/// The part of a [`LocalTensor`] from some element on. A call that takes a slice also takes a
/// `&LocalTensor`.
///
/// ```
/// use hccl::kernel::*;
///
/// #[kernel(mix = "aiv_only")]
/// fn own(k: Kernel, x: Input<f32>, y: Output<f32>) {
///     let a = k.scratch::<f32>(64).get();
///     k.copy_in(&a, x, 64);
///     k.wait_for(Pipe::Out, Pipe::In); // the copy out waits for the copy in
///     let half: LocalSlice<f32> = a.at(32); // from element 32 on
///     k.copy_out(y, half, 32);
/// }
/// # fn main() -> hccl::Result<()> {
/// # own::record()?;
/// # Ok(())
/// # }
/// ```
pub struct LocalSlice<E> {
    recording: u64,
    local: LocalId,
    offset: Option<Id>,
    of: PhantomData<fn() -> E>,
}

impl<E> Clone for LocalSlice<E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for LocalSlice<E> {}

impl<E> From<&LocalTensor<E>> for LocalSlice<E> {
    fn from(tensor: &LocalTensor<E>) -> Self {
        let LocalTensor { recording, local, .. } = *tensor;
        LocalSlice { recording, local, offset: None, of: PhantomData }
    }
}

macro_rules! debug {
    ($($name:ident)*) => {$(
        impl<E: Element> fmt::Debug for $name<E> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "<{}>"), E::DTYPE)
            }
        }
    )*};
}

debug!(Queue Scratch LocalTensor LocalSlice);

impl<T> Kernel<T> {
    /// Makes a queue of `buffers` buffers, from 1 to 8, of `length` elements each (`InitBuffer`).
    /// With 2 buffers, one can be filled while the other is used.
    #[track_caller]
    pub fn queue<E: Element>(
        self,
        position: Position,
        buffers: u8,
        length: impl Count,
    ) -> Queue<E> {
        let length = length.count();
        let queue = record::with(self.recording, Location::caller(), |recorder| {
            recorder.only_on(Core::Aiv, "a queue");
            if !(1..=8).contains(&buffers) {
                recorder.mistake(format!(
                    "a queue has 1 to 8 buffers, not {buffers}: pass a number from 1 to 8"
                ));
            }
            let length = length.value(recorder);
            let (position, name) = match position {
                Position::VecIn => (ascend_program::Position::VecIn, "queue_in"),
                Position::VecOut => (ascend_program::Position::VecOut, "queue_out"),
            };
            let queue = QueueId(recorder.program.queues.len() as u32);
            let name = recorder.unique(name);
            let what = QueueOf { number: number::<E>(), position, buffers, length };
            recorder.program.queues.push(Declared { name, what });
            recorder.step(Step::Buffer(Buffer::InitQueue(queue)));
            queue
        });
        let (recording, queue) = queue.map_or((0, QueueId(0)), |queue| (self.recording, queue));
        Queue { recording, queue, of: PhantomData }
    }

    /// Makes a buffer of `length` elements for intermediate results (`InitBuffer` of a `TBuf`). The
    /// buffer does not order its uses. If two units use it, order their uses with
    /// [`wait_for`](Self::wait_for): a launch is refused if the uses are not ordered.
    #[track_caller]
    pub fn scratch<E: Element>(self, length: impl Count) -> Scratch<E> {
        let length = length.count();
        let scratch = record::with(self.recording, Location::caller(), |recorder| {
            recorder.only_on(Core::Aiv, "a scratch buffer");
            let length = length.value(recorder);
            let scratch = ScratchId(recorder.program.scratches.len() as u32);
            let name = recorder.unique("scratch");
            let what = ScratchOf { number: number::<E>(), length };
            recorder.program.scratches.push(Declared { name, what });
            recorder.step(Step::Buffer(Buffer::InitScratch(scratch)));
            scratch
        });
        let (recording, scratch) = scratch.map_or((0, ScratchId(0)), |s| (self.recording, s));
        Scratch { recording, scratch, of: PhantomData }
    }

    /// Copies from global to local memory (`DataCopyPad`). `amount` is a number of elements, or
    /// [`Pieces`].
    #[track_caller]
    pub fn copy_in<E: Element>(
        self,
        to: impl Into<LocalSlice<E>>,
        from: impl Into<Input<E>>,
        amount: impl Amount,
    ) {
        let (to, from, pieces) = (to.into(), from.into(), amount.pieces());
        record::with(self.recording, Location::caller(), |recorder| {
            recorder.only_on(Core::Aiv, "a copy into local memory");
            let (to, pieces) = (to.place(recorder), pieces.steps(recorder));
            let from = from.spot(recorder).place(recorder, number::<E>());
            recorder.step(Step::Copy(Move::In { to, from, pieces }));
        });
    }

    /// Copies from local to global memory (`DataCopyPad`). `amount` is a number of elements, or
    /// [`Pieces`].
    #[track_caller]
    pub fn copy_out<E: Element>(
        self,
        to: Output<E>,
        from: impl Into<LocalSlice<E>>,
        amount: impl Amount,
    ) {
        self.out(to, from.into(), amount.pieces(), false, Location::caller());
    }

    /// Adds elements in local memory to elements in global memory (`DataCopyPad` after
    /// `SetAtomicAdd`). Several cores may add to the same elements at the same time. `E` must be
    /// `i8`, `i16`, `i32`, `f16`, `bf16` or `f32`.
    #[track_caller]
    pub fn copy_out_add<E: Element>(
        self,
        to: Output<E>,
        from: impl Into<LocalSlice<E>>,
        amount: impl Amount,
    ) {
        self.out(to, from.into(), amount.pieces(), true, Location::caller());
    }

    fn out<E: Element>(
        self,
        to: Output<E>,
        from: LocalSlice<E>,
        pieces: Pieces,
        add: bool,
        here: Caller,
    ) {
        record::with(self.recording, here, |recorder| {
            recorder.only_on(Core::Aiv, "a copy out of local memory");
            if add && !matches!(E::DTYPE.name(), "i8" | "i16" | "i32" | "f16" | "bf16" | "f32") {
                recorder.mistake(format!(
                    "a copy adds to i8, i16, i32, f16, bf16 or f32, not to {}: use one of these \
                     types",
                    E::DTYPE
                ));
            }
            let (from, pieces) = (from.place(recorder), pieces.steps(recorder));
            let to = to.spot(recorder).place(recorder, number::<E>());
            recorder.step(Step::Copy(Move::Out { to, from, pieces, add }));
        });
    }
}

/// Declares a tensor in local memory, and records the step that yields it.
fn tensor<E: Element>(
    recording: u64,
    here: Caller,
    buffer: impl FnOnce(LocalId) -> Buffer,
) -> LocalTensor<E> {
    let local = record::with(recording, here, |recorder| {
        let local = LocalId(recorder.program.locals.len() as u32);
        let name = recorder.unique("tensor");
        recorder.program.locals.push(Declared { name, what: number::<E>() });
        recorder.held.push(true);
        recorder.step(Step::Buffer(buffer(local)));
        local
    });
    let (recording, local) = local.map_or((0, LocalId(0)), |local| (recording, local));
    LocalTensor { recording, local, of: PhantomData }
}

impl<E: Element> Queue<E> {
    /// Waits for a free buffer and returns it (`AllocTensor`).
    #[track_caller]
    pub fn alloc(&self) -> LocalTensor<E> {
        let queue = self.queue;
        tensor(self.recording, Location::caller(), |local| Buffer::Alloc(queue, local))
    }

    /// Passes a filled tensor on to the unit that dequeues it (`EnQue`).
    #[track_caller]
    pub fn enqueue(&self, tensor: LocalTensor<E>) {
        self.give(tensor, Buffer::Enqueue, Location::caller());
    }

    /// Waits for the next filled tensor and returns it (`DeQue`).
    #[track_caller]
    pub fn dequeue(&self) -> LocalTensor<E> {
        let queue = self.queue;
        tensor(self.recording, Location::caller(), |local| Buffer::Dequeue(queue, local))
    }

    /// Gives a tensor back, so that its buffer can be filled again (`FreeTensor`).
    #[track_caller]
    pub fn free(&self, tensor: LocalTensor<E>) {
        self.give(tensor, Buffer::Free, Location::caller());
    }

    fn give(
        &self,
        tensor: LocalTensor<E>,
        how: impl FnOnce(QueueId, LocalId) -> Buffer,
        here: Caller,
    ) {
        record::with(self.recording, here, |recorder| {
            let Local { tensor, .. } = LocalSlice::from(&tensor).place(recorder);
            if let Some(held) = recorder.held.get_mut(tensor.0 as usize) {
                *held = false;
            }
            recorder.step(Step::Buffer(how(self.queue, tensor)));
        });
    }
}

impl<E: Element> Scratch<E> {
    /// Returns the buffer as a tensor (`Get`). Every call returns the same memory.
    #[track_caller]
    pub fn get(&self) -> LocalTensor<E> {
        let scratch = self.scratch;
        tensor(self.recording, Location::caller(), |local| Buffer::Get(scratch, local))
    }
}

impl<E: Element> LocalTensor<E> {
    /// Returns the part of the tensor from element `offset` on. A slice for the vector unit or for
    /// a copy must begin at a multiple of 32 bytes.
    #[track_caller]
    pub fn at(&self, offset: impl Count) -> LocalSlice<E> {
        let offset = offset.count();
        let here = Location::caller();
        let offset = record::with(self.recording, here, |recorder| offset.id(recorder));
        LocalSlice { offset, ..LocalSlice::from(self) }
    }

    /// Reads one element (`GetValue`). The read does not wait for the vector unit or for a copy:
    /// order it after them with [`Kernel::wait_for`].
    #[track_caller]
    pub fn get(&self, index: impl Count) -> Value<E>
    where
        E: Scalar,
    {
        let (index, here) = (index.count(), Location::caller());
        Value::new(record::fresh(self.recording, here, |recorder| {
            let offset = Some(index.id(recorder));
            let place = LocalSlice { offset, ..LocalSlice::from(self) }.place(recorder);
            let variable = recorder.variable("element", E::NUMBER);
            recorder.step(Step::Read(variable, Read::Local(place)));
            (Of::Variable(variable), E::NUMBER)
        }))
    }

    /// Writes one element (`SetValue`). Other units do not wait for the write: order their later
    /// uses after it with [`Kernel::wait_for`].
    #[track_caller]
    pub fn set(&self, index: impl Count, value: impl Into<Value<E>>)
    where
        E: Scalar,
    {
        let (index, value, here) = (index.count(), value.into(), Location::caller());
        record::with(self.recording, here, |recorder| {
            let offset = Some(index.id(recorder));
            let to = LocalSlice { offset, ..LocalSlice::from(self) }.place(recorder);
            let value = recorder.own(value.handle, E::NUMBER);
            let value = recorder.value(value);
            recorder.step(Step::Copy(Move::SetLocal { to, value }));
        });
    }
}

impl<E: Element> LocalSlice<E> {
    /// Returns the place of the slice in the program. Notes a mistake if the slice belongs to
    /// another recording, or if its tensor was passed on or given back.
    pub(super) fn place(self, recorder: &mut KernelRecorder) -> Local {
        if self.recording != recorder.number {
            recorder.foreign();
            return Local { tensor: LocalId(0), offset: None };
        }
        if recorder.held.get(self.local.0 as usize) == Some(&false) {
            let name = recorder.program.locals[self.local.0 as usize].name.clone();
            recorder.mistake(format!(
                "`{name}` is used after it was passed on or given back: use it earlier, or get a \
                 new tensor"
            ));
        }
        Local { tensor: self.local, offset: self.offset.map(|offset| recorder.value(offset)) }
    }
}

macro_rules! recordable {
    ($($name:ident $field:ident $kind:ident)*) => {$(
        impl<E> Recordable for $name<E> {
            #[track_caller]
            fn name(&self, name: &str) {
                rename(self.recording, Location::caller(), NamedKind::$kind, self.$field.0, name);
            }
        }
    )*};
}

recordable!(Queue queue Queue Scratch scratch Scratch LocalTensor local Local);
