//! Synchronisation between the units of a core, and between cores.

use std::panic::Location;

use ascend_program::Core;
use ascend_program::step::{Mode as Between, Pipe as Unit, Step, Sync};

use super::control::Kernel;
use super::record::{self, Caller, KernelRecorder};

/// A unit of a core (`pipe_t`). The units of a core run in parallel.
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
///     k.wait_for(Pipe::Out, Pipe::Vector); // the copy out waits for the vector unit
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
    /// The scalar unit (`PIPE_S`).
    Scalar,
    /// The vector unit (`PIPE_V`).
    Vector,
    /// The unit for copies into local memory (`PIPE_MTE2`).
    In,
    /// The unit for copies out of local memory (`PIPE_MTE3`).
    Out,
    /// The unit for copies of the cube unit's results to global memory (`PIPE_FIX`).
    Fix,
    /// All units (`PIPE_ALL`).
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

/// The cores that a flag synchronises (the mode of `CrossCoreSetFlag`).
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
    /// All cores of one kind release each other (mode 0).
    Kind,
    /// The two vector cores of a block release each other (mode 1).
    Pair,
    /// The cube core of a block releases all vector cores of the block, or they together release
    /// the cube core (mode 2).
    Block,
}

impl KernelRecorder {
    fn cores_meet(&mut self, call: &str) {
        let mix = self.program.mix;
        if !mix.synchronises() {
            self.mistake(format!(
                "`{call}` needs cores that can synchronise, but those of {} cannot: use `mix = \"aiv_1_0\"` or `mix = \"aic_1_0\"`, which start the same cores",
                mix.ascend_c()
            ));
        }
    }
}

impl<T> Kernel<T> {
    /// Makes a unit finish its earlier work before it begins later work (`PipeBarrier`).
    #[track_caller]
    pub fn pipe_barrier(self, pipe: Pipe) {
        record::with(self.recording, Location::caller(), |recorder| {
            if pipe == Pipe::Scalar {
                recorder.mistake("`PipeBarrier` is not for PIPE_S, which executes in order by itself: leave this call out");
            }
            recorder.step(Step::Sync(Sync::Pipe(pipe.unit())));
        });
    }

    /// Makes `unit` wait until `other` has finished its earlier work (`SetFlag` and `WaitFlag`).
    /// Uses of scratch buffers and of single elements need this; a queue orders the uses of its
    /// tensors by itself.
    #[track_caller]
    pub fn wait_for(self, unit: Pipe, other: Pipe) {
        record::with(self.recording, Location::caller(), |recorder| {
            if unit == other || unit == Pipe::All || other == Pipe::All {
                recorder.mistake("`wait_for` takes two different units: use `pipe_barrier` for a single unit or for all units");
            }
            recorder.step(Step::Sync(Sync::Units(other.unit(), unit.unit())));
        });
    }

    /// Makes the recorder insert the waits between the units of a core. This applies to the whole
    /// kernel, wherever in the kernel it is called.
    ///
    /// Before a step, its unit waits for each unit that may have used the same tensor, argument,
    /// workspace or window, if one of the two uses is a write. No wait is inserted if the kernel
    /// itself or a queue already orders the uses. In the printed source, each inserted wait has a
    /// comment that begins with "inserted" and gives the reason.
    ///
    /// The recorder does not have the values of symbols, so it may insert a wait between two uses
    /// that never overlap. It assumes that two arguments are different memory, and that copies of
    /// one unit to an argument go to different places. The check at launch has the values, and
    /// finds the cases in which these assumptions are wrong. Waits between cores are not inserted.
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

    /// Raises a flag when earlier work of `pipe` is done (`CrossCoreSetFlag`). `flag` should be 8,
    /// 9 or 10, because CANN's libraries use the other flags.
    ///
    /// Every core that takes part must make this call, even a core without work. Cores wait for the
    /// flag in [`cross_core_wait_flag`](Self::cross_core_wait_flag).
    #[track_caller]
    pub fn cross_core_set_flag(self, mode: Mode, pipe: Pipe, flag: u16) {
        record::with(self.recording, Location::caller(), |recorder| {
            recorder.cores_meet("CrossCoreSetFlag");
            if matches!(pipe, Pipe::Scalar | Pipe::All) {
                recorder.mistake(
                    "`CrossCoreSetFlag` follows the work of a single unit other than PIPE_S: use PIPE_FIX after a matrix product, PIPE_MTE3 after copies out",
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

    /// Makes all cube cores wait for each other: each core raises `flag`, then waits until all cube
    /// cores have raised it. `flag` should be 8, 9 or 10.
    #[track_caller]
    pub fn sync_all_aic(self, flag: u16) {
        record::with(self.recording, Location::caller(), |recorder| {
            recorder.only_on(Core::Aic, "`sync_all_aic`");
            recorder.cores_meet("CrossCoreSetFlag");
            recorder.flag(flag);
            let (mode, pipe) = (Between::Kind, Unit::Fix);
            recorder.step(Step::Sync(Sync::Raise { mode, pipe, flag }));
            recorder.step(Step::Sync(Sync::Await { flag }));
        });
    }

    /// Makes all vector cores wait for each other (`SyncAll<true>`).
    #[track_caller]
    pub fn sync_all_aiv(self) {
        let here = Location::caller();
        record::with(self.recording, here, |recorder| {
            recorder.only_on(Core::Aiv, "`sync_all_aiv`");
        });
        self.sync(true, here);
    }

    /// Makes all cores wait for each other (`SyncAll<false>`). In a kernel with cube and vector
    /// cores, both kinds must make this call. In a kernel with only vector cores, this call is a
    /// mistake: use [`sync_all_aiv`](Self::sync_all_aiv).
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
