//! Tensors in global memory: the arguments of a kernel, its workspace, and the windows of the
//! ranks.

use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;

use ascend_program::layout::Number;
use ascend_program::step::{Base, Copy as Move, Place, Read, Step};
use ascend_program::{Binary, ClientId, Of, Parameter, ValueId, WorkspaceView};

use super::count::{Count, Counted};
use super::record::{self, Caller, Id, KernelRecorder, NamedKind};
use super::value::{Recordable, Scalar, Value, named};
use crate::dtype::{DType, Element};

/// Marks memory that a kernel may only read.
///
/// ```
/// use hccl::kernel::*;
///
/// #[kernel(mix = "aiv_only")]
/// fn own(k: Kernel, x: Input<f32>, y: Output<f32>) {
///     let core = k.block_index().cast::<u64>();
///     let first: Global<f32, Reads> = x; // the same as `Input<f32>`
///     y.set(core * 16, first.get(core));
///     y.clean(core * 16);
/// }
/// # fn main() -> hccl::Result<()> {
/// # own::record()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub enum Reads {}

/// Marks memory that a kernel may read and write.
///
/// ```
/// use hccl::kernel::*;
///
/// #[kernel(mix = "aiv_only")]
/// fn own(k: Kernel, x: Input<f32>, y: Output<f32>) {
///     let core = k.block_index().cast::<u64>();
///     let result: Global<f32, Writes> = y; // the same as `Output<f32>`
///     result.set(core * 16, x.get(core));
///     result.clean(core * 16);
/// }
/// # fn main() -> hccl::Result<()> {
/// # own::record()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub enum Writes {}

/// A tensor in global memory that a kernel reads: an argument, or the part of an argument from some
/// element on.
///
/// ```
/// use hccl::kernel::*;
///
/// #[kernel(mix = "aiv_only")]
/// fn own(k: Kernel, x: Input<f32>, y: Output<f32>) {
///     let core = k.block_index().cast::<u64>();
///     let mine: Input<f32> = x.at(core * 16); // each core has 16 elements
///     y.set(core * 16, mine.get(0));
///     y.clean(core * 16);
/// }
/// # fn main() -> hccl::Result<()> {
/// # own::record()?;
/// # Ok(())
/// # }
/// ```
pub type Input<E> = Global<E, Reads>;

/// A tensor in global memory that a kernel writes and may read. It is an argument, a workspace or a
/// window, or the part of one of these tensors from some element on.
///
/// ```
/// use hccl::kernel::*;
///
/// #[kernel(mix = "aiv_only")]
/// fn own(k: Kernel, x: Input<f32>, y: Output<f32>) {
///     let core = k.block_index().cast::<u64>();
///     let mine: Output<f32> = y.at(core * 16); // each core has 16 elements
///     mine.set(0, x.get(core * 16));
///     mine.clean(0); // writes it to memory, where others see it
/// }
/// # fn main() -> hccl::Result<()> {
/// # own::record()?;
/// # Ok(())
/// # }
/// ```
pub type Output<E> = Global<E, Writes>;

/// A tensor in global memory: the elements from some place on (`GlobalTensor`). [`Input`] and
/// [`Output`] are its two kinds.
///
/// ```
/// use hccl::kernel::*;
///
/// /// Copies one element, from an input or an output.
/// fn copy_one<A>(k: Kernel, from: Global<f32, A>, to: Output<f32>) {
///     let start = k.block_index() * 16;
///     to.set(start, from.get(start));
///     to.clean(start);
/// }
///
/// #[kernel(mix = "aiv_only")]
/// fn own(k: Kernel, x: Input<f32>, y: Output<f32>) {
///     copy_one(k, x, y);
/// }
/// # fn main() -> hccl::Result<()> {
/// # own::record()?;
/// # Ok(())
/// # }
/// ```
pub struct Global<E, A> {
    recording: u64,
    spot: Spot,
    of: PhantomData<fn() -> (E, A)>,
}

