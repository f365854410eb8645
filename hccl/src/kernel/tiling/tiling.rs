//! The trait of tiling structs.

use std::mem::MaybeUninit;

use ascend_program::layout::{Communication, Dump, Layout};

use super::communication;
use super::field::{self, FieldType};
use crate::error::Result;

/// A struct that the host fills and a kernel reads. Implemented by `#[derive(Tiling)]`; see the
/// [module](super).
///
/// # Safety
///
/// `LAYOUT` describes the whole struct: its fields lie where the table says, each has the type that
/// it says, and between and behind them there are no bytes. The derive checks this when the program
/// is compiled, so there is no reason to write an implementation by hand.
///
/// ```
/// use hccl::kernel::Tiling;
///
/// #[derive(Tiling)]
/// #[repr(C)]
/// struct Sizes { count: u64, scale: f32, rest: u32 }
///
/// let sizes = Sizes { count: 64, scale: 0.5, ..Sizes::zeroed() };
/// assert_eq!(sizes.as_bytes().len(), 16); // the kernel gets these
/// println!("{}", Sizes::LAYOUT.header()); // the struct in C++
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tiling struct",
    label = "this needs a struct with `#[derive(Tiling)]` and `#[repr(C)]`",
    note = "write `#[derive(hccl::kernel::Tiling)]` and `#[repr(C)]` above `{Self}`"
)]
pub unsafe trait Tiling: FieldType {
    /// The name, offset, size and type of each field. `Display` prints it as a table.
    const LAYOUT: &'static Layout;

    /// A number that tells layouts apart: it differs as soon as a name, an offset, a size or a type
    /// differs.
    const LAYOUT_HASH: u64 = Self::LAYOUT.hash();

    /// The places of the [`Mc2CcTiling`](super::Mc2CcTiling), in bytes, as `SetCcTilingV2` takes
    /// them. For a field `all_to_all` the derive also makes a constant of its own,
    /// `ALL_TO_ALL_OFFSET`.
    const CC_TILINGS: &'static [u64] = const { Communication::of(Self::LAYOUT) }.cc_tilings();

    /// Returns the struct with zeros in all its bytes.
    fn zeroed() -> Self {
        // SAFETY: by `LAYOUT` the struct is made of numbers and bools, for which zeros are a value.
        unsafe { MaybeUninit::zeroed().assume_init() }
    }

    /// Returns the bytes that the kernel gets.
    fn as_bytes(&self) -> &[u8] {
        // SAFETY: by `LAYOUT` there is no padding, so all bytes of the struct are initialised; they
        // live as long as the borrow.
        unsafe { std::slice::from_raw_parts((&raw const *self).cast(), size_of::<Self>()) }
    }

    /// Returns the struct with these bytes, at any alignment.
    ///
    /// # Errors
    ///
    /// [`Error::Tiling`](crate::Error::Tiling) for a wrong number of bytes, a `bool` that is
    /// neither 0 nor 1, a value out of the range of its field, and communication structs that were
    /// not filled by this version of the library or that stand elsewhere.
    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        field::check_bytes(Self::LAYOUT, bytes)?;
        // SAFETY: there are as many bytes as the struct has. By `LAYOUT` it is made of numbers, of
        // which every pattern is a value, and bools, which were checked.
        let read: Self = unsafe { bytes.as_ptr().cast::<Self>().read_unaligned() };
        read.check()?;
        communication::check(Self::LAYOUT, bytes)?;
        Ok(read)
    }

    /// Checks that each field with a `range` lies in it, for fields that were not set by their
    /// setter.
    ///
    /// # Errors
    ///
    /// [`Error::Tiling`](crate::Error::Tiling) with the first field that does not.
    fn check(&self) -> Result<()> {
        self.check_value()
    }

    /// Returns the names and values, a line each.
    fn dump(&self) -> Dump<'_> {
        Self::LAYOUT.dump(self.as_bytes())
    }
}
