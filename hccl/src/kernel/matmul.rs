//! Products of matrices, which the cube cores compute.

use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;

use ascend_program::step::{Multiply, Step};
use ascend_program::{Core, Declared, Matmul as MatmulOf, MatmulId};

use super::control::Kernel;
use super::count::{Count, Counted};
use super::record::{self, Caller, NamedKind};
use super::symbol::CubeMember;
use super::tensor::{Input, Matrix, Writes, number, rename};
use super::value::Recordable;
use crate::dtype::Element;

/// A kind of matrix product `c = a * b + bias`, made by [`Kernel::matmul`] (`MatmulImpl`). It
/// determines the types of the elements, and whether `a` and `b` are passed as their transposes.
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
///     let product: Matmul<f16, f16, f16> = k.matmul(&cube).transposed_b();
///     product.multiply(
///         a.matrix(cube.ka),
///         b.matrix(cube.kb),
///         c.matrix(cube.n),
///         (cube.m, cube.n, cube.ka),
///     );
/// }
/// # fn main() -> hccl::Result<()> {
/// # product::record()?;
/// # Ok(())
/// # }
/// ```
pub struct Matmul<A, B, C, Bias = C> {
    recording: u64,
    matmul: MatmulId,
    of: Types<A, B, C, Bias>,
}

type Types<A, B, C, Bias> = PhantomData<fn() -> (A, B, C, Bias)>;

impl<A, B, C, Bias> fmt::Debug for Matmul<A, B, C, Bias> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Matmul({})", self.matmul.0)
    }
}

impl<A, B, C, Bias> Recordable for Matmul<A, B, C, Bias> {
    #[track_caller]
    fn name(&self, name: &str) {
        rename(self.recording, Location::caller(), NamedKind::Matmul, self.matmul.0, name);
    }
}

impl<T> Kernel<T> {
    /// Makes a kind of product `c = a * b` for matrices with elements of these types. `tiling` is a
    /// `TCubeTiling` in the tiling struct, which determines the division of the product.
    /// [`TCubeTiling::for_shape`](super::TCubeTiling::for_shape) fills it on the host.
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
    ///     let t = k.tiling().cube;
    ///     let product = k.matmul::<f16, f16, f16>(&t);
    ///     // Core i has the rows from i * single_core_m on.
    ///     let row = k.block_index().cast::<i32>() * t.single_core_m;
    ///     k.when(row.lt(t.m), || {
    ///         let rows = t.single_core_m.min(t.m - row);
    ///         product.multiply(
    ///             a.at(row * t.ka).matrix(t.ka),
    ///             b.matrix(t.n),
    ///             c.at(row * t.n).matrix(t.n),
    ///             (rows, t.n, t.ka),
    ///         );
    ///     });
    /// }
    /// # fn main() -> hccl::Result<()> {
    /// # product::record()?; Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn matmul<A: Element, B: Element, C: Element>(
        self,
        tiling: &CubeMember,
    ) -> Matmul<A, B, C> {
        let (recording, matmul) = self.declare::<A, B, C>(tiling, Location::caller());
        Matmul { recording, matmul, of: PhantomData }
    }

    fn declare<A: Element, B: Element, C: Element>(
        self,
        tiling: &CubeMember,
        here: Caller,
    ) -> (u64, MatmulId) {
        let matmul = record::with(self.recording, here, |recorder| {
            if tiling.recording() != recorder.number {
                recorder.foreign();
            }
            let (a, b, c) = (number::<A>(), number::<B>(), number::<C>());
            let matmul = MatmulId(recorder.program.matmuls.len() as u32);
            let name = recorder.unique("matmul");
            let what = MatmulOf {
                a,
                b,
                c,
                bias: None,
                transposed_a: false,
                transposed_b: false,
                tiling: tiling.place(),
            };
            if !what.exists() {
                recorder.mistake(format!(
                    "no cube core multiplies {a} by {b} into {c}: cube cores multiply f16 or bf16 \
                     into f16, f32 or bf16; f32 into f32; i8 into i32 or f16; use types of one of \
                     these products"
                ));
            }
            recorder.program.matmuls.push(Declared { name, what });
            matmul
        });
        matmul.map_or((0, MatmulId(0)), |matmul| (self.recording, matmul))
    }
}

/// The shape of a product, or of a piece of it, as a tuple: the number of rows, the number of
/// columns, and the depth.
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
///     k.matmul::<f16, f16, f16>(&cube).multiply(
///         a.matrix(cube.ka),
///         b.matrix(cube.n),
///         c.matrix(cube.n),
///         (16, cube.n, cube.ka), // rows, columns, depth: numbers, or values of the kernel
///     );
/// }
/// # fn main() -> hccl::Result<()> {
/// # product::record()?;
/// # Ok(())
/// # }
/// ```
pub trait Shape {
    #[doc(hidden)]
    fn shape(self) -> [Counted; 3];
}