/// A place in global memory. Its offset and its base refer to values in the arena.
#[derive(Clone, Copy)]
pub(super) struct Spot {
    base: Root,
    /// The offset from the base in elements; `None` if the place is the base itself.
    offset: Option<Id>,
}

#[derive(Clone, Copy)]
enum Root {
    Parameter(u32),
    /// The workspace, from this byte on.
    Workspace(Id),
    WindowIn(ClientId, Id),
    WindowOut(ClientId, Id),
}

impl<E, A> Clone for Global<E, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E, A> Copy for Global<E, A> {}

impl<E: Element, A> fmt::Debug for Global<E, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Global<{}>", E::DTYPE)
    }
}

/// Returns the number type that stands for an element type in a program.
pub(super) fn number<E: Element>() -> Number {
    match E::DTYPE {
        DType::I8 => Number::I8,
        DType::I16 => Number::I16,
        DType::I32 => Number::I32,
        DType::F16 => Number::F16,
        DType::F32 => Number::F32,
        DType::I64 => Number::I64,
        DType::U64 => Number::U64,
        DType::U8 => Number::U8,
        DType::U16 => Number::U16,
        DType::U32 => Number::U32,
        DType::F64 => Number::F64,
        DType::BF16 => Number::Bf16,
    }
}

impl<E: Element, A> Global<E, A> {
    fn new(recording: u64, base: Root) -> Self {
        Global { recording, spot: Spot { base, offset: None }, of: PhantomData }
    }

    /// Returns the part of the tensor from an element on. `offset` is the number of elements from
    /// the start of this tensor. In Ascend C the part is `tensor[offset]`, or an address to which
    /// the offset in bytes is added.
    #[track_caller]
    pub fn at(self, offset: impl Count) -> Self {
        let offset = offset.count();
        let moved = record::with(self.recording, Location::caller(), |recorder| {
            let offset = match self.spot.offset {
                None => offset.id(recorder),
                Some(so_far) => {
                    let more = offset.id(recorder);
                    let (a, b, number) = match (recorder.number(so_far), recorder.number(more)) {
                        (a, b) if a == b => (so_far, more, a),
                        _ => (widen(recorder, so_far), widen(recorder, more), Number::U64),
                    };
                    recorder.push(Of::Binary(Binary::Add, ValueId(a.0), ValueId(b.0)), number)
                }
            };
            Spot { offset: Some(offset), ..self.spot }
        });
        Global { spot: moved.unwrap_or(self.spot), ..self }
    }

    /// Reads one element, through the cache of the core (`GlobalTensor::GetValue`). The core sees
    /// writes of another core, of the server or of another device only after
    /// [`clean`](Self::clean).
    #[track_caller]
    pub fn get(self, index: impl Count) -> Value<E>
    where
        E: Scalar,
    {
        let here = Location::caller();
        let spot = self.at(index).spot;
        Value::new(record::fresh(self.recording, here, |recorder| {
            let place = spot.place(recorder, number::<E>());
            let variable = recorder.variable("element", E::NUMBER);
            recorder.step(Step::Read(variable, Read::Global(place)));
            (Of::Variable(variable), E::NUMBER)
        }))
    }

    /// Cleans the cache line of 64 bytes that contains an element (`DataCacheCleanAndInvalid`). If
    /// this core has changed the line, the line is written to memory. Then the line is dropped from
    /// the cache of the core. Call this method before you read elements that another core, the
    /// server or another device has written, and after you write elements that they will read.
    #[track_caller]
    pub fn clean(self, index: impl Count) {
        let here = Location::caller();
        let spot = self.at(index).spot;
        record::with(self.recording, here, |recorder| {
            let place = spot.place(recorder, number::<E>());
            recorder.step(Step::Copy(Move::Clean(place)));
        });
    }

    /// Returns a matrix that begins at the first element of this tensor. `pitch` is the number of
    /// elements from the start of a row to the start of the next row.
    pub fn matrix(self, pitch: impl Count) -> Matrix<E, A> {
        Matrix { tensor: self, pitch: pitch.count() }
    }

    /// Returns the same tensor as an [`Input`], which can only be read.
    pub fn as_input(self) -> Input<E> {
        Global { recording: self.recording, spot: self.spot, of: PhantomData }
    }

