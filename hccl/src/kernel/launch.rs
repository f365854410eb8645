//! The launch of a recorded kernel on a device of the emulator. For an NPU,
//! [print](super::Recorded::ascend_c) the kernel instead. To find only its mistakes,
//! [check](super::check) it.
//!
//! ```
//! use hccl::kernel::*;
//! use hccl::prelude::*;
//!
//! #[derive(Tiling)]
//! #[repr(C)]
//! struct Sizes { count: u64 }
//!
//! #[kernel(mix = "aiv_only")]
//! fn double(k: Kernel<Sizes>, x: Input<f32>, y: Output<f32>) {
//!     let count = k.tiling().count;
//!     let queue_in = k.queue::<f32>(Position::VecIn, 1, count);
//!     let queue_out = k.queue::<f32>(Position::VecOut, 1, count);
//!     let a = queue_in.alloc();
//!     k.copy_in(&a, x, count);
//!     queue_in.enqueue(a);
//!     let a = queue_in.dequeue();
//!     let b = queue_out.alloc();
//!     k.add(&b, &a, &a, count);
//!     queue_in.free(a);
//!     queue_out.enqueue(b);
//!     let b = queue_out.dequeue();
//!     k.copy_out(y, &b, count);
//!     queue_out.free(b);
//! }
//!
//! # fn main() -> hccl::Result<()> {
//! let runtime = Runtime::emulator(1)?;
//! let device = runtime.device(0)?;
//! let stream = device.stream()?;
//! let x = device.upload(&[1.0_f32, 2.0, 3.0], &stream)?;
//! let mut y = device.zeros::<f32>(3, &stream)?;
//!
//! let mut kernel = double::record()?.load(&device)?;
//! let work = kernel.launch(1).tiling(&Sizes { count: 3 }).input(&x).output(&mut y).submit(&stream)?;
//! work.wait()?;
//! assert_eq!(y.to_vec(&stream).wait()?, [2.0, 4.0, 6.0]);
//! # Ok(())
//! # }
//! ```
//!
//! A launch is an operation of its stream, and returns a [`Work`]. It runs after every earlier
//! operation that writes one of its buffers, or that reads a buffer which the launch writes. A
//! kernel with an [`Hccl`](super::Hccl) client takes a communicator for each of its groups. Its
//! communication server starts together with it, on a separate stream. The launch is complete when
//! the kernel and the server are complete.
//!
//! # Parts of buffers
//!
//! A tensor may be a slice of a buffer. Element 0 in the kernel is the first element of the slice,
//! and elements after the end of the slice are out of bounds. So launches on disjoint parts of one
//! buffer do not wait for each other.
//!
//! ```
//! # use hccl::kernel::*;
//! # use hccl::prelude::*;
//! # #[derive(Tiling)]
//! # #[repr(C)]
//! # struct Sizes { count: u64 }
//! # #[kernel(mix = "aiv_only")]
//! # fn double(k: Kernel<Sizes>, x: Input<f32>, y: Output<f32>) {
//! #     let count = k.tiling().count;
//! #     let queue = k.queue::<f32>(Position::VecIn, 1, count);
//! #     let queue_out = k.queue::<f32>(Position::VecOut, 1, count);
//! #     let a = queue.alloc();
//! #     k.copy_in(&a, x, count);
//! #     queue.enqueue(a);
//! #     let a = queue.dequeue();
//! #     let b = queue_out.alloc();
//! #     k.add(&b, &a, &a, count);
//! #     queue.free(a);
//! #     queue_out.enqueue(b);
//! #     let b = queue_out.dequeue();
//! #     k.copy_out(y, &b, count);
//! #     queue_out.free(b);
//! # }
//! # fn main() -> hccl::Result<()> {
//! # let runtime = Runtime::emulator(1)?;
//! # let device = runtime.device(0)?;
//! # let stream = device.stream()?;
//! # let mut kernel = double::record()?.load(&device)?;
//! let x = device.upload(&[1.0_f32, 2.0, 3.0, 4.0], &stream)?;
//! let mut y = device.zeros::<f32>(6, &stream)?;
//! let launch = kernel.launch(1).tiling(&Sizes { count: 3 });
//! launch.input(x.slice(1..)?).output(y.slice_mut(2..5)?).submit(&stream)?.wait()?;
//! assert_eq!(y.to_vec(&stream).wait()?, [0.0, 0.0, 4.0, 6.0, 8.0, 0.0]);
//!
//! let launch = kernel.launch(1).tiling(&Sizes { count: 3 });
//! let work = launch.input(x.slice(1..3)?).output(&mut y).submit(&stream)?;
//! assert!(work.wait().unwrap_err().to_string().contains("`x`, which has 2"));
//! # Ok(())
//! # }
//! ```
//!
//! # On hardware
//!
//! A recorded kernel runs on the emulator. For an NPU it is [printed](super::Recorded::ascend_c)
//! and compiled. CANN supports calling it as an operator (`aclnn...`). CANN does not support
//! launching a fused kernel by hand, as this module does. A launch by hand is untested on hardware.