impl<R: Count, C: Count, D: Count> Shape for (R, C, D) {
    fn shape(self) -> [Counted; 3] {
        [self.0.count(), self.1.count(), self.2.count()]
    }
}

impl<A: Element, B: Element, C: Element, Bias: Element> Matmul<A, B, C, Bias> {
    /// Declares that the left matrix is passed as its transpose, a matrix of depth by rows
    /// elements.
    #[track_caller]
    pub fn transposed_a(self) -> Self {
        self.change(Location::caller(), |what| what.transposed_a = true)
    }

    /// Declares that the right matrix is passed as its transpose, a matrix of columns by depth
    /// elements.
    #[track_caller]
    pub fn transposed_b(self) -> Self {
        self.change(Location::caller(), |what| what.transposed_b = true)
    }

    /// Declares that a row of elements of type `D` is added to each row of the product: see
    /// [`multiply_add`](Self::multiply_add).
    #[track_caller]
    pub fn bias<D: Element>(self) -> Matmul<A, B, C, D> {
        let Matmul { recording, matmul, .. } =
            self.change(Location::caller(), |what| what.bias = Some(number::<D>()));
        Matmul { recording, matmul, of: PhantomData }
    }

    fn change(self, here: Caller, how: impl FnOnce(&mut MatmulOf)) -> Self {
        record::with(self.recording, here, |recorder| {
            if let Some(matmul) = recorder.program.matmuls.get_mut(self.matmul.0 as usize) {
                how(&mut matmul.what);
            }
        });
        self
    }

    /// Computes a piece of the product `c = a * b` on one core. `shape` gives the number of rows
    /// and columns of the piece, and the whole depth of the product. Each matrix must begin at the
    /// first element of the piece ([`Global::matrix`](super::Global::matrix)). If `a` is passed as
    /// its transpose, it is a matrix of depth by rows elements in memory. If `b` is passed as its
    /// transpose, it is a matrix of columns by depth elements in memory.
    #[track_caller]
    pub fn multiply(
        &self,
        a: Matrix<A, impl Sized>,
        b: Matrix<B, impl Sized>,
        c: Matrix<C, Writes>,
        shape: impl Shape,
    ) {
        let here = Location::caller();
        let (a, b) = (reading(a), reading(b));
        self.step(a, b, c, None, shape.shape(), here);
    }

    /// Computes a piece of `c = a * b + bias`, like [`multiply`](Self::multiply). `bias` has one
    /// element for each column of the piece, and is added to each of its rows.
    #[track_caller]
    pub fn multiply_add(
        &self,
        a: Matrix<A, impl Sized>,
        b: Matrix<B, impl Sized>,
        c: Matrix<C, Writes>,
        bias: impl Into<Input<Bias>>,
        shape: impl Shape,
    ) {
        let here = Location::caller();
        let (a, b) = (reading(a), reading(b));
        self.step(a, b, c, Some(bias.into()), shape.shape(), here);
    }

    fn step(
        &self,
        a: (Input<A>, Counted),
        b: (Input<B>, Counted),
        c: Matrix<C, Writes>,
        bias: Option<Input<Bias>>,
        [rows, columns, depth]: [Counted; 3],
        here: Caller,
    ) {
        record::with(self.recording, here, |recorder| {
            recorder.only_on(Core::Aic, "a product of matrices");
            let declared = recorder.program.matmuls.get(self.matmul.0 as usize);
            if declared.is_some_and(|matmul| matmul.what.bias.is_some() != bias.is_some()) {
                recorder.mistake(
                    "use `multiply_add` for a product with `bias::<D>()`, and `multiply` for a product without it",
                );
            }
            let a_place = a.0.spot(recorder).place(recorder, number::<A>());
            let b_place = b.0.spot(recorder).place(recorder, number::<B>());
            let c_place = c.tensor.spot(recorder).place(recorder, number::<C>());
            let bias = bias.map(|bias| bias.spot(recorder).place(recorder, number::<Bias>()));
            let [rows, columns, depth] = [rows, columns, depth].map(|n| n.value(recorder));
            let pitches = [a.1, b.1, c.pitch].map(|pitch| pitch.value(recorder));
            recorder.step(Step::Matmul(Multiply {
                matmul: self.matmul,
                a: a_place,
                b: b_place,
                c: c_place,
                bias,
                rows,
                columns,
                depth,
                pitches,
            }));
        });
    }
}

fn reading<E: Element>(matrix: Matrix<E, impl Sized>) -> (Input<E>, Counted) {
    (matrix.tensor.as_input(), matrix.pitch)
}
