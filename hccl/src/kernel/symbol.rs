//! The fields of a tiling struct as a kernel sees them: each number is a symbol. Use these types in
//! the signatures of helper functions. A kernel itself gets them from
//! [`Kernel::tiling`](super::Kernel::tiling) and need not name them.

use std::marker::PhantomData;
use std::panic::Location;

use ascend_program::layout::{Layout, Number};
use ascend_program::step::PerRank;
use ascend_program::{Of, ValueId};

use super::count::Count;
use super::record::{self, KernelRecorder};
use super::tiling::{Mc2CcTiling, Mc2InitTiling, TCubeTiling, Tiling};
use super::value::{Scalar, Value};

/// A type that a field of a tiling struct can have, with the symbols that a kernel sees for it.
/// `#[derive(Tiling)]` implements this trait.
///
/// ```
/// use hccl::kernel::*;
///
/// #[derive(Tiling)]
/// #[repr(C)]
/// struct Sizes { count: u64 }
///
/// #[kernel(mix = "aiv_only")]
/// fn own(k: Kernel<Sizes>, y: Output<u64>) {
///     let symbols: <Sizes as symbol::Symbolic>::Symbols = k.tiling();
///     let count: Value<u64> = symbols.count;
///     y.set(0, count);
///     y.clean(0);
/// }
/// # fn main() -> hccl::Result<()> {
/// # own::record()?;
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be in a tiling struct",
    label = "a field is a number, a `bool`, or a struct with `#[derive(Tiling)]`",
    note = "a struct of your own needs `#[derive(Tiling)]` and `#[repr(C)]` as well",
    note = "numbers are i8, i16, i32, i64, u8, u16, u32, u64, f32, f64, hccl::f16 and hccl::bf16",
    note = "store an enum as its number, a `u32`; write an array as `[T; N]`, not as a type alias"
)]
pub trait Symbolic {
    /// The symbols of a field of this type: a [`Value`] for a number, [`Values`] for an array of
    /// numbers, a struct of symbols for a struct, and an array of symbols for any other array.
    type Symbols: Clone;

    /// The symbols of an array whose elements have this type.
    #[doc(hidden)]
    type Array<const N: usize>: Clone;

    #[doc(hidden)]
    fn symbols(at: &At) -> Self::Symbols;

    #[doc(hidden)]
    fn array<const N: usize>(at: &At) -> Self::Array<N>;
}

/// The type of a kernel's tiling argument: a struct with `#[derive(Tiling)]`, or `()` for a kernel
/// without one.
///
/// ```
/// use hccl::kernel::*;
///
/// #[derive(Tiling)]
/// #[repr(C)]
/// struct Sizes { count: u64, scale: u64 }
///
/// #[kernel(mix = "aiv_only")]
/// fn own(k: Kernel<Sizes>, y: Output<u64>) {
///     let t = k.tiling(); // `Sizes` is the tiling argument of this kernel
///     y.set(0, t.count * t.scale);
///     y.clean(0);
/// }
/// # fn main() -> hccl::Result<()> {
/// # own::record()?;
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the tiling struct of a kernel",
    note = "use a struct with `#[derive(Tiling)]`; a kernel without a tiling struct takes a plain `Kernel`"
)]
pub trait TilingArgument: 'static {
    /// The layout of the struct; `None` for `()`.
    #[doc(hidden)]
    const TABLE: Option<&'static Layout>;
    /// The symbols of the fields of the struct.
    type Symbols: Clone;
    #[doc(hidden)]
    fn fields(recording: u64) -> Self::Symbols;
    #[doc(hidden)]
    fn bytes(&self) -> &[u8];
}

impl TilingArgument for () {
    const TABLE: Option<&'static Layout> = None;
    type Symbols = ();
    fn fields(_: u64) {}
    fn bytes(&self) -> &[u8] {
        &[]
    }
}

impl<T: Tiling + Symbolic> TilingArgument for T {
    const TABLE: Option<&'static Layout> = Some(T::LAYOUT);
    type Symbols = <T as Symbolic>::Symbols;
    fn fields(recording: u64) -> Self::Symbols {
        <T as Symbolic>::symbols(&At { recording, offset: 0, path: String::new() })
    }
    fn bytes(&self) -> &[u8] {
        self.as_bytes()
    }
}