#![forbid(unsafe_code)]

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use ascend_program::Program;
use ascend_program::check::Finding;
use ascend_program::layout::Number;
use smallvec::SmallVec;

use super::driver::{KernelDriver, LAUNCH, RetiredKernel};
use super::looked::{self, LaunchNumbers, Looked};
use super::recorded::Recorded;
use super::symbol::TilingArgument;
use super::tensor::number;
use super::tiling::Tiling;
use super::tiling::communication::ready;
use crate::comm::Communicator;
use crate::device::{Device, Stream};
use crate::dtype::{DType, Element};
use crate::error::counted::counted;
use crate::error::product::Product;
use crate::error::{Error, Result};
use crate::memory::allocation::Region;
use crate::memory::traits::{Lend, LendMut};
use crate::memory::{Destination, Source};
use crate::order::issue::{MemoryPlace, Touch};
use crate::order::label::Takes;
use crate::order::stamps::{AccessKind, Stamps};
use crate::order::work::Work;
use crate::record::operation::RecordedName;

/// The maximum number of blocks that `aclrtLaunchKernel...` accepts.
const MOST_BLOCKS: u32 = 65_535;

/// A kernel on a device, made by [`Recorded::load`], [`Recorded::load_saved`] or
/// [`Recorded::load_object`].
///
/// If it is dropped while launches are in flight, it is unloaded when they are complete; dropping
/// never blocks.
///
/// ```
/// use hccl::kernel::*;
///
/// # #[kernel(mix = "aiv_only")]
/// # fn sevens(k: Kernel, y: Output<u64>) {
/// #     let line = y.at(k.block_index() * 8);
/// #     line.set(0, 7);
/// #     line.clean(0);
/// # }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = hccl::Runtime::emulator(1)?;
/// # let device = runtime.device(0)?;
/// # let stream = device.stream()?;
/// # let mut y = device.zeros::<u64>(16, &stream)?;
/// let mut kernel: Loaded<()> = sevens::record()?.load(&device)?; // once for each device
/// for _ in 0..3 {
///     kernel.launch(2).output(&mut y).submit(&stream)?;
/// }
/// stream.synchronize()?;
/// # Ok(())
/// # }
/// ```
pub struct Loaded<T> {
    device: Device,
    program: Arc<Program>,
    product: Option<Product>,
    driver: Option<Arc<KernelDriver>>,
    /// The stamps of the launches in flight: each launch reads the kernel.
    stamps: Arc<Stamps>,
    looked: Looked,
    of: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for Loaded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Loaded({} on device {})", self.program.name, self.device.index())
    }
}

impl<T: TilingArgument> Recorded<T> {
    /// Loads the kernel onto a device (`aclrtBinaryLoadFromData`, `aclrtBinaryGetFunction`), and
    /// also the communication server if the kernel has a client. Does not block.
    ///
    /// # Errors
    ///
    /// The error of CANN, whose own loader accepts only compiled kernels: see
    /// [`load_object`](Self::load_object).
    pub fn load(&self, device: &Device) -> Result<Loaded<T>> {
        Loaded::new(device, self.to_bytes(), self.program().clone())
    }
}

