//! A task that a client has prepared. Its type says whether the kernel must still commit its turns.

use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;

use ascend_program::TaskId;

use super::record::NamedKind;
use super::tensor::rename;
use super::value::{Recordable, Value};

/// The state of a [`Prepared`] task whose turns the kernel commits one by one.
///
/// ```
/// use hccl::kernel::*;
///
/// # #[derive(Tiling)]
/// # #[repr(C)]
/// # struct Tiles { init: Mc2InitTiling, all_reduce: Mc2CcTiling, count: u64 }
/// #[kernel(mix = "aiv_1_0")]
/// fn reduce(k: Kernel<Tiles>, y: Output<f32>) {
///     let t = k.tiling();
///     k.on_aiv(|| {
///         let hccl = k.hccl(0).init().configure(&t.all_reduce);
///         let task: Prepared<Open> = hccl.all_reduce(y, y, t.count, Sum).prepare();
///         // ... compute `y` ...
///         hccl.commit(&task); // now the server may begin
///         hccl.wait_all(&task);
///         k.sync_all_aiv();
///         hccl.finalise();
///     });
/// }
/// # fn main() -> hccl::Result<()> {
/// # reduce::record()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub enum Open {}

/// The state of a [`Prepared`] task that the kernel need not commit. All its turns were committed
/// when it was prepared, or it is a `BatchWrite`.
///
/// ```
/// use hccl::kernel::*;
///
/// # #[derive(Tiling)]
/// # #[repr(C)]
/// # struct Tiles { init: Mc2InitTiling, all_reduce: Mc2CcTiling, count: u64 }
/// #[kernel(mix = "aiv_1_0")]
/// fn reduce(k: Kernel<Tiles>, y: Output<f32>) {
///     let t = k.tiling();
///     k.on_aiv(|| {
///         let hccl = k.hccl(0).init().configure(&t.all_reduce);
///         let task: Prepared<Committed> = hccl.all_reduce(y, y, t.count, Sum).commit_all();
///         hccl.wait_all(&task);
///         k.sync_all_aiv();
///         hccl.finalise();
///     });
/// }
/// # fn main() -> hccl::Result<()> {
/// # reduce::record()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub enum Committed {}

/// A task that a client has prepared (`HcclHandle`), made by
/// [`prepare`](super::prepare::Prepare::prepare),
/// [`commit_all`](super::prepare::Prepare::commit_all) or
/// [`write`](super::prepare::Prepare::write). [`Hccl::commit`](super::Hccl::commit) commits its
/// turns, and [`Hccl::wait`](super::Hccl::wait) waits for them.
///
/// ```
/// use hccl::kernel::*;
///
/// # #[derive(Tiling)]
/// # #[repr(C)]
/// # struct Tiles { init: Mc2InitTiling, all_reduce: Mc2CcTiling, count: u64 }
/// #[kernel(mix = "aiv_1_0")]
/// fn reduce(k: Kernel<Tiles>, y: Output<f32>) {
///     let t = k.tiling();
///     k.on_aiv(|| {
///         let hccl = k.hccl(0).init().configure(&t.all_reduce);
///         let task: Prepared<_> = hccl.all_reduce(y, y, t.count, Sum).repeat(3).commit_all();
///         k.range(..task.turns(), |_| hccl.wait(&task)); // one turn after the other
///         k.sync_all_aiv();
///         hccl.finalise();
///     });
/// }
/// # fn main() -> hccl::Result<()> {
/// # reduce::record()?;
/// # Ok(())
/// # }
/// ```
pub struct Prepared<Q> {
    pub(super) recording: u64,
    pub(super) task: TaskId,
    pub(super) turns: Value<u64>,
    of: PhantomData<fn() -> Q>,
}

impl<Q> Prepared<Q> {
    pub(super) fn new(recording: u64, task: TaskId, turns: Value<u64>) -> Self {
        Prepared { recording, task, turns, of: PhantomData }
    }

    /// Returns the number of turns of the task.
    pub fn turns(&self) -> Value<u64> {
        self.turns
    }
}

impl<Q> fmt::Debug for Prepared<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Prepared({})", self.task.0)
    }
}

impl<Q> Recordable for Prepared<Q> {
    #[track_caller]
    fn name(&self, name: &str) {
        rename(self.recording, Location::caller(), NamedKind::Task, self.task.0, name);
    }
}
