//! 8-bit floats of the OCP formats, as bytes. Use them to move data in 8 bits. To reduce 8-bit
//! floats, convert them to another type first.
//!
//! HCCL can move 8-bit floats, but cannot reduce them. So a program moves them as `u8`, for example
//! by an all-gather of a `DeviceBuffer<u8>`. [`F8E4M3`] and [`F8E5M2`] convert between these bytes
//! and `f32` on the host.
//!
//! | | exponent, fraction | largest | smallest above 0 | infinities | NaNs |
//! | --- | --- | --- | --- | --- | --- |
//! | [`F8E4M3`] | 4, 3 bits | 448 | 2⁻⁹ | none | `0x7f`, `0xff` |
//! | [`F8E5M2`] | 5, 2 bits | 57,344 | 2⁻¹⁶ | `0x7c`, `0xfc` | `0x7d` to `0x7f`, `0xfd` to `0xff` |
//!
//! Conversions from `f32` round to the nearest value. If two values are equally near, the result is
//! the one whose byte is even. There are two conversions, which differ for infinities and for
//! numbers beyond the largest value. [`from_f32`](F8E4M3::from_f32) is *saturating*: it returns the
//! largest value. [`from_f32_unsaturated`](F8E4M3::from_f32_unsaturated) returns an infinity, or
//! NaN if the format has no infinities. Both keep the sign, and NaN stays NaN. Conversions to `f32`
//! are exact.
//!
//! ```
//! use hccl::dtype::fp8::F8E4M3;
//! use hccl::prelude::*;
//!
//! # fn main() -> hccl::Result<()> {
//! # let runtime = Runtime::emulator(2)?;
//! let gathered = runtime.run_ranks(2, |rank| {
//!     let stream = rank.device().stream()?;
//!     let mut comm = rank.communicator()?;
//!     let x = [0.1_f32, 500.0].map(|x| F8E4M3::from_f32(x * (rank.index() + 1) as f32).to_bits());
//!     let x = rank.device().upload(&x, &stream)?;
//!     let (all, _) = comm.all_gather(&x, rank.device().alloc(4)?, &stream)?;
//!     let all = all.to_vec(&stream).wait()?;
//!     Ok::<_, hccl::Error>(all.into_iter().map(|x| F8E4M3::from_bits(x).to_f32()).collect::<Vec<_>>())
//! })?;
//! assert_eq!(gathered[0], [0.1015625, 448.0, 0.203125, 448.0]);
//! # Ok(())
//! # }
//! ```

use std::fmt;

/// A format: the number of bits of the fraction, the bias of the exponent, and the codes of the
/// largest value and of the values beyond it.
#[derive(Clone, Copy)]
struct Format {
    fraction_bits: u32,
    /// The bias of the exponent.
    bias: i32,
    /// The code of the largest value.
    largest: u8,
    /// The code for values beyond the largest value.
    beyond: u8,
}

const E4M3: Format = Format { fraction_bits: 3, bias: 7, largest: 0x7e, beyond: 0x7f };
const E5M2: Format = Format { fraction_bits: 2, bias: 15, largest: 0x7b, beyond: 0x7c };

/// The code of a NaN in both formats.
const NAN: u8 = 0x7f;
const SIGN: u8 = 0x80;

impl Format {
    /// Returns the code of a value. A value beyond the largest one has the code `beyond`, with the
    /// sign of the value.
    const fn encode(self, value: f32, beyond: u8) -> u8 {
        let bits = value.to_bits();
        let sign = (bits >> 24) as u8 & SIGN;
        let magnitude = bits & 0x7fff_ffff;
        if magnitude > f32::INFINITY.to_bits() {
            return sign | NAN;
        }
        if magnitude == f32::INFINITY.to_bits() {
            return sign | beyond;
        }
        // The value is `significand` times 2 to the power of `exponent - 23`. Subnormals of `f32`
        // are far below half of the smallest value above 0.
        let exponent = (magnitude >> 23) as i32 - 127;
        let significand = magnitude & 0x7f_ffff | 0x80_0000;
        // Below the smallest normal value, the distance between two codes is the same as just above
        // it.
        let smallest = 1 - self.bias;
        let missing = if exponent < smallest { (smallest - exponent) as u32 } else { 0 };
        let drop = 23 - self.fraction_bits + missing;
        if drop > 24 {
            return sign;
        }
        let (kept, rest, half) =
            (significand >> drop, significand & ((1 << drop) - 1), 1 << (drop - 1));
        let rounded = kept + (rest > half || rest == half && kept & 1 == 1) as u32;
        // A carry of the fraction increments the exponent, which is correct.
        let code = match missing {
            0 => (((exponent - smallest) as u32) << self.fraction_bits) + rounded,
            _ => rounded,
        };
        if code > self.largest as u32 { sign | beyond } else { sign | code as u8 }
    }