impl<T: TilingArgument> Loaded<T> {
    /// Loads a kernel. `object` is the binary for the loader, and `program` describes it.
    pub(super) fn new(device: &Device, object: Vec<u8>, program: Program) -> Result<Loaded<T>> {
        let driver = KernelDriver::load(device, &object, &program)?;
        let (device, program) = (device.clone(), Arc::new(program));
        let product = device.runtime().product();
        let stamps = Arc::new(Stamps::new());
        Ok(Loaded {
            device,
            program,
            product,
            driver: Some(Arc::new(driver)),
            stamps,
            looked: Looked::default(),
            of: PhantomData,
        })
    }

    /// Begins a launch of `blocks` blocks, 1 to 65,535. [`submit`](Launch::submit) issues it.
    pub fn launch(&mut self, blocks: u32) -> Launch<'_, T> {
        Launch {
            kernel: self,
            blocks,
            tiling: None,
            refused: None,
            groups: SmallVec::new(),
            given: SmallVec::new(),
            workspace: None,
            strict: false,
        }
    }
}

impl<T> Drop for Loaded<T> {
    fn drop(&mut self) {
        if let Some(driver) = self.driver.take() {
            let stamps = std::mem::replace(&mut self.stamps, Arc::new(Stamps::new()));
            self.device.retire(RetiredKernel { driver, stamps });
        }
    }
}

/// A tensor that was passed to a launch.
pub(super) struct GivenTensor<'a> {
    pub region: Region<'a>,
    number: Number,
    dtype: DType,
    output: bool,
}

/// A launch with its arguments, which [`submit`](Self::submit) issues. The tensors must be passed
/// in the order of the kernel's arguments.
///
/// ```
/// use hccl::kernel::*;
///
/// # #[kernel(mix = "aiv_only")]
/// # fn sevens(k: Kernel, y: Output<u64>) {
/// #     let line = y.at(k.block_index() * 8);
/// #     line.set(0, 7);
/// #     line.clean(0);
/// # }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = hccl::Runtime::emulator(1)?;
/// # let device = runtime.device(0)?;
/// # let stream = device.stream()?;
/// # let mut y = device.zeros::<u64>(16, &stream)?;
/// # let mut kernel = sevens::record()?.load(&device)?;
/// let launch: Launch<'_, ()> = kernel.launch(2).output(&mut y); // on two cores
/// launch.submit(&stream)?.wait()?;
/// # assert_eq!(y.to_vec(&stream).wait()?[8], 7);
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is launched before `.submit(&stream)`"]
pub struct Launch<'a, T> {
    kernel: &'a mut Loaded<T>,
    blocks: u32,
    tiling: Option<&'a [u8]>,
    /// The error of the tiling struct, which `submit` returns.
    refused: Option<Error>,
    groups: SmallVec<[&'a mut Communicator; 2]>,
    given: SmallVec<[GivenTensor<'a>; 8]>,
    workspace: Option<Region<'a>>,
    strict: bool,
}

impl<T> fmt::Debug for Launch<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Launch({:?}, {} blocks)", self.kernel, self.blocks)
    }
}