/// A place in the tiling struct of a recording.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct At {
    recording: u64,
    offset: u32,
    path: String,
}

impl At {
    /// Returns the place of a field of the struct at this place. `offset` is the offset of the
    /// field in that struct in bytes, and `name` is its name in C++.
    pub fn field(&self, offset: usize, name: &str) -> At {
        let path = match self.path.is_empty() {
            true => name.to_owned(),
            false => format!("{}.{name}", self.path),
        };
        At { recording: self.recording, offset: self.offset + offset as u32, path }
    }

    /// Returns the place of an element of the array at this place. `size` is the size of an element
    /// in bytes.
    fn element(&self, index: usize, size: usize) -> At {
        let path = format!("{}[{index}]", self.path);
        At { recording: self.recording, offset: self.offset + (index * size) as u32, path }
    }
}

macro_rules! numbers {
    ($($ty:ty)*) => {$(
        impl Symbolic for $ty {
            type Symbols = Value<$ty>;
            type Array<const N: usize> = Values<$ty, N>;

            fn symbols(at: &At) -> Value<$ty> {
                Value::new(record::fresh(at.recording, Location::caller(), |_| {
                    let (offset, path) = (at.offset, at.path.clone());
                    (Of::Tiling { offset, path, element: None }, <$ty>::NUMBER)
                }))
            }

            fn array<const N: usize>(at: &At) -> Values<$ty, N> {
                Values { at: at.clone(), of: PhantomData }
            }
        }
    )*};
}

numbers!(i8 i16 i32 i64 u8 u16 u32 u64 crate::f16 crate::bf16 f32 f64 bool);

/// An array of numbers in the tiling struct.
///
/// ```
/// use hccl::kernel::*;
///
/// #[derive(Tiling)]
/// #[repr(C)]
/// struct Sizes { parts: [u64; 4] }
///
/// #[kernel(mix = "aiv_only")]
/// fn own(k: Kernel<Sizes>, y: Output<u64>) {
///     let parts: symbol::Values<u64, 4> = k.tiling().parts;
///     let core = k.block_index();
///     y.set(core * 8, parts.at(core)); // a number that the kernel computes
///     y.clean(core * 8);
/// }
/// # fn main() -> hccl::Result<()> {
/// # own::record()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Values<T: Scalar, const N: usize> {
    at: At,
    of: PhantomData<fn() -> T>,
}

impl<T: Scalar, const N: usize> Values<T, N> {
    /// Returns the element with this index. A constant index of `N` or more is a mistake in the
    /// recording. Any other index of `N` or more stops the kernel with an error when it runs.
    #[track_caller]
    pub fn at(&self, index: impl Count) -> Value<T> {
        let (recording, here) = (self.at.recording, Location::caller());
        Value::new(record::fresh(recording, here, |recorder| {
            let index = index.count().id(recorder);
            if let Some(index) = recorder.known(index)
                && index >= N as u64
            {
                let path = &self.at.path;
                recorder.mistake(format!(
                    "the length of `{path}` is {N}, so there is no element {index}: use an index \
                     below the length"
                ));
            }
            let element = Some((ValueId(index.0), N as u32));
            let (offset, path) = (self.at.offset, self.at.path.clone());
            (Of::Tiling { offset, path, element }, T::NUMBER)
        }))
    }

    /// Returns the number of elements.
    pub const fn len(&self) -> usize {
        N
    }

    /// Returns whether the array has no elements.
    pub const fn is_empty(&self) -> bool {
        N == 0
    }
}

impl<T: Symbolic, const N: usize> Symbolic for [T; N] {
    type Symbols = T::Array<N>;
    type Array<const M: usize> = [T::Array<N>; M];

    fn symbols(at: &At) -> T::Array<N> {
        T::array::<N>(at)
    }

    fn array<const M: usize>(at: &At) -> [T::Array<N>; M] {
        std::array::from_fn(|index| T::array::<N>(&at.element(index, size_of::<[T; N]>())))
    }
}

