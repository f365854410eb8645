//! Computes the numbers of a `TCubeTiling` for the shape of a product: large blocks, held twice,
//! and pieces of similar size for all cores.

use super::Field::*;
use super::{Chip, Tiles};
use crate::declared::Matmul;

/// A product of matrices that is to be divided among cores.
#[derive(Debug, Clone)]
pub struct Shape<'a> {
    /// The number of rows of A and of C.
    pub m: usize,
    /// The number of columns of B and of C.
    pub n: usize,
    /// The number of columns of A, which is also the number of rows of B.
    pub k: usize,
    /// The types of the matrices.
    pub matmul: &'a Matmul,
    /// The chip that the product runs on.
    pub chip: &'a Chip,
    /// The number of cube cores that the product may use.
    pub cores: u32,
}

/// An error: a part of a [`Shape`] for which there are no numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The name of the part.
    pub setting: &'static str,
    /// The value of the part.
    pub value: String,
    /// The rule: the values that are allowed.
    pub rule: String,
}

/// The size of a piece or of a block: its rows and columns.
type Size = (u32, u32);

impl Shape<'_> {
    /// Returns the tiling for this shape. It has no [`problem`](Tiles::problem), either in a kernel
    /// with only cube cores or in one that also has vector cores.
    ///
    /// # Errors
    ///
    /// Fails if a side is 0 or does not fit into an `i32`, if the number of cube cores is 0 or more
    /// than the chip has, or if cube cores do not multiply these types.
    pub fn tiles(&self) -> Result<Tiles, Refused> {
        let side = |setting, size: usize| match i32::try_from(size) {
            Ok(size @ 1..) => Ok(size.unsigned_abs()),
            _ => Err(Refused {
                setting,
                value: size.to_string(),
                rule: format!("a matrix has 1 to {} rows and columns", i32::MAX),
            }),
        };
        let (m, n, k) = (side("m", self.m)?, side("n", self.n)?, side("k", self.k)?);
        if self.cores == 0 || self.cores > self.chip.cores {
            let rule = format!("the chip has 1 to {} cube cores to use", self.chip.cores);
            return Err(Refused { setting: "cores", value: self.cores.to_string(), rule });
        }
        if !self.matmul.exists() {
            let rule = "cube cores multiply, for example, `f16, f16, f16` with a bias of `f32`";
            let value = self.matmul.types();
            return Err(Refused { setting: "types", value, rule: rule.into() });
        }
        let piece = piece((m, n), self.cores);
        let (base_m, base_n) = self.base(piece);
        let base_k = self.base_k((base_m, base_n), k);
        let buffers_c = if 8 * base_m * base_n <= self.chip.l0c { 2 } else { 1 };
        let step = self.step((base_m, base_n, base_k), k);
        let mut tiles = Tiles([0; 50]);
        for (field, number) in [
            (UsedCoreNum, m.div_ceil(piece.0) * n.div_ceil(piece.1)),
            (M, m),
            (N, n),
            (Ka, k),
            (Kb, k),
            (SingleCoreM, piece.0),
            (SingleCoreN, piece.1),
            (SingleCoreK, k),
            (BaseM, base_m),
            (BaseN, base_n),
            (BaseK, base_k),
            (DepthA1, 2 * step),
            (DepthB1, 2 * step),
            (StepM, 1),
            (StepN, 1),
            (StepKa, step),
            (StepKb, step),
            (IsBias, self.matmul.bias.is_some().into()),
            (DbL0A, 2),
            (DbL0B, 2),
            (DbL0C, buffers_c),
        ] {
            tiles.set(field, number);
        }
        Ok(tiles)
    }

    /// Returns the number of bytes of an element of A and of an element of B.
    fn sizes(&self) -> (u32, u32) {
        (self.matmul.a.size(), self.matmul.b.size())
    }

    /// Returns a number of which baseK must be a multiple, whichever matrices are transposed.
    fn grain(&self) -> u32 {
        (32 / self.matmul.a.size()).max(16)
    }

    /// Returns the rows and columns of a block. Among the sizes that fit, the result reads A and B
    /// least often. Among those, it is the nearest to a square.
    fn base(&self, (rows, columns): Size) -> Size {
        let grain = self.grain();
        let (a, b) = self.sizes();
        let fits = |(m, n): &Size| {
            let bias = self.matmul.bias.is_none() || 4 * n <= self.chip.bias;
            2 * m * grain * a <= self.chip.l0a
                && 2 * n * grain * b <= self.chip.l0b
                && 4 * m * n <= self.chip.l0c
                && bias
        };
        let read = |(m, n): &Size| {
            let times = |of: u32, base: u32| u64::from(of.div_ceil(base));
            u64::from(rows) * times(columns, *n) * u64::from(a)
                + u64::from(columns) * times(rows, *m) * u64::from(b)
        };
        let pairs = lengths(rows).flat_map(|m| lengths(columns).map(move |n| (m, n)));
        // The filter always leaves a size, because 16 by 16 fits everywhere.
        pairs
            .filter(fits)
            .min_by_key(|size| (read(size), size.0.max(size.1), size.0))
            .unwrap_or((16, 16))
    }

    /// Returns the depth of a block, which is as large as two blocks of A and two of B allow.
    fn base_k(&self, (m, n): Size, k: u32) -> u32 {
        let (a, b) = self.sizes();
        let grain = self.grain();
        let most = (self.chip.l0a / (2 * m * a)).min(self.chip.l0b / (2 * n * b));
        (most / grain * grain).min(k.div_ceil(grain) * grain)
    }

    /// Returns the number of blocks along K of each matrix in one step. L1 can hold twice as many
    /// blocks. The result is the number of all blocks, or a power of two.
    fn step(&self, (m, n, base_k): (u32, u32, u32), k: u32) -> u32 {
        let (a, b) = self.sizes();
        // The room is for two copies of the bias, because the documents do not say how many L1
        // holds.
        let bias = if self.matmul.bias.is_some() { 2 * 4 * n } else { 0 };
        let room = self.chip.l1 - self.chip.l1_reserve - bias;
        let most = (room / (2 * base_k * (m * a + n * b))).max(1);
        let all = k.div_ceil(base_k);
        if all <= most { all } else { 1 << most.ilog2() }
    }
}

