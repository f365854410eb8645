//! The root info, by which the ranks of a communicator find one another.

use std::ffi::CStr;
use std::fmt;
use std::sync::Arc;

use ascend_sys::HcclRootInfo;

use crate::api::{Table, call};
use crate::device::Device;
use crate::error::{Error, Result};

/// The address at which the ranks of one communicator meet, made by one rank and given to all.
///
/// The program must pass it to the other ranks: threads of one process clone it, and processes send
/// its [bytes](Self::to_bytes) through a file, a socket or a launcher. One `RootInfo` makes one
/// communicator.
///
/// The process that made the root info must stay alive until all ranks have built their
/// communicator, because that process listens for them.
///
/// ```
/// use hccl::prelude::*;
///
/// # fn main() -> hccl::Result<()> {
/// let runtime = Runtime::emulator(1)?;
/// let root = RootInfo::new(&runtime.device(0)?)?;
/// let received = RootInfo::from_bytes(root.to_bytes())?;
/// assert_eq!(received.to_bytes(), root.to_bytes());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RootInfo {
    raw: Arc<HcclRootInfo>,
}

impl RootInfo {
    /// The length of [`to_bytes`](Self::to_bytes) in bytes: 4108.
    pub const BYTES: usize = size_of::<HcclRootInfo>();

    /// Makes a root info, and opens the address at which the ranks meet, on the host of `device`.
    ///
    /// Does not wait for the other ranks. CANN: `HcclGetRootInfo`.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] when CANN finds no network interface or no free port (the environment
    /// variables `HCCL_IF_IP`, `HCCL_SOCKET_IFNAME` and `HCCL_IF_BASE_PORT` choose them).
    pub fn new(device: &Device) -> Result<Self> {
        let mut raw = HcclRootInfo { internal: [0; Self::BYTES] };
        let _bound = device.bind()?;
        // SAFETY: the structure is writable and of the size that the ABI gives.
        unsafe { call!(device.table(), HcclGetRootInfo, &mut raw) }?;
        Ok(Self { raw: Arc::new(raw) })
    }

    /// Makes a root info that stays within this process. If the backend has an entry for this,
    /// informs the backend.
    pub(crate) fn of_this_process(device: &Device) -> Result<Self> {
        let root_info = Self::new(device)?;
        if let Some(stays) = device.table().functions().ascendExtRootInfoStays {
            // SAFETY: the pointer is live for the call. An error here occurs again when the root
            // info is used.
            unsafe { stays(&*root_info.raw) };
        }
        Ok(root_info)
    }

    /// Returns the 4108 bytes to send to the other ranks. Their format is private to the backend.
    pub fn to_bytes(&self) -> &[u8; Self::BYTES] {
        // SAFETY: `c_char` and `u8` have the same size and alignment, and every byte is
        // initialised.
        unsafe { &*(&raw const self.raw.internal).cast() }
    }

    /// Makes a root info from the bytes that another rank sent.
    ///
    /// # Errors
    ///
    /// [`Error::WrongLength`] unless there are exactly 4108 bytes. The contents are checked when a
    /// communicator is built.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let Ok(bytes) = <&[u8; Self::BYTES]>::try_from(bytes) else {
            return Err(Error::WrongLength {
                operation: "RootInfo::from_bytes",
                what: "the slice",
                expected: Self::BYTES,
                found: bytes.len(),
            });
        };
        let internal = bytes.map(|byte| byte as std::ffi::c_char);
        Ok(Self { raw: Arc::new(HcclRootInfo { internal }) })
    }

    pub(crate) fn raw(&self) -> &HcclRootInfo {
        &self.raw
    }

    /// Notifies the other ranks that this rank issues nothing more, if the backend can do so.
    pub(crate) fn leave(&self, table: &Table, rank: u32, reason: &CStr) {
        let Some(leave) = table.functions().ascendExtRankLeave else { return };
        // SAFETY: both pointers are live for the call.
        let status = unsafe { leave(&*self.raw, rank, reason.as_ptr()) };
        if status.0 != 0 {
            tracing::debug!(
                rank,
                "the other ranks could not be notified that this rank is gone: {status:?}"
            );
        }
    }
}

impl PartialEq for RootInfo {
    fn eq(&self, other: &Self) -> bool {
        self.to_bytes() == other.to_bytes()
    }
}

impl Eq for RootInfo {}

/// Shows the readable beginning of the bytes, which is an address by convention.
impl fmt::Debug for RootInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.to_bytes();
        let end = bytes.iter().position(|byte| !byte.is_ascii_graphic()).unwrap_or(0);
        write!(f, "RootInfo({})", String::from_utf8_lossy(&bytes[..end]))
    }
}
