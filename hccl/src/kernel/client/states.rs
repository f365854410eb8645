//! The states of a client. Each state is a type, so a call that comes too early does not compile.

/// The state of a client that is declared, but not initialised.
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
///         let client: Hccl<Declaration> = k.hccl(0);
///         let hccl = client.init().configure(&t.all_reduce);
///         let task = hccl.all_reduce(y, y, t.count, Sum).commit_all();
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
pub enum Declaration {}

/// The state of a client that is initialised, but not configured.
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
///         let client: Hccl<Initialised> = k.hccl(0).init();
///         let hccl = client.configure(&t.all_reduce);
///         let task = hccl.all_reduce(y, y, t.count, Sum).commit_all();
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
pub enum Initialised {}

/// The state of a client that is configured for at least one operation.
///
/// ```
/// use hccl::kernel::*;
///
/// /// Sums `y` over all ranks. Several kernels can call this.
/// fn sum(hccl: &Hccl<Configured>, y: Output<f32>, count: Value<u64>) {
///     let task = hccl.all_reduce(y, y, count, Sum).commit_all();
///     hccl.wait_all(&task);
/// }
///
/// # #[derive(Tiling)]
/// # #[repr(C)]
/// # struct Tiles { init: Mc2InitTiling, all_reduce: Mc2CcTiling, count: u64 }
/// #[kernel(mix = "aiv_1_0")]
/// fn reduce(k: Kernel<Tiles>, y: Output<f32>) {
///     let t = k.tiling();
///     k.on_aiv(|| {
///         let hccl = k.hccl(0).init().configure(&t.all_reduce);
///         sum(&hccl, y, t.count);
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
pub enum Configured {}

/// A state of a client that has its context: the client is initialised or configured.
///
/// ```
/// use hccl::kernel::*;
///
/// /// Returns the start of this rank's block. An initialised client has a rank.
/// fn start<S: Started>(hccl: &Hccl<S>, count: Value<u64>) -> Value<u64> {
///     hccl.rank().cast::<u64>() * count
/// }
///
/// # #[derive(Tiling)]
/// # #[repr(C)]
/// # struct Tiles { init: Mc2InitTiling, all_reduce: Mc2CcTiling, count: u64 }
/// #[kernel(mix = "aiv_1_0")]
/// fn reduce(k: Kernel<Tiles>, y: Output<f32>) {
///     let t = k.tiling();
///     k.on_aiv(|| {
///         let hccl = k.hccl(0).init().configure(&t.all_reduce);
///         let mine = y.at(start(&hccl, t.count));
///         let task = hccl.all_reduce(mine, mine, t.count, Sum).commit_all();
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
pub trait Started {}
impl Started for Initialised {}
impl Started for Configured {}
