//! The kinds of operations, as types. The kind of an operation that is not prepared yet determines
//! its settings and the call that prepares it. An operation with a block for each rank has a
//! stride. An operation with turns can be repeated. An operation that enters a queue at once is not
//! committed.

/// The kind of an operation with a block for each rank, and so with a stride between the blocks.
///
/// ```
/// use hccl::kernel::*;
///
/// # #[derive(Tiling)]
/// # #[repr(C)]
/// # struct Tiles { init: Mc2InitTiling, all_gather: Mc2CcTiling, count: u64 }
/// #[kernel(mix = "aiv_1_0")]
/// fn gather(k: Kernel<Tiles>, x: Input<f32>, y: Output<f32>) {
///     let t = k.tiling();
///     k.on_aiv(|| {
///         let hccl = k.hccl(0).init().configure(&t.all_gather);
///         let begun: prepare::Prepare<'_, prepare::Strided> = hccl.all_gather(x, y, t.count);
///         hccl.wait_all(&begun.stride(t.count * 2).repeat(2).commit_all());
///         k.sync_all_aiv();
///         hccl.finalise();
///     });
/// }
/// # fn main() -> hccl::Result<()> {
/// # gather::record()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub enum Strided {}

/// The kind of an operation that has turns but no stride.
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
///         let begun = hccl.all_reduce(y, y, t.count, Sum);
///         let begun: prepare::Prepare<'_, prepare::Contiguous> = begun;
///         hccl.wait_all(&begun.repeat(2).commit_all()); // there is no `.stride(..)`
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
pub enum Contiguous {}

/// The kind of an operation with a single turn.
///
/// ```
/// use hccl::kernel::*;
///
/// # #[derive(Tiling)]
/// # #[repr(C)]
/// # struct Blocks { init: Mc2InitTiling, write: Mc2CcTiling, window: u64, local: u64 }
/// #[kernel(mix = "aiv_1_0")]
/// fn blocks(k: Kernel<Blocks>, x: Input<u8>, offsets: Input<u64>, sizes: Input<u64>) {
///     let t = k.tiling();
///     k.on_aiv(|| {
///         let hccl = k.hccl(0).init().configure(&t.write);
///         let begun: prepare::Prepare<'_, prepare::Single> =
///             hccl.all_to_all_v_write(x, offsets, sizes, t.window, t.local);
///         hccl.wait(&begun.commit_all()); // there is no `.repeat(..)`
///         k.sync_all_aiv();
///         hccl.finalise();
///     });
/// }
/// # fn main() -> hccl::Result<()> {
/// # blocks::record()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub enum Single {}

/// The kind of an operation that enters a queue at once, without a commit.
///
/// ```
/// use hccl::kernel::*;
///
/// # #[derive(Tiling)]
/// # #[repr(C)]
/// # struct Writes { init: Mc2InitTiling, write: Mc2CcTiling, items: u64 }
/// #[kernel(mix = "aiv_1_0")]
/// fn writes(k: Kernel<Writes>, items: Input<u64>) {
///     let t = k.tiling();
///     k.on_aiv(|| {
///         let hccl = k.hccl(0).init().configure(&t.write);
///         let begun: prepare::Prepare<'_, prepare::Written> = hccl.batch_write(items, t.items, 0);
///         hccl.wait(&begun.write()); // there is nothing to commit
///         k.sync_all_aiv();
///         hccl.finalise();
///     });
/// }
/// # fn main() -> hccl::Result<()> {
/// # writes::record()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub enum Written {}

/// A kind of operation that can have several turns.
///
/// ```
/// use hccl::kernel::*;
///
/// /// Repeats any operation that can have several turns.
/// fn twice<S: prepare::Turns>(operation: prepare::Prepare<'_, S>) -> prepare::Prepare<'_, S> {
///     operation.repeat(2)
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
///         let task = twice(hccl.all_reduce(y, y, t.count, Sum)).commit_all();
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
pub trait Turns: Commits {}
impl Turns for Strided {}
impl Turns for Contiguous {}

/// A kind of operation whose turns begin when they are committed.
///
/// ```
/// use hccl::kernel::*;
///
/// /// Runs any operation that is committed.
/// fn at_once<S: prepare::Commits>(hccl: &Hccl<Configured>, operation: prepare::Prepare<'_, S>) {
///     hccl.wait_all(&operation.commit_all());
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
///         at_once(&hccl, hccl.all_reduce(y, y, t.count, Sum));
///         k.sync_all_aiv();
///         hccl.finalise();
///     });
/// }
/// # fn main() -> hccl::Result<()> {
/// # reduce::record()?;
/// # Ok(())
/// # }
/// ```
pub trait Commits {}
impl Commits for Strided {}
impl Commits for Contiguous {}
impl Commits for Single {}