/// Returns the symbols of an array of structs.
#[doc(hidden)]
pub fn structs<T: Symbolic, const N: usize>(at: &At) -> [T::Symbols; N] {
    std::array::from_fn(|index| T::symbols(&at.element(index, size_of::<T>())))
}

/// The symbol of an [`Mc2InitTiling`] in the tiling struct. A kernel does not pass it to a client,
/// because a client finds the struct by itself.
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
///         let _init: symbol::InitMember = t.init; // a client finds it by itself
///         let hccl = k.hccl(0).init().configure(&t.all_reduce);
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
#[derive(Clone, Copy, Debug)]
pub struct InitMember(());

impl Symbolic for Mc2InitTiling {
    type Symbols = InitMember;
    type Array<const N: usize> = [InitMember; N];

    fn symbols(_: &At) -> InitMember {
        InitMember(())
    }

    fn array<const N: usize>(at: &At) -> [InitMember; N] {
        structs::<Self, N>(at)
    }
}

/// The symbol of an [`Mc2CcTiling`] in the tiling struct.
/// [`Hccl::configure`](super::Hccl::configure) takes it.
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
///         let member: &symbol::CcMember = &t.all_reduce;
///         let hccl = k.hccl(0).init().configure(member);
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
#[derive(Clone, Debug)]
pub struct CcMember {
    pub(super) at: At,
}

impl CcMember {
    /// Returns the offset of the member in bytes from the `Mc2InitTiling`, which is at the start of
    /// the struct, and the path of the member in C++.
    pub(super) fn place(&self) -> (u32, String) {
        (self.at.offset, self.at.path.clone())
    }

    pub(super) fn recording(&self) -> u64 {
        self.at.recording
    }
}

impl<const BYTES: usize> Symbolic for Mc2CcTiling<BYTES> {
    type Symbols = CcMember;
    type Array<const N: usize> = [CcMember; N];

    fn symbols(at: &At) -> CcMember {
        CcMember { at: at.clone() }
    }

    fn array<const N: usize>(at: &At) -> [CcMember; N] {
        structs::<Self, N>(at)
    }
}

/// The symbols of a [`TCubeTiling`] in the tiling struct. [`Kernel::matmul`](super::Kernel::matmul)
/// takes them.
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
///     let cube: symbol::CubeMember = k.tiling().cube;
///     k.matmul::<f16, f16, f16>(&cube).multiply(
///         a.matrix(cube.ka),
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
#[derive(Clone, Debug)]
pub struct CubeMember {
    at: At,
    /// `M`: the number of rows of the product.
    pub m: Value<i32>,
    /// `N`: the number of columns of the product.
    pub n: Value<i32>,
    /// `Ka`: the number of columns of the left matrix.
    pub ka: Value<i32>,
    /// `Kb`: the number of rows of the right matrix.
    pub kb: Value<i32>,
    /// `usedCoreNum`: the number of cores that take part.
    pub used_core_num: Value<i32>,
    /// `singleCoreM`: the number of rows that one core computes.
    pub single_core_m: Value<i32>,
    /// `singleCoreN`: the number of columns that one core computes.
    pub single_core_n: Value<i32>,
    /// `singleCoreK`: the depth that one core computes.
    pub single_core_k: Value<i32>,
    /// `baseM`: the number of rows of a base block.
    pub base_m: Value<i32>,
    /// `baseN`: the number of columns of a base block.
    pub base_n: Value<i32>,
    /// `baseK`: the depth of a base block.
    pub base_k: Value<i32>,
}

impl CubeMember {
    pub(super) fn place(&self) -> (u32, String) {
        (self.at.offset, self.at.path.clone())
    }

    pub(super) fn recording(&self) -> u64 {
        self.at.recording
    }
}

impl Symbolic for TCubeTiling {
    type Symbols = CubeMember;
    type Array<const N: usize> = [CubeMember; N];

