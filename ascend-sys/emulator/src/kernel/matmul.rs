//! Products of matrices: `c = a * b`. Each element is summed in 32 bits in the order of the depth.
//! A call computes some rows.

use super::global::RegionAddress;
use ascend_program::Matmul;
use ascend_program::flow::{load, store};
use ascend_program::layout::Number;
use half::{bf16, f16};

/// The number of multiplications of one piece of work, which takes about 20 microseconds. Then
/// other work gets a turn.
const PIECE: usize = 96 << 10;

/// The sizes of a product in elements. The pitches of `a`, `b` and `c` are the distances between
/// the starts of two rows.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub(super) rows: u64,
    pub(super) columns: u64,
    pub(super) depth: u64,
    pub(super) pitches: [u64; 3],
}

/// A product that is being computed.
pub(super) struct MatrixProduct {
    types: Matmul,
    sizes: Sizes,
    a: RegionAddress,
    c: RegionAddress,
    /// The right matrix, row by row.
    b: Vec<f32>,
    bias: Vec<f32>,
    /// A row of the result. `left` is a row of the left matrix.
    sums: Vec<f32>,
    left: Vec<f32>,
    row: u64,
}

/// Converts all numbers in `bytes` to 32-bit floats and appends them to `to`.
fn widen(number: Number, bytes: &[u8], to: &mut Vec<f32>) {
    let words = || bytes.chunks_exact(2).map(|word| u16::from_le_bytes([word[0], word[1]]));
    match number {
        Number::F16 => to.extend(words().map(|word| f16::from_bits(word).to_f32())),
        Number::Bf16 => to.extend(words().map(|word| bf16::from_bits(word).to_f32())),
        Number::F32 => {
            let word = |w: &[u8]| f32::from_le_bytes([w[0], w[1], w[2], w[3]]);
            to.extend(bytes.chunks_exact(4).map(word));
        }
        Number::F64 => {
            to.extend(bytes.chunks_exact(8).map(|w| f64::from_bits(load(number, w)) as f32));
        }
        _ => {
            let size = number.size() as usize;
            to.extend(bytes.chunks_exact(size).map(|word| load(number, word) as i64 as f32));
        }
    }
}

fn read(
    from: &mut RegionAddress,
    number: Number,
    at: u64,
    count: u64,
    bytes: &mut Vec<u8>,
    to: &mut Vec<f32>,
) -> Result<(), String> {
    let size = u64::from(number.size());
    let too_large =
        || "a matrix is larger than any memory; check its sizes and its pitch".to_owned();
    let offset = at.checked_mul(size).and_then(|at| at.checked_add(from.offset));
    let (offset, length) = offset.zip(count.checked_mul(size)).ok_or_else(too_large)?;
    // The range is checked before memory of that size is allocated.
    from.region.at(offset, length)?;
    bytes.resize(length as usize, 0);
    from.region.read(offset, bytes)?;
    widen(number, bytes, to);
    Ok(())
}

