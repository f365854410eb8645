//! Synchronisation: which unit of a core, and which core, waits for which.

use std::panic::Location;

use ascend_program::Core;
use ascend_program::step::{Mode as Between, Pipe as Unit, Step, Sync};

use super::control::Kernel;
use super::record::{self, Caller, KernelRecorder};

/// A unit of a core, which runs beside the others (`pipe_t`).
///
/// ```
/// use hccl::kernel::*;
///
/// #[kernel(mix = "aiv_only")]
/// fn own(k: Kernel, x: Input<f32>, y: Output<f32>) {
///     let a = k.scratch::<f32>(64).get();
///     k.copy_in(&a, x, 64);
///     k.wait_for(Pipe::Vector, Pipe::In); // the vector unit waits for the copy in
///     k.muls(&a, &a, 2.0, 64);
///     k.wait_for(Pipe::Out, Pipe::Vector); // and the copy out for the vector unit
///     k.copy_out(y, &a, 64);
/// }
/// # fn main() -> hccl::Result<()> {
/// # own::record()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Pipe {
    /// Scalars (`PIPE_S`).
    Scalar,
    /// Vectors (`PIPE_V`).
    Vector,
    /// Copies into local memory (`PIPE_MTE2`).
    In,
    /// Copies out of local memory (`PIPE_MTE3`).
    Out,
    /// Results of the cube unit on their way to global memory (`PIPE_FIX`).
    Fix,
    /// All of them (`PIPE_ALL`).
    All,
}

impl Pipe {
    fn unit(self) -> Unit {
        match self {
            Pipe::Scalar => Unit::Scalar,
            Pipe::Vector => Unit::Vector,
            Pipe::In => Unit::In,
            Pipe::Out => Unit::Out,
            Pipe::Fix => Unit::Fix,
            Pipe::All => Unit::All,
        }
    }
}

/// The cores that a flag is for (the mode of `CrossCoreSetFlag`).
///
/// ```
/// use hccl::kernel::*;
///
/// #[kernel(mix = "aic_1_2")]
/// fn own(k: Kernel, y: Output<f32>) {
///     k.on_aic(|| {
///         // ... products of matrices ...
///         k.cross_core_set_flag(Mode::Block, Pipe::Fix, 3);
///     });
///     k.on_aiv(|| {
///         k.cross_core_wait_flag(3); // both vector cores of the block wait for the cube core
///         let start = k.block_index() * 16;
///         y.set(start, 1.0);
///         y.clean(start);
///     });
/// }
/// # fn main() -> hccl::Result<()> {
/// # own::record()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// All cores of one kind release each other (0).
    Kind,
    /// The two vector cores of a block release each other (1).
    Pair,
    /// The cube core of a block releases its vector cores, or all of these release it (2).
    Block,
}

impl KernelRecorder {
    fn cores_meet(&mut self, call: &str) {
        let mix = self.program.mix;
        if !mix.synchronises() {
            self.mistake(format!(
                "`{call}` needs cores that can synchronise, and those of {} cannot: take `mix = \"aiv_1_0\"` or `mix = \"aic_1_0\"`, which start the same cores",
                mix.ascend_c()
            ));
        }
    }
}

impl<T> Kernel<T> {
    /// Lets a unit begin later work only when its earlier work is finished (`PipeBarrier`).
    #[track_caller]
    pub fn pipe_barrier(self, pipe: Pipe) {
        record::with(self.recording, Location::caller(), |recorder| {
            if pipe == Pipe::Scalar {
                recorder.mistake("`PipeBarrier` is not for PIPE_S, which does one thing after the other by itself");
            }
            recorder.step(Step::Sync(Sync::Pipe(pipe.unit())));
        });
    }

    /// Lets `unit` wait until `other` has done what it was given so far (`SetFlag` and `WaitFlag`):
    /// for scratch buffers and single elements. Tensors that go through a queue need none of this.
    #[track_caller]
    pub fn wait_for(self, unit: Pipe, other: Pipe) {
        record::with(self.recording, Location::caller(), |recorder| {
            if unit == other || unit == Pipe::All || other == Pipe::All {
                recorder.mistake("one unit waits for another one; `pipe_barrier` is for one by itself, or for all");
            }
            recorder.step(Step::Sync(Sync::Units(other.unit(), unit.unit())));
        });
    }

