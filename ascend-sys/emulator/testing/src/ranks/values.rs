//! Values of every type, and a reference that reduces them one by one.

use half::{bf16, f16};

/// The numbers of the types that some product reduces.
pub const REDUCIBLE: [u32; 9] = [0, 1, 2, 3, 4, 5, 6, 10, 11];

/// The numbers of the types that some product moves.
pub const MOVABLE: [u32; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 14, 15, 16, 17];

pub fn size(dtype: u32) -> usize {
    match dtype {
        0 | 7 | 14..=17 => 1,
        1 | 3 | 8 | 11 => 2,
        2 | 4 | 9 => 4,
        5 | 6 | 10 => 8,
        _ => panic!("no type {dtype}"),
    }
}

/// A small deterministic generator of numbers.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 29)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 11) % limit
    }
}

/// Returns elements of a type: integers with any bits, and floats that are finite and not too
/// large.
pub fn sample(dtype: u32, count: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let mut bytes = Vec::with_capacity(count * size(dtype));
    for _ in 0..count {
        let bits = random.next();
        let float = (bits % 4001) as f32 / 1000.0 - 2.0;
        match dtype {
            3 => bytes.extend(f16::from_f32(float).to_bits().to_ne_bytes()),
            4 => bytes.extend(float.to_ne_bytes()),
            10 => bytes.extend(f64::from(float).to_ne_bytes()),
            11 => bytes.extend(bf16::from_f32(float).to_bits().to_ne_bytes()),
            _ => bytes.extend(&bits.to_ne_bytes()[..size(dtype)]),
        }
    }
    bytes
}

/// Reduces the inputs element by element in rank order.
pub fn reduce(dtype: u32, op: u32, inputs: &[Vec<u8>]) -> Vec<u8> {
    let size = size(dtype);
    let mut result = Vec::with_capacity(inputs[0].len());
    for at in (0..inputs[0].len()).step_by(size) {
        let words = inputs.iter().map(|input| &input[at..at + size]);
        if inputs.len() == 1 {
            result.extend(&inputs[0][at..at + size]);
            continue;
        }
        match dtype {
            3 => {
                let half = |w: &[u8]| f16::from_bits(u16::from_ne_bytes(w.try_into().unwrap()));
                let value = float(op, words.map(|w| half(w).to_f32()));
                result.extend(f16::from_f32(value).to_bits().to_ne_bytes());
            }
            11 => {
                let half = |w: &[u8]| bf16::from_bits(u16::from_ne_bytes(w.try_into().unwrap()));
                let value = float(op, words.map(|w| half(w).to_f32()));
                result.extend(bf16::from_f32(value).to_bits().to_ne_bytes());
            }
            4 => {
                let value = float(op, words.map(|w| f32::from_ne_bytes(w.try_into().unwrap())));
                result.extend(value.to_ne_bytes());
            }
            10 => {
                let values = words.map(|w| f64::from_ne_bytes(w.try_into().unwrap()));
                let value = values.reduce(|a, b| match op {
                    0 => a + b,
                    1 => a * b,
                    2 => a.max(b),
                    _ => a.min(b),
                });
                result.extend(value.unwrap().to_ne_bytes());
            }
            _ => {
                let wide = |word: &[u8]| {
                    let negative = dtype != 6 && word[size - 1] & 0x80 != 0;
                    let mut bytes = [if negative { 0xff } else { 0 }; 16];
                    bytes[..size].copy_from_slice(word);
                    i128::from_ne_bytes(bytes)
                };
                let value = words.map(wide).reduce(|a, b| {
                    let value = match op {
                        0 => a.wrapping_add(b),
                        1 => a.wrapping_mul(b),
                        2 => a.max(b),
                        _ => a.min(b),
                    };
                    wide(&value.to_ne_bytes()[..size])
                });
                result.extend(&value.unwrap().to_ne_bytes()[..size]);
            }
        }
    }
    result
}

fn float(op: u32, values: impl Iterator<Item = f32>) -> f32 {
    values
        .reduce(|a, b| match op {
            0 => a + b,
            1 => a * b,
            2 => a.max(b),
            _ => a.min(b),
        })
        .unwrap()
}