/// Returns the lengths that a block may have along a side of this length: powers of two, and the
/// whole side.
fn lengths(of: u32) -> impl Iterator<Item = u32> + Clone {
    let all = of.div_ceil(16).saturating_mul(16);
    let powers = (4..=10).map(|power| 1 << power).filter(move |length| *length < all);
    powers.chain((all <= 1024).then_some(all))
}

/// Returns the size of the piece of C for each core. Among the pieces that are at most a little
/// larger than the smallest one, the result is the nearest to a square, because that piece reads
/// least.
fn piece((m, n): Size, cores: u32) -> Size {
    // A border between two cores is always a border between two blocks of 16.
    let along = |of: u32, pieces: u32| of.div_ceil(pieces).div_ceil(16).saturating_mul(16).min(of);
    let area = |(rows, columns): &Size| u64::from(*rows) * u64::from(*columns);
    let sides = |(rows, columns): &Size| (u64::from(*rows) + u64::from(*columns), *rows);
    let splits = (1..=cores).flat_map(|down| (1..=cores / down).map(move |across| (down, across)));
    let pieces = splits.map(|(down, across)| (along(m, down), along(n, across)));
    let smallest = pieces.clone().map(|piece| area(&piece)).min().unwrap_or(u64::MAX);
    let small = |piece: &Size| area(piece) <= smallest.saturating_add(smallest / 32);
    pieces.filter(small).min_by_key(sides).unwrap_or((m, n))
}