    /// Returns the value of a code.
    const fn decode(self, code: u8) -> f32 {
        let sign = ((code & SIGN) as u32) << 24;
        let magnitude = code & !SIGN;
        let bits = if magnitude > self.largest {
            match magnitude == self.beyond && self.beyond != NAN {
                true => f32::INFINITY.to_bits(),
                false => f32::NAN.to_bits(),
            }
        } else {
            let (exponent, fraction) = (
                (magnitude >> self.fraction_bits) as i32,
                (magnitude & ((1 << self.fraction_bits) - 1)) as u32,
            );
            if exponent == 0 {
                // The product is exact: an integer times the smallest value, which is a power of
                // two.
                let smallest = 127 + 1 - self.bias - self.fraction_bits as i32;
                (fraction as f32 * f32::from_bits((smallest as u32) << 23)).to_bits()
            } else {
                (((127 + exponent - self.bias) as u32) << 23)
                    | fraction << (23 - self.fraction_bits)
            }
        };
        f32::from_bits(sign | bits)
    }
}

macro_rules! formats {
    ($($name:ident, $format:ident, $doc:literal, $largest:literal, $beyond:literal;)*) => { $(
        #[doc = $doc]
        ///
        /// Two values are equal if their bytes are equal. So a NaN equals itself, but 0 does not
        /// equal -0. See the [module](self).
        ///
        /// ```
        #[doc = concat!("use hccl::dtype::fp8::", stringify!($name), ";")]
        ///
        #[doc = concat!("let x = ", stringify!($name), "::from_f32(1.3); // the nearest value")]
        /// println!("{:#04x} is {}", x.to_bits(), x.to_f32());
        #[doc = concat!("assert_eq!(", stringify!($name), "::from_bits(x.to_bits()), x);")]
        /// ```
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        #[repr(transparent)]
        pub struct $name(u8);

        impl $name {
            /// The largest value.
            pub const MAX: Self = Self($format.largest);
            /// A NaN.
            pub const NAN: Self = Self(NAN);

            /// Returns the value with this byte.
            pub const fn from_bits(bits: u8) -> Self {
                Self(bits)
            }

            /// Returns the byte of the value.
            pub const fn to_bits(self) -> u8 {
                self.0
            }

            #[doc = concat!("Returns the nearest value, at most ", $largest, " in magnitude.")]
            /// The sign is kept, and NaN stays NaN.
            pub const fn from_f32(value: f32) -> Self {
                Self($format.encode(value, $format.largest))
            }

            #[doc = concat!("Returns the nearest value. Above ", $largest, " it is ", $beyond, ".")]
            /// A number is above the largest value if it rounds to more. The sign is kept, and NaN
            /// stays NaN.
            pub const fn from_f32_unsaturated(value: f32) -> Self {
                Self($format.encode(value, $format.beyond))
            }

            /// Returns the value as `f32`, which is exact.
            pub const fn to_f32(self) -> f32 {
                $format.decode(self.0)
            }

            /// Returns whether the value is a NaN.
            pub const fn is_nan(self) -> bool {
                self.to_f32().is_nan()
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#04x}, {})"), self.0, self.to_f32())
            }
        }

        impl From<$name> for f32 {
            fn from(value: $name) -> f32 {
                value.to_f32()
            }
        }
    )* };
}

