//! The kernel itself: its tiling struct, its cores, and its loops and branches.

use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;

use ascend_program::layout::Number;
use ascend_program::step::Step;
use ascend_program::{Allowed, Core, Of, Program, Warning};

use super::count::{Bounds, Count};
use super::record::{self, Caller, KernelRecorder};
use super::symbol::TilingArgument;
use super::tensor::Output;
use super::value::{Scalar, Value, Variable};
use crate::dtype::Element;

/// A kernel while it is recorded: the first argument of a function with `#[kernel]`.
///
/// `T` is the tiling struct; a kernel without one takes a plain `Kernel`. A `Kernel` is `Copy`, so
/// closures and helper functions can take it by value. The steps of a helper are recorded where it
/// is called.
///
/// Rust code runs once, while the kernel is recorded. A closure that is passed to
/// [`range`](Self::range), [`when`](Self::when) or [`on_aiv`](Self::on_aiv) is also called once.
/// Its steps run as often as the loop or branch requires when the kernel runs. So a `for` of Rust
/// records its body several times, and `k.range` records a loop.
///
/// # Arithmetic of vectors
///
/// The vector unit computes [`add`](Self::add) and the other calls of this table. They work only on
/// vector cores, with tensors in local memory. Each tensor must begin at a multiple of 32 bytes.
/// The operands and the result have `count` elements, but the result of a reduction has one
/// element. A [`Queue`](super::Queue) orders the uses of its tensors by itself. For a
/// [`Scratch`](super::Scratch), [`wait_for`](Self::wait_for) and
/// [`pipe_barrier`](Self::pipe_barrier) determine which unit waits for which.
///
/// | | A2, A3 | 950 too |
/// | --- | --- | --- |
/// | `add`, `sub`, `max`, `min` | `i16`, `i32`, `f16`, `f32` | `i8`, `i64`, `u8` to `u64`, `bf16` |
/// | `mul` | `i16`, `i32`, `f16`, `f32` | `i64`, `u16` to `u64`, `bf16` |
/// | `div` | `f16`, `f32` | `i16` to `i64`, `u16` to `u64` |
/// | `adds`, `muls`, `maxs`, `mins` | `i16`, `i32`, `f16`, `f32` | `i64`, `bf16` |
/// | `relu` | `i32`, `f16`, `f32` | `i64` |
/// | `exp`, `sqrt` | `f16`, `f32` | |
/// | `reduce_sum` | `f16`, `f32` | `i32`, `i64`, `u32`, `u64` |
/// | `reduce_max` | `f16`, `f32` | `i16`, `i32`, `u8` to `u64` |
/// | `fill` | `i16`, `i32`, `u16`, `u32`, `f16`, `bf16`, `f32` | `i8`, `i64`, `u8`, `u64` |
///
/// A call that no product supports is a mistake when the kernel is recorded. A call that only the
/// product of the device does not support is an error at launch.
///
/// ```
/// use hccl::kernel::*;
///
/// #[kernel(mix = "aiv_only")]
/// fn own(k: Kernel, y: Output<u64>) {
///     k.when(k.block_index().eq(0), || {
///         k.range(..8_u64, |i| y.set(i, i * 2)); // a loop of the kernel
///         y.clean(0);
///     });
/// }
/// # fn main() -> hccl::Result<()> {
/// # own::record()?;
/// # Ok(())
/// # }
/// ```
pub struct Kernel<T = ()> {
    pub(super) recording: u64,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Kernel<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Kernel<T> {}

impl<T> fmt::Debug for Kernel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({})", self.recording)
    }
}