impl MatrixProduct {
    pub(super) fn new(
        types: Matmul,
        sizes: Sizes,
        (a, mut b, mut c): (RegionAddress, RegionAddress, RegionAddress),
        bias: Option<RegionAddress>,
    ) -> Result<MatrixProduct, String> {
        let Sizes { rows, columns, depth, pitches } = sizes;
        // Rows must not overlap. So no matrix is larger than its memory, and no vector below is
        // either.
        let turned = |transposed: bool, x: u64, y: u64| if transposed { (y, x) } else { (x, y) };
        for (name, (lines, length), pitch) in [
            ("a", turned(types.transposed_a, rows, depth), pitches[0]),
            ("b", turned(types.transposed_b, depth, columns), pitches[1]),
            ("c", (rows, columns), pitches[2]),
        ] {
            if lines > 1 && pitch < length {
                return Err(format!(
                    "the rows of {name} have {length} elements and begin {pitch} elements apart, \
                     so they overlap; use a pitch of at least {length}"
                ));
            }
        }
        let end = (rows - 1).saturating_mul(pitches[2]).saturating_add(columns);
        let end = end.saturating_mul(types.c.size().into());
        c.region.at(c.offset, end)?;
        let (mut bytes, mut right, mut added) = (Vec::new(), Vec::new(), Vec::new());
        if types.transposed_b {
            let mut lying = Vec::new();
            for column in 0..columns {
                read(
                    &mut b,
                    types.b,
                    column.saturating_mul(pitches[1]),
                    depth,
                    &mut bytes,
                    &mut lying,
                )?;
            }
            let (columns, depth) = (columns as usize, depth as usize);
            right.reserve(lying.len());
            for d in 0..depth {
                right.extend((0..columns).map(|column| lying[column * depth + d]));
            }
        } else {
            for d in 0..depth {
                read(
                    &mut b,
                    types.b,
                    d.saturating_mul(pitches[1]),
                    columns,
                    &mut bytes,
                    &mut right,
                )?;
            }
        }
        if let Some(mut bias) = bias {
            let number = types.bias.unwrap_or(types.c);
            read(&mut bias, number, 0, columns, &mut bytes, &mut added)?;
        }
        Ok(MatrixProduct {
            types,
            sizes,
            a,
            c,
            b: right,
            bias: added,
            sums: Vec::new(),
            left: Vec::new(),
            row: 0,
        })
    }

    /// Returns all rows of the result with their byte offsets, without writing them.
    pub(super) fn rows(&mut self) -> Result<Vec<(u64, Vec<u8>)>, String> {
        let mut rows = Vec::new();
        let mut bytes = Vec::new();
        while self.row < self.sizes.rows {
            self.sum(&mut bytes)?;
            rows.push(self.row_bytes());
            self.row += 1;
        }
        Ok(rows)
    }

    /// Computes and writes some rows. Returns true when all rows are done.
    pub(super) fn go_on(&mut self) -> Result<bool, String> {
        let Sizes { rows, columns, depth, .. } = self.sizes;
        let mut done = 0;
        let mut bytes = Vec::new();
        while self.row < rows && done < PIECE {
            self.sum(&mut bytes)?;
            let (offset, row) = self.row_bytes();
            self.c.region.write(offset, &row)?;
            self.row += 1;
            done += (columns as usize).saturating_mul(depth as usize).max(1);
        }
        Ok(self.row == rows)
    }

    /// Computes the sums of the next row.
    fn sum(&mut self, bytes: &mut Vec<u8>) -> Result<(), String> {
        let Sizes { columns, depth, pitches, .. } = self.sizes;
        self.left.clear();
        if self.types.transposed_a {
            for d in 0..depth {
                let at = d.saturating_mul(pitches[0]).saturating_add(self.row);
                read(&mut self.a, self.types.a, at, 1, bytes, &mut self.left)?;
            }
        } else {
            let at = self.row.saturating_mul(pitches[0]);
            read(&mut self.a, self.types.a, at, depth, bytes, &mut self.left)?;
        }
        self.sums.clear();
        self.sums.resize(columns as usize, 0.0);
        for (left, right) in self.left.iter().zip(self.b.chunks_exact((columns as usize).max(1))) {
            for (sum, right) in self.sums.iter_mut().zip(right) {
                *sum += left * right;
            }
        }
        for (sum, bias) in self.sums.iter_mut().zip(&self.bias) {
            *sum += bias;
        }
        Ok(())
    }

    /// Returns the byte offset and the bytes of the row that was summed.
    fn row_bytes(&self) -> (u64, Vec<u8>) {
        let number = self.types.c;
        let size = number.size() as usize;
        let mut bytes = Vec::with_capacity(self.sums.len() * size);
        for sum in &self.sums {
            let bits = match number {
                Number::F16 | Number::Bf16 | Number::F32 | Number::F64 => f64::from(*sum).to_bits(),
                _ => *sum as i64 as u64,
            };
            bytes.extend_from_slice(&store(number, bits)[..size]);
        }
        let at = self.row.saturating_mul(self.sizes.pitches[2]).saturating_mul(size as u64);
        (self.c.offset.saturating_add(at), bytes)
    }
}