formats! {
    F8E4M3, E4M3, "An 8-bit float with 4 bits of exponent and 3 of fraction (OCP E4M3).", "448", "NaN";
    F8E5M2, E5M2, "An 8-bit float with 5 bits of exponent and 2 of fraction (OCP E5M2).", "57,344", "an infinity";
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the value of a code, computed from the definition of the format. `None` for NaN.
    fn defined(format: Format, code: u8) -> Option<f64> {
        let (m, sign) = (format.fraction_bits, if code < 128 { 1.0 } else { -1.0 });
        let (exponent, fraction) = (i32::from(code & 0x7f) >> m, f64::from(code & ((1 << m) - 1)));
        let scale = power(m as i32);
        let magnitude = match (format.bias, exponent, code & 0x7f) {
            (7, _, 0x7f) => return None,
            (15, 31, 0x7c) => f64::INFINITY,
            (15, 31, _) => return None,
            (bias, 0, _) => fraction / scale * power(1 - bias),
            (bias, exponent, _) => (1.0 + fraction / scale) * power(exponent - bias),
        };
        Some(sign * magnitude)
    }

    /// Returns 2 to this power. The result is exact, which `powi` does not guarantee.
    fn power(exponent: i32) -> f64 {
        f64::from_bits(((1023 + exponent) as u64) << 52)
    }

    /// Returns each format with the code for values beyond the largest one, once saturating and
    /// once not.
    fn encoders() -> [(Format, u8); 4] {
        [(E4M3, E4M3.largest), (E4M3, E4M3.beyond), (E5M2, E5M2.largest), (E5M2, E5M2.beyond)]
    }

    #[test]
    fn every_code_is_what_the_format_defines_and_comes_back() {
        for (format, beyond) in encoders() {
            for code in 0..=u8::MAX {
                let value = format.decode(code);
                let Some(expected) = defined(format, code) else {
                    assert!(value.is_nan(), "{code:#x} is {value}");
                    let again = format.encode(value, beyond);
                    assert!(format.decode(again).is_nan() && again & SIGN == code & SIGN);
                    continue;
                };
                assert_eq!(f64::from(value).to_bits(), expected.to_bits(), "{code:#x}");
                let is_finite = code & 0x7f <= format.largest;
                let back = if is_finite { code } else { beyond | code & SIGN };
                assert_eq!(format.encode(value, beyond), back, "{code:#x}");
            }
        }
        assert_eq!(F8E4M3::MAX.to_f32(), 448.0);
        assert_eq!(F8E5M2::MAX.to_f32(), 57_344.0);
        assert!(F8E4M3::NAN.is_nan() && F8E5M2::NAN.is_nan());
        assert_eq!(format!("{:?}", F8E5M2::from_f32(-1.0)), "F8E5M2(0xbc, -1)");
    }

    #[test]
    fn values_between_two_codes_go_to_the_nearer_or_the_even_one() {
        for (format, beyond) in encoders() {
            for low in 0..format.largest {
                let (a, b) = (format.decode(low), format.decode(low + 1));
                let middle = (a + b) / 2.0;
                let even = low + low % 2;
                for sign in [0, SIGN] {
                    let encode = |value: f32| {
                        format.encode(if sign == 0 { value } else { -value }, beyond) ^ sign
                    };
                    assert_eq!(encode(middle), even, "{low:#x} and its successor");
                    assert_eq!(encode(middle.next_down()), low);
                    assert_eq!(encode(middle.next_up()), low + 1);
                    assert_eq!(encode(a.next_up()), low);
                    assert_eq!(encode(b.next_down()), low + 1);
                }
            }
        }
    }

    #[test]
    fn a_greater_value_has_no_smaller_code() {
        for (format, beyond) in encoders() {
            let mut last = 0;
            // This covers every exponent, subnormals of f32 and infinity, with many different
            // fractions.
            for bits in (0..=f32::INFINITY.to_bits()).step_by(0x1_0001) {
                let code = format.encode(f32::from_bits(bits), beyond);
                assert!(code >= last, "{bits:#x}");
                assert_eq!(format.encode(-f32::from_bits(bits), beyond), code | SIGN);
                last = code;
            }
            assert_eq!(last, beyond);
        }
    }

    #[test]
    fn what_is_too_large_saturates_or_is_infinite_or_nan() {
        // A number half a step beyond the largest value is a tie, and rounds to the even code. Only
        // for E4M3 is this the code of the largest value.
        for (value, e4m3, e5m2) in
            [(464.0, 0x7e, 0x5f), (464.1, 0x7f, 0x5f), (f32::MAX, 0x7f, 0x7c)]
        {
            assert_eq!(F8E4M3::from_f32_unsaturated(value).to_bits(), e4m3, "{value}");
            assert_eq!(F8E5M2::from_f32_unsaturated(value).to_bits(), e5m2, "{value}");
        }
        assert_eq!(F8E5M2::from_f32_unsaturated(61_439.0).to_bits(), 0x7b);
        assert_eq!(F8E5M2::from_f32_unsaturated(61_440.0).to_f32(), f32::INFINITY);
        for value in [449.0, 1e9, f32::INFINITY] {
            assert_eq!(F8E4M3::from_f32(value).to_f32(), 448.0);
            assert_eq!(F8E4M3::from_f32(-value).to_f32(), -448.0);
        }
        assert_eq!(F8E5M2::from_f32(f32::NEG_INFINITY).to_f32(), -57_344.0);
        assert_eq!(F8E5M2::from_f32_unsaturated(f32::NEG_INFINITY).to_f32(), f32::NEG_INFINITY);
        assert!(F8E4M3::from_f32_unsaturated(f32::INFINITY).is_nan());
        assert!(F8E4M3::from_f32(f32::NAN).is_nan() && F8E5M2::from_f32(f32::NAN).is_nan());
    }
}