    /// Returns the place of the tensor, for a step. Notes a mistake if the tensor belongs to
    /// another recording.
    pub(super) fn spot(self, recorder: &mut KernelRecorder) -> Spot {
        if self.recording != recorder.number {
            recorder.foreign();
            return Spot { base: Root::Parameter(0), offset: None };
        }
        self.spot
    }
}

impl<E: Element, A> Recordable for Global<E, A> {
    /// Names a workspace that begins at a constant byte. Other tensors get no name here: an
    /// argument has the name of its parameter, and the program queries a window wherever it uses
    /// the window.
    #[track_caller]
    fn name(&self, name: &str) {
        let Spot { base: Root::Workspace(from), offset: None } = self.spot else { return };
        named(self.recording, Location::caller(), |recorder| {
            if let Some(byte) = recorder.known(from) {
                recorder.name_view(WorkspaceView { number: number::<E>(), byte }, name);
            }
        });
    }
}

impl<E: Element> Output<E> {
    /// Writes one element, through the cache of the core (`GlobalTensor::SetValue`). Other cores,
    /// the server and other devices see the write only after [`clean`](Self::clean). Until then,
    /// other cores must not write to the same line of 64 bytes.
    #[track_caller]
    pub fn set(self, index: impl Count, value: impl Into<Value<E>>)
    where
        E: Scalar,
    {
        let (here, value) = (Location::caller(), value.into());
        let spot = self.at(index).spot;
        record::with(self.recording, here, |recorder| {
            let to = spot.place(recorder, number::<E>());
            let value = recorder.own(value.handle, E::NUMBER);
            let value = recorder.value(value);
            recorder.step(Step::Copy(Move::Set { to, value }));
        });
    }

    /// Returns the user's part of the workspace, from byte `byte` on.
    pub(super) fn workspace(recording: u64, byte: Counted, here: Caller) -> Self {
        let byte = record::with(recording, here, |recorder| {
            recorder.program.workspace = true;
            byte.wide(recorder)
        });
        Global::new(recording, Root::Workspace(byte.unwrap_or(Id(0))))
    }

    /// Returns a window of a rank: the input window if `input` is set, and otherwise the output
    /// window.
    pub(super) fn window(
        recording: u64,
        client: ClientId,
        rank: Counted,
        input: bool,
        here: Caller,
    ) -> Self {
        let rank = record::with(recording, here, |recorder| rank.id(recorder)).unwrap_or(Id(0));
        let root = if input { Root::WindowIn(client, rank) } else { Root::WindowOut(client, rank) };
        Global::new(recording, root)
    }
}

impl<E: Element> From<Output<E>> for Input<E> {
    fn from(output: Output<E>) -> Self {
        output.as_input()
    }
}

fn widen(recorder: &mut KernelRecorder, id: Id) -> Id {
    match recorder.number(id) {
        Number::U64 => id,
        _ => recorder.push(Of::Cast(ValueId(id.0)), Number::U64),
    }
}

impl Spot {
    /// Returns the place in the program, for a step of the current block.
    pub fn place(self, recorder: &mut KernelRecorder, element: Number) -> Place {
        let offset = match (self.base, self.offset) {
            (Root::Parameter(_), Some(offset)) => offset,
            (Root::Parameter(_), None) => recorder.push(Of::Constant(0), Number::U64),
            // From other bases, offsets are in bytes.
            (base, offset) => {
                let bytes = offset.map(|offset| {
                    let offset = widen(recorder, offset);
                    let size = recorder.push(Of::Constant(u64::from(element.size())), Number::U64);
                    let times = Of::Binary(Binary::Mul, ValueId(offset.0), ValueId(size.0));
                    recorder.push(times, Number::U64)
                });
                match (base, bytes) {
                    (Root::Workspace(from), None) => from,
                    (Root::Workspace(from), Some(bytes)) if recorder.known(from) == Some(0) => {
                        bytes
                    }
                    (Root::Workspace(from), Some(bytes)) => {
                        let sum = Of::Binary(Binary::Add, ValueId(from.0), ValueId(bytes.0));
                        recorder.push(sum, Number::U64)
                    }
                    (_, Some(bytes)) => bytes,
                    (_, None) => recorder.push(Of::Constant(0), Number::U64),
                }
            }
        };
        let base = match self.base {
            Root::Parameter(parameter) => Base::Parameter(parameter),
            Root::Workspace(_) => Base::Workspace,
            Root::WindowIn(client, rank) => Base::WindowIn(client, recorder.value(rank)),
            Root::WindowOut(client, rank) => Base::WindowOut(client, recorder.value(rank)),
        };
        Place { base, offset: recorder.value(offset) }
    }
}