    fn symbols(at: &At) -> CubeMember {
        let field = |offset: usize| {
            // The layout has the names in C++.
            let named = TCubeTiling::LAYOUT.fields().iter().find(|f| f.offset as usize == offset);
            i32::symbols(&at.field(offset, named.map_or("", |field| &field.name)))
        };
        CubeMember {
            at: at.clone(),
            m: field(std::mem::offset_of!(TCubeTiling, m)),
            n: field(std::mem::offset_of!(TCubeTiling, n)),
            ka: field(std::mem::offset_of!(TCubeTiling, ka)),
            kb: field(std::mem::offset_of!(TCubeTiling, kb)),
            used_core_num: field(std::mem::offset_of!(TCubeTiling, used_core_num)),
            single_core_m: field(std::mem::offset_of!(TCubeTiling, single_core_m)),
            single_core_n: field(std::mem::offset_of!(TCubeTiling, single_core_n)),
            single_core_k: field(std::mem::offset_of!(TCubeTiling, single_core_k)),
            base_m: field(std::mem::offset_of!(TCubeTiling, base_m)),
            base_n: field(std::mem::offset_of!(TCubeTiling, base_n)),
            base_k: field(std::mem::offset_of!(TCubeTiling, base_k)),
        }
    }

    fn array<const N: usize>(at: &At) -> [CubeMember; N] {
        structs::<Self, N>(at)
    }
}

/// One number for each rank, as `AlltoAllV` takes them: an array of `u64` in the tiling struct, or
/// an array of [`Value`]s.
///
/// ```
/// use hccl::kernel::*;
///
/// # #[derive(Tiling)]
/// # #[repr(C)]
/// # struct Parts { init: Mc2InitTiling, exchange: Mc2CcTiling, counts: [u64; 4], starts: [u64; 4] }
/// #[kernel(mix = "aiv_1_0")]
/// fn exchange(k: Kernel<Parts>, x: Input<f32>, y: Output<f32>) {
///     let t = k.tiling();
///     k.on_aiv(|| {
///         let hccl = k.hccl(0).init().configure(&t.exchange);
///         let blocks = [0, 64, 128, 192].map(|start| k.value::<u64>(start)); // `Value`s
///         let sent = (&t.counts, &t.starts); // arrays in the tiling struct
///         let task = hccl.all_to_all_v(x, sent, y, (&t.counts, blocks)).commit_all();
///         hccl.wait(&task);
///         k.sync_all_aiv();
///         hccl.finalise();
///     });
/// }
/// # fn main() -> hccl::Result<()> {
/// # exchange::record()?;
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not one number for each rank",
    note = "pass an array of `u64` in the tiling struct, `&t.send_counts`, or an array of `Value<u64>`"
)]
pub trait PerRankCounts {
    #[doc(hidden)]
    fn counts(&self, recorder: &mut CountRecorder<'_>) -> PerRank;
}

/// The recorder in a public wrapper, so that [`PerRankCounts`] can be a public trait.
#[doc(hidden)]
pub struct CountRecorder<'a>(pub(super) &'a mut KernelRecorder);

impl<const N: usize> PerRankCounts for Values<u64, N> {
    fn counts(&self, recorder: &mut CountRecorder<'_>) -> PerRank {
        if self.at.recording != recorder.0.number {
            recorder.0.foreign();
        }
        PerRank::Tiling(self.at.offset, self.at.path.clone(), N as u32)
    }
}

impl PerRankCounts for [Value<u64>] {
    fn counts(&self, recorder: &mut CountRecorder<'_>) -> PerRank {
        let value = |value: &Value<u64>| {
            let id = recorder.0.own(value.handle, Number::U64);
            recorder.0.value(id)
        };
        PerRank::Values(self.iter().map(value).collect())
    }
}

impl<const N: usize> PerRankCounts for [Value<u64>; N] {
    fn counts(&self, recorder: &mut CountRecorder<'_>) -> PerRank {
        self.as_slice().counts(recorder)
    }
}

impl PerRankCounts for Vec<Value<u64>> {
    fn counts(&self, recorder: &mut CountRecorder<'_>) -> PerRank {
        self.as_slice().counts(recorder)
    }
}

impl<C: PerRankCounts + ?Sized> PerRankCounts for &C {
    fn counts(&self, recorder: &mut CountRecorder<'_>) -> PerRank {
        (**self).counts(recorder)
    }
}