/// A type that the first argument of a kernel can have: a [`Kernel`].
///
/// ```
/// use hccl::kernel::*;
///
/// #[derive(Tiling)]
/// #[repr(C)]
/// struct Sizes { count: u64 }
///
/// #[kernel(mix = "aiv_only")]
/// fn with_sizes(k: Kernel<Sizes>, y: Output<u64>) {
///     y.set(0, k.tiling().count);
///     y.clean(0);
/// }
///
/// #[kernel(mix = "aiv_only")]
/// fn without(k: Kernel, y: Output<i64>) {
///     y.set(0, k.block_count());
///     y.clean(0);
/// }
/// # fn main() -> hccl::Result<()> {
/// # with_sizes::record()?;
/// # without::record()?;
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the first argument of a kernel",
    note = "write `k: Kernel<T>` with the tiling struct `T`, or a plain `k: Kernel` without one"
)]
pub trait First: Sized {
    /// The tiling struct, or `()` for a kernel without one.
    type Tiling: TilingArgument;
    #[doc(hidden)]
    fn first(recording: u64) -> Self;
}

impl<T: TilingArgument> First for Kernel<T> {
    type Tiling = T;
    fn first(recording: u64) -> Self {
        Kernel { recording, of: PhantomData }
    }
}

/// Puts the documentation of the kernel, and the layout of its tiling struct, into the program at
/// the beginning of a recording.
pub(super) fn declare<T: TilingArgument>(recording: u64, doc: &str, here: Caller) {
    record::with(recording, here, |recorder| {
        recorder.program.doc = doc.to_owned();
        recorder.program.tiling = T::TABLE.cloned();
    });
}

impl<T: TilingArgument> Kernel<T> {
    /// Returns the fields of the tiling struct as symbols (`GET_TILING_DATA`).
    pub fn tiling(self) -> T::Symbols {
        T::fields(self.recording)
    }
}

impl<T> Kernel<T> {
    /// Returns the index of this core among the cores of its kind (`GetBlockIdx`). If `n` blocks
    /// are launched, the index is below `n` times [`task_ratio`](Self::task_ratio).
    #[track_caller]
    pub fn block_index(self) -> Value<i64> {
        self.about(Of::BlockIndex, Location::caller())
    }

    /// Returns the number of blocks that were launched (`GetBlockNum`).
    #[track_caller]
    pub fn block_count(self) -> Value<i64> {
        self.about(Of::BlockCount, Location::caller())
    }

    /// Returns the index of this vector core in its block, 0 or 1 (`GetSubBlockIdx`). It is 0 on a
    /// cube core.
    #[track_caller]
    pub fn sub_block_index(self) -> Value<i64> {
        self.about(Of::SubBlockIndex, Location::caller())
    }

    /// Returns the number of cores in a block that are of the same kind as this core
    /// (`GetTaskRatio`).
    #[track_caller]
    pub fn task_ratio(self) -> Value<i64> {
        self.about(Of::TaskRatio, Location::caller())
    }

    fn about(self, of: Of, here: Caller) -> Value<i64> {
        Value::new(record::fresh(self.recording, here, |_| (of, Number::I64)))
    }

    /// Returns a number as a [`Value`], for calls that take only a [`Value`].
    #[track_caller]
    pub fn value<U: Scalar>(self, number: U) -> Value<U> {
        Value::new(record::fresh(self.recording, Location::caller(), |_| {
            (Of::Constant(number.bits()), U::NUMBER)
        }))
    }

    /// Declares a scalar that changes, with its initial value.
    #[track_caller]
    pub fn variable<U: Scalar>(self, value: impl Into<Value<U>>) -> Variable<U> {
        let value = value.into();
        let variable = record::with(self.recording, Location::caller(), |recorder| {
            let value = recorder.own(value.handle, U::NUMBER);
            let value = recorder.value(value);
            let variable = recorder.variable("variable", U::NUMBER);
            recorder.step(Step::Set(variable, value));
            variable
        });
        let (recording, variable) = match variable {
            Some(variable) => (self.recording, variable),
            None => (0, ascend_program::VariableId(0)),
        };
        Variable { recording, variable, of: PhantomData }
    }

