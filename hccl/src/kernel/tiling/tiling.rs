//! The trait of tiling structs.

use std::mem::MaybeUninit;

use ascend_program::layout::{Communication, Dump, Layout};

use super::communication;
use super::field::{self, FieldType};
use crate::error::Result;

/// A struct that the host fills and a kernel reads. `#[derive(Tiling)]` implements this trait; see
/// the [module](super).
///
/// # Safety
///
/// `LAYOUT` must describe the whole struct. Each field must have the offset and the type that the
/// layout gives for it. There must be no bytes between the fields or after the last field. The
/// derive checks this at compile time, so use the derive instead of an implementation by hand.
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

    /// A hash of the layout. It changes if a name, an offset, a size or a type changes, but not if
    /// a doc comment changes.
    const LAYOUT_HASH: u64 = Self::LAYOUT.hash();

    /// The offsets of the [`Mc2CcTiling`](super::Mc2CcTiling) fields in bytes, as `SetCcTilingV2`
    /// takes them. The derive also makes a constant for each of these fields, for example
    /// `ALL_TO_ALL_OFFSET` for a field `all_to_all`.
    const CC_TILINGS: &'static [u64] = const { Communication::of(Self::LAYOUT) }.cc_tilings();

    /// Returns a struct whose bytes are all 0.
    fn zeroed() -> Self {
        // SAFETY: according to `LAYOUT`, the struct consists of numbers and bools, for which zero
        // bytes are a valid value.
        unsafe { MaybeUninit::zeroed().assume_init() }
    }

    /// Returns the bytes that the kernel gets.
    fn as_bytes(&self) -> &[u8] {
        // SAFETY: according to `LAYOUT` there is no padding, so all bytes of the struct are
        // initialised. They live as long as the borrow.
        unsafe { std::slice::from_raw_parts((&raw const *self).cast(), size_of::<Self>()) }
    }

    /// Reads a struct from its bytes, which may have any alignment.
    ///
    /// # Errors
    ///
    /// [`Error::Tiling`](crate::Error::Tiling) for a wrong number of bytes, a `bool` byte above 1,
    /// or a value out of the range of its field. The same error is returned if the communication
    /// structs are not filled, have another version than this library writes, or have other offsets
    /// than in this layout.
    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        field::check_bytes(Self::LAYOUT, bytes)?;
        // SAFETY: the number of bytes is the size of the struct. According to `LAYOUT`, the struct
        // consists of numbers, for which every pattern is valid, and of bools, which were checked.
        let read: Self = unsafe { bytes.as_ptr().cast::<Self>().read_unaligned() };
        read.check()?;
        communication::check(Self::LAYOUT, bytes)?;
        Ok(read)
    }

    /// Checks that each field with a `range` is within it. Only fields that were not set by their
    /// setter can be out of range.
    ///
    /// # Errors
    ///
    /// [`Error::Tiling`](crate::Error::Tiling) for the first field that is out of its range.
    fn check(&self) -> Result<()> {
        self.check_value()
    }

    /// Returns the offset, name and value of each field for printing, with one line for each field.
    /// The fields of an inner struct have lines of their own. Reserved bytes of CANN's structs, and
    /// the later elements of long arrays, are left out.
    fn dump(&self) -> Dump<'_> {
        Self::LAYOUT.dump(self.as_bytes())
    }
}