    /// Leaves the waits between the units of a core to the recorder, in all of this kernel,
    /// wherever this is called in it.
    ///
    /// Before each step its unit waits for the units that may have used the same tensor or
    /// argument, if one of them writes, unless the kernel itself, or a queue, has seen to that. In
    /// the printed source each inserted wait has a comment that begins with "inserted" and says
    /// why. The recorder knows no numbers, so it may insert a wait between two uses that never
    /// meet. It takes two arguments for two memories, and copies of one unit to an argument to go
    /// to different places. The check of the launch, which has the numbers, finds where that is
    /// wrong. Waits between cores are not inserted.
    ///
    /// ```
    /// # use hccl::kernel::*;
    /// /// `y = 2 x`.
    /// #[kernel(mix = "aiv_only")]
    /// fn twice(k: Kernel, x: Input<f32>, y: Output<f32>) {
    ///     k.insert_waits();
    ///     let a = k.scratch::<f32>(64).get();
    ///     k.copy_in(&a, x, 64);
    ///     k.muls(&a, &a, 2.0, 64);
    ///     k.copy_out(y, &a, 64);
    /// }
    /// # fn main() -> hccl::Result<()> {
    /// # use hccl::prelude::Product;
    /// let kernel = twice::record()?;
    /// assert!(kernel.check(&(), 1, 1, Product::A3, &[256, 256]).is_good(true));
    /// assert!(kernel.ascend_c()?.contains("// inserted: MTE3 reads `a`, which V has written"));
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn insert_waits(self) {
        record::with(self.recording, Location::caller(), |recorder| recorder.inserts_waits = true);
    }

    /// Raises a flag when earlier work of `pipe` is done (`CrossCoreSetFlag`). `flag` is 8, 9 or
    /// 10: the libraries of CANN use the others.
    ///
    /// Every core that takes part must get here, also one without work. Cores wait for the flag in
    /// [`cross_core_wait_flag`](Self::cross_core_wait_flag).
    #[track_caller]
    pub fn cross_core_set_flag(self, mode: Mode, pipe: Pipe, flag: u16) {
        record::with(self.recording, Location::caller(), |recorder| {
            recorder.cores_meet("CrossCoreSetFlag");
            if matches!(pipe, Pipe::Scalar | Pipe::All) {
                recorder.mistake(
                    "`CrossCoreSetFlag` follows one unit, and not PIPE_S: PIPE_FIX after a matrix product, PIPE_MTE3 after copies out",
                );
            }
            recorder.flag(flag);
            let mode = match mode {
                Mode::Kind => Between::Kind,
                Mode::Pair => Between::Pair,
                Mode::Block => Between::Block,
            };
            recorder.step(Step::Sync(Sync::Raise { mode, pipe: pipe.unit(), flag }));
        });
    }

    /// Waits until every core that the mode of the flag names has raised it (`CrossCoreWaitFlag`).
    #[track_caller]
    pub fn cross_core_wait_flag(self, flag: u16) {
        record::with(self.recording, Location::caller(), |recorder| {
            recorder.cores_meet("CrossCoreWaitFlag");
            recorder.flag(flag);
            recorder.step(Step::Sync(Sync::Await { flag }));
        });
    }

    /// Lets all cube cores wait for each other: a flag that all raise and wait for. `flag` is 8, 9
    /// or 10.
    #[track_caller]
    pub fn sync_all_aic(self, flag: u16) {
        record::with(self.recording, Location::caller(), |recorder| {
            recorder.only_on(Core::Aic, "the meeting of cube cores");
            recorder.cores_meet("CrossCoreSetFlag");
            recorder.flag(flag);
            let (mode, pipe) = (Between::Kind, Unit::Fix);
            recorder.step(Step::Sync(Sync::Raise { mode, pipe, flag }));
            recorder.step(Step::Sync(Sync::Await { flag }));
        });
    }

    /// Lets all vector cores wait for each other (`SyncAll<true>`).
    #[track_caller]
    pub fn sync_all_aiv(self) {
        let here = Location::caller();
        record::with(self.recording, here, |recorder| {
            recorder.only_on(Core::Aiv, "the meeting of vector cores");
        });
        self.sync(true, here);
    }

    /// Lets all cores wait for each other (`SyncAll<false>`). In a kernel with both kinds, both
    /// have to come here.
    #[track_caller]
    pub fn sync_all(self) {
        self.sync(false, Location::caller());
    }

    fn sync(self, vector: bool, here: Caller) {
        record::with(self.recording, here, |recorder| {
            recorder.cores_meet("SyncAll");
            if !vector && recorder.program.mix.ratio(Core::Aic) == 0 {
                recorder.mistake("`SyncAll<false>` never returns in a kernel of vector cores: use `sync_all_aiv`");
            }
            recorder.step(Step::Sync(Sync::All { vector }));
        });
    }
}

impl KernelRecorder {
    fn flag(&mut self, flag: u16) {
        if flag > 15 {
            self.mistake(format!("there is no flag {flag}: use 8, 9 or 10"));
        }
    }
}