    /// Records a comment, which appears in the printed Ascend C.
    #[track_caller]
    pub fn comment(self, text: &str) {
        record::with(self.recording, Location::caller(), |recorder| {
            recorder.step(Step::Comment(text.to_owned()));
        });
    }

    /// Allows a [warning](Warning) of the checker in this kernel, with the reason why it does not
    /// apply. An empty reason is a mistake in the recording.
    ///
    /// ```
    /// # use hccl::kernel::*;
    /// #[kernel(mix = "aiv_only")]
    /// fn reserve(k: Kernel, later: Output<f32>) {
    ///     k.allow(Warning::NeverWritten, "the next version of the operator writes it");
    /// }
    /// # fn main() -> hccl::Result<()> {
    /// # use hccl::prelude::Product;
    /// let report = reserve::record()?.check(&(), 1, 1, Product::A3, &[256]);
    /// assert_eq!(report.warnings().count(), 0);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn allow(self, warning: Warning, reason: &str) {
        record::with(self.recording, Location::caller(), |recorder| {
            if reason.trim().is_empty() {
                return recorder.mistake(
                    "`allow` needs the reason why the warning does not apply: pass a text that is \
                     not empty",
                );
            }
            let reason = reason.to_owned();
            recorder.program.allowed.push(Allowed { warning, reason });
        });
    }

    /// Returns the workspace from byte `byte` on, as a tensor (`GetUserWorkspace`). The workspace
    /// is memory that the launch passes. No other operation uses it while the launch runs. All
    /// cores share the workspace.
    #[track_caller]
    pub fn workspace<E: Element>(self, byte: impl Count) -> Output<E> {
        Output::workspace(self.recording, byte.count(), Location::caller())
    }

    /// Records a loop: `for (i = from; i < to; ++i)`. The range is `..n`, or `from..to` with two
    /// numbers or two [`Value`]s. If only one end is a number, convert it:
    /// [`k.value(1)..n`](Self::value).
    ///
    /// The body is recorded once. It cannot consume a value from outside the loop, such as a client
    /// or a tensor, because the loop may run several times. Code that does so does not compile.
    #[track_caller]
    pub fn range<B: Bounds>(self, range: B, body: impl FnMut(Value<B::Number>)) {
        let (from, to) = range.bounds();
        let one = Value::new(record::constant(1, B::Number::NUMBER));
        self.repeat(from, to, one, body, Location::caller());
    }

    /// Records a loop with a step: `for (i = from; i < to; i += step)`. A constant step of 0 is a
    /// mistake in the recording. Any other step of 0 is an error when the kernel runs.
    #[track_caller]
    pub fn range_by<B: Bounds>(
        self,
        range: B,
        step: impl Into<Value<B::Number>>,
        body: impl FnMut(Value<B::Number>),
    ) {
        let (from, to) = range.bounds();
        self.repeat(from, to, step.into(), body, Location::caller());
    }

    pub(super) fn repeat<N: Scalar>(
        self,
        from: Value<N>,
        to: Value<N>,
        step: Value<N>,
        mut body: impl FnMut(Value<N>),
        here: Caller,
    ) {
        let begun = record::with(self.recording, here, |recorder| {
            let mut value = |value: Value<N>| {
                let id = recorder.own(value.handle, N::NUMBER);
                (recorder.value(id), recorder.known(id))
            };
            let ((from, _), (to, _), (step, known)) = (value(from), value(to), value(step));
            if known == Some(0) {
                recorder.mistake(
                    "the step of the loop is 0, so the loop would never end: use a larger step",
                );
            }
            let block = recorder.begin();
            let variable = recorder.variable("i", N::NUMBER);
            (Step::Loop { variable, from, to, step, body: block }, block, variable)
        });
        let Some((step, block, variable)) = begun else { return };
        body(Value::new(record::fresh(self.recording, here, |_| {
            (Of::Variable(variable), N::NUMBER)
        })));
        self.end(block, here, |recorder| recorder.step(step));
    }

    fn end(
        self,
        block: ascend_program::BlockId,
        here: Caller,
        then: impl FnOnce(&mut KernelRecorder),
    ) {
        record::with(self.recording, here, |recorder| {
            recorder.end(block);
            then(recorder);
        });
    }

    fn block(self, here: Caller, body: impl FnOnce()) -> Option<ascend_program::BlockId> {
        let block = record::with(self.recording, here, KernelRecorder::begin)?;
        body();
        self.end(block, here, |_| {});
        Some(block)
    }

    /// Records a branch: steps that run if a condition holds.
    #[track_caller]
    pub fn when(self, condition: Value<bool>, then: impl FnOnce()) {
        self.branch(condition, then, None::<fn()>, Location::caller());
    }

    /// Records a branch: `then` records the steps that run if the condition holds, and `otherwise`
    /// those that run if it does not.
    #[track_caller]
    pub fn when_else(self, condition: Value<bool>, then: impl FnOnce(), otherwise: impl FnOnce()) {
        self.branch(condition, then, Some(otherwise), Location::caller());
    }

    fn branch(
        self,
        condition: Value<bool>,
        then: impl FnOnce(),
        otherwise: Option<impl FnOnce()>,
        here: Caller,
    ) {
        let condition = record::with(self.recording, here, |recorder| {
            let condition = recorder.own(condition.handle, Number::Bool);
            recorder.value(condition)
        });
        let (Some(condition), Some(then)) = (condition, self.block(here, then)) else { return };
        let otherwise = otherwise.and_then(|otherwise| self.block(here, otherwise));
        record::with(self.recording, here, |recorder| {
            recorder.step(Step::If { condition, then, otherwise });
        });
    }

    /// Records steps for vector cores only (`if ASCEND_IS_AIV`).
    #[track_caller]
    pub fn on_aiv(self, body: impl FnOnce()) {
        self.on(Core::Aiv, body, Location::caller());
    }

    /// Records steps for cube cores only (`if ASCEND_IS_AIC`).
    #[track_caller]
    pub fn on_aic(self, body: impl FnOnce()) {
        self.on(Core::Aic, body, Location::caller());
    }

    fn on(self, core: Core, body: impl FnOnce(), here: Caller) {
        let around = record::with(self.recording, here, |recorder| {
            let Program { mix, .. } = recorder.program;
            let around = recorder.core.replace(core);
            if mix.ratio(core) == 0 {
                let cores = cores(core);
                recorder.mistake(format!(
                    "no {cores} cores run this kernel, because its `mix` is {}: use another `mix`",
                    mix.ascend_c()
                ));
            } else if around.is_some_and(|around| around != core) {
                let (inner, outer) = (cores(core), cores(around.unwrap_or(core)));
                recorder.mistake(format!(
                    "steps for {inner} cores are inside steps for {outer} cores, so no core runs them: move them out"
                ));
            }
            around
        });
        let Some(around) = around else { return };
        let block = self.block(here, body);
        record::with(self.recording, here, |recorder| {
            recorder.core = around;
            if let Some(block) = block {
                recorder.step(Step::On(core, block));
            }
        });
    }
}

/// Returns the word for a kind of core, for error texts.
pub(super) fn cores(core: Core) -> &'static str {
    match core {
        Core::Aic => "cube",
        Core::Aiv => "vector",
    }
}

impl KernelRecorder {
    /// Notes a mistake if no core of this kind runs the current block. `what` is the subject of the
    /// error text.
    pub(super) fn only_on(&mut self, core: Core, what: &str) {
        let mix = self.program.mix;
        let wanted = cores(core);
        if self.core.is_some_and(|current| current != core) || mix.ratio(core) == 0 {
            self.mistake(format!(
                "{what} needs {wanted} cores, but no {wanted} core runs this code: check the `mix` \
                 and the enclosing `on_aiv` or `on_aic`"
            ));
        }
    }
}