impl<'a, T: TilingArgument> Launch<'a, T> {
    /// Sets the tiling struct. The kernel gets a copy of it. [`submit`](Self::submit) returns an
    /// error if a field is out of its range, or if the server cannot read the struct.
    pub fn tiling(mut self, tiling: &'a T) -> Self
    where
        T: Tiling,
    {
        self.tiling = Some(tiling.as_bytes());
        let Loaded { program, product, .. } = &*self.kernel;
        self.refused = ready(tiling, program.groups > 0, *product).err();
        self
    }

    /// Adds the communicator of the next group, from group 0 on. The name of the communicator must
    /// be that in the tiling struct.
    pub fn group(mut self, communicator: &'a mut Communicator) -> Self {
        self.groups.push(communicator);
        self
    }

    /// Adds the next argument, an input. It is a buffer or a slice of a buffer; element 0 in the
    /// kernel is its first element.
    pub fn input<E: Element>(mut self, source: impl Source<E> + Lend<'a>) -> Self {
        self.given.push(GivenTensor {
            region: source.lend(),
            number: number::<E>(),
            dtype: E::DTYPE,
            output: false,
        });
        self
    }

    /// Adds the next argument, an output. It is a buffer or a slice of a buffer; element 0 in the
    /// kernel is its first element.
    pub fn output<E: Element>(mut self, destination: impl Destination<E> + LendMut<'a>) -> Self {
        self.given.push(GivenTensor {
            region: destination.lend(),
            number: number::<E>(),
            dtype: E::DTYPE,
            output: true,
        });
        self
    }

    /// Sets the memory that [`Kernel::workspace`](super::Kernel::workspace) returns in the kernel.
    pub fn workspace(mut self, memory: impl Destination<u8> + LendMut<'a>) -> Self {
        self.workspace = Some(memory.lend());
        self
    }

    /// Makes [`submit`](Self::submit) return an error if not all parts of the kernel can be
    /// checked. Without this, [`Work::notes`] names the parts that were not checked.
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Launches the kernel (`aclrtLaunchKernelWithHostArgs`). Does not block. In the first launch
    /// on a communicator, and in the first one with other `Mc2CcTiling`s, CANN makes the links of
    /// the communication server and waits for the other ranks (`HcclAllocComResourceByTiling`). So
    /// a helper thread makes the calls of that launch (see [`comm`](crate::comm)), and the [`Work`]
    /// reports their errors.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if the arguments are not those of the kernel, or if the launch is
    /// [strict](Self::strict) and a part of the kernel cannot be checked. [`Error::Tiling`] if the
    /// tiling struct has a field out of its range or was not filled for the server of this product.
    /// [`Error::WrongDevice`] or [`Error::WrongRuntime`] if an argument, a communicator or the
    /// kernel belongs to another device or runtime than the stream. If the launch takes
    /// communicators, this error is the cause in an [`Error::Refused`]. [`Error::Failed`] for the
    /// failure of an earlier operation of the stream whose [`Work`] was dropped. After these errors
    /// nothing is launched.
    ///
    /// [`Error::Call`] is an error of CANN itself. If a communicator was aborted, either this
    /// method or the [`Work`] reports [`Error::Aborted`]. The [`Work`] reports wrong sizes of
    /// tensors.
    pub fn submit(mut self, stream: &Stream) -> Result<Work> {
        self.check()?;
        if let Some(refused) = self.refused.take() {
            return Err(refused);
        }
        let notes = self.look()?;
        let Launch { kernel, blocks, tiling, groups, given, workspace, .. } = &mut self;
        let mut touches: SmallVec<[Touch<'_>; 12]> = SmallVec::new();
        touches.push(Touch {
            stamps: &kernel.stamps,
            range: 0..1,
            access: AccessKind::Read,
            place: MemoryPlace::Device(&kernel.device),
            what: "the kernel",
        });
        touches.extend(groups.iter().map(|communicator| communicator.member.touch()));
        touches.extend(given.iter().map(|given| match given.output {
            true => given.region.write("an output"),
            false => given.region.read("an input"),
        }));
        touches.extend(workspace.iter().map(|region| region.write("the workspace")));
        let Some(driver) = &kernel.driver else {
            return Err(invalid("the kernel is not loaded: load it again".to_owned()));
        };
        let regions = given.iter().map(|given| &given.region);
        let call = super::driver::LaunchArguments {
            blocks: *blocks,
            tiling: tiling.unwrap_or_default(),
            tensors: regions.collect(),
            workspace: workspace.as_ref(),
        };
        let members: SmallVec<[_; 2]> =
            groups.iter().map(|communicator| &*communicator.member).collect();
        // The tensors go into the record of the first communicator that has one.
        let record = members.iter().find_map(|&member| Some((member, member.record.as_ref()?)));
        let before = |given: &GivenTensor<'_>| match record {
            Some((_, record)) if !given.output => record.before(Some(given.region.clone()), stream),
            Some((_, record)) => record.before(None, stream),
            None => Ok(None),
        };
        let recorded: SmallVec<[_; 8]> = match record {
            Some(_) => given.iter().map(before).collect::<Result<_>>()?,
            None => SmallVec::new(),
        };
        let work = driver.launch(stream, call, &members, &touches)?;
        if let Some((member, record)) = record {
            let number = record.count_launch();
            for (at, (recorded, given)) in recorded.into_iter().zip(given.iter()).enumerate() {
                let Some(recorded) = recorded else { continue };
                let (name, tensor) = (&kernel.program.name, &kernel.program.parameters[at].name);
                let name = RecordedName {
                    label: &member.label,
                    operation: format!("kernel {name} {tensor}"),
                    sequence: number,
                    takes: Takes::Nothing,
                    dtype: given.dtype,
                };
                let got = given.output.then(|| given.region.clone());
                record.after(recorded, name, got, stream)?;
            }
        }
        work.note(notes);
        Ok(work)
    }

    /// Returns the warnings and notes of the checker on the launch, or none if the product is
    /// unknown. Fails if the launch is strict and a part of the kernel cannot be checked.
    fn look(&mut self) -> Result<Arc<[Finding]>> {
        let Launch { kernel, blocks, tiling, groups, given, workspace, strict, .. } = self;
        // The product is unknown only on CANN, whose loader takes no recorded kernels. So there is
        // no kernel to check.
        let Some(product) = kernel.product else { return Ok(Arc::default()) };
        let groups: SmallVec<[_; 2]> =
            groups.iter().map(|group| (group.rank(), group.world_size())).collect();
        let sizes: SmallVec<[_; 8]> =
            given.iter().map(|given| given.region.bytes() as u64).collect();
        let numbers = LaunchNumbers {
            blocks: *blocks,
            tiling: tiling.unwrap_or_default(),
            groups: &groups,
            sizes: &sizes,
            workspace: workspace.as_ref().map(|region| region.bytes() as u64),
        };
        let notes = kernel.looked.look(&kernel.program, product, &numbers);
        match looked::left_out(&kernel.program.name, &notes) {
            Some(problem) if *strict => Err(invalid(problem)),
            _ => Ok(notes),
        }
    }

    /// Checks that the arguments are those that the kernel takes.
    fn check(&self) -> Result<()> {
        let Program { name, parameters, groups, workspace, .. } = &*self.kernel.program;
        let problem = |text: String| Err(invalid(format!("the kernel `{name}` {text}")));
        if self.blocks == 0 {
            return problem("is launched with 0 blocks: launch at least one block".to_owned());
        }
        // This check is before the launch of the server, which would wait for a kernel that CANN
        // then refuses.
        if self.blocks > MOST_BLOCKS {
            let blocks = self.blocks;
            return problem(format!(
                "is launched with {blocks} blocks: launch at most {MOST_BLOCKS}"
            ));
        }
        if T::TABLE.is_some() && self.tiling.is_none() {
            return problem("has a tiling struct: give it with `.tiling(&..)`".to_owned());
        }
        if self.groups.len() != *groups as usize {
            let given = self.groups.len();
            let groups = counted(*groups as usize, "group");
            let were = if given == 1 { "communicator was" } else { "communicators were" };
            return problem(format!(
                "takes part in {groups}, but {given} {were} given: give one for each with `.group(&mut ..)`"
            ));
        }
        if *workspace && self.workspace.is_none() {
            return problem(
                "uses its workspace: give it one with `.workspace(&mut ..)`".to_owned(),
            );
        }
        if self.given.len() != parameters.len() {
            let (takes, given) = (parameters.len(), self.given.len());
            let tensors = counted(takes, "tensor");
            let were = if given == 1 { "was" } else { "were" };
            return problem(format!(
                "takes {tensors}, but {given} {were} given: pass each argument of the kernel, in \
                 order"
            ));
        }
        for (parameter, given) in parameters.iter().zip(&self.given) {
            let kind = |output: bool| if output { "output" } else { "input" };
            if parameter.output != given.output || parameter.number != given.number {
                let (what, of) = (kind(parameter.output), parameter.number);
                let (other, other_of) = (kind(given.output), given.number);
                let tensor = &parameter.name;
                return problem(format!(
                    "has an {what} `{tensor}` of {of}, but an {other} of {other_of} was given: \
                     pass an {what} of {of}"
                ));
            }
        }
        Ok(())
    }
}

fn invalid(problem: String) -> Error {
    Error::Invalid { operation: LAUNCH, problem: problem.into() }
}