/// A matrix in global memory, stored row by row. Made by [`Global::matrix`].
///
/// ```
/// use hccl::kernel::*;
/// use hccl::f16;
///
/// #[derive(Tiling)]
/// #[repr(C)]
/// struct Tiles { cube: TCubeTiling }
///
/// #[kernel(mix = "aic_only")]
/// fn product(k: Kernel<Tiles>, a: Input<f16>, b: Input<f16>, c: Output<f16>) {
///     let cube = k.tiling().cube;
///     let left: Matrix<f16, Reads> = a.matrix(cube.ka); // rows of `ka` elements
///     k.matmul::<f16, f16, f16>(&cube).multiply(
///         left,
///         b.matrix(cube.n),
///         c.matrix(cube.n),
///         (cube.m, cube.n, cube.ka),
///     );
/// }
/// # fn main() -> hccl::Result<()> {
/// # product::record()?;
/// # Ok(())
/// # }
/// ```
pub struct Matrix<E, A> {
    pub(super) tensor: Global<E, A>,
    pub(super) pitch: Counted,
}

impl<E, A> Clone for Matrix<E, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E, A> Copy for Matrix<E, A> {}

impl<E: Element, A> fmt::Debug for Matrix<E, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Matrix<{}>", E::DTYPE)
    }
}

/// A type that an argument of a kernel can have: an [`Input`] or an [`Output`].
///
/// ```
/// use hccl::kernel::*;
///
/// // Inputs come first, then outputs; numbers are in the tiling struct.
/// #[kernel(mix = "aiv_only")]
/// fn own(k: Kernel, x: Input<f32>, indices: Input<u32>, y: Output<f32>) {
///     let core = k.block_index();
///     y.set(core * 16, x.get(indices.get(core)));
///     y.clean(core * 16);
/// }
/// # fn main() -> hccl::Result<()> {
/// # own::record()?;
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a kernel",
    note = "after the `Kernel<..>`, a kernel takes all `Input<E>` and then all `Output<E>`; put numbers into the tiling struct"
)]
pub trait Argument {
    #[doc(hidden)]
    fn declare(recording: u64, name: &str, here: Caller) -> Self;
}

fn declare(recording: u64, name: &str, here: Caller, number: Number, output: bool) -> Root {
    let at = record::with(recording, here, |recorder| {
        if !output && recorder.program.parameters.iter().any(|earlier| earlier.output) {
            recorder.mistake(format!(
                "the input `{name}` comes after an output: CANN passes all inputs and then all \
                 outputs; move it before the outputs"
            ));
        }
        let name = recorder.unique(name);
        recorder.program.parameters.push(Parameter { name, number, output });
        recorder.program.parameters.len() as u32 - 1
    });
    Root::Parameter(at.unwrap_or(0))
}

impl<E: Element> Argument for Input<E> {
    fn declare(recording: u64, name: &str, here: Caller) -> Self {
        Global::new(recording, declare(recording, name, here, number::<E>(), false))
    }
}

impl<E: Element> Argument for Output<E> {
    fn declare(recording: u64, name: &str, here: Caller) -> Self {
        Global::new(recording, declare(recording, name, here, number::<E>(), true))
    }
}

/// Sets the name of an item that the program declares.
pub(super) fn rename(recording: u64, here: Caller, kind: NamedKind, at: u32, name: &str) {
    named(recording, here, |recorder| recorder.name(kind, at, name));
}
