//! The address of the process of an endpoint. It is written in the last bytes of an `EndpointDesc`,
//! which have no meaning in CANN.
//!
//! A program passes descriptions from process to process by its own means. On hardware an address
//! identifies one endpoint. In the emulator each process has its own set of all devices, so a
//! description must also name the process.

use crate::processes::peer::Home;

/// The address of an endpoint's process, and the position of its device there: see the
/// [module](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EndpointHome {
    pub(crate) home: Home,
    /// The offset of the memory of the endpoint's device in the device memory of its process, in
    /// bytes. `bytes` is the size of that memory.
    pub(crate) start: usize,
    pub(crate) bytes: usize,
}

/// The number of bytes of a description that CANN does not use.
pub(super) const BYTES: usize = 52;
const MARK: u32 = u32::from_le_bytes(*b"ascn");
/// The number of bytes written: a magic number, the process, its name, its secret, the start, the
/// size, and a checksum of all of these.
const WRITTEN: usize = 44;
const CHECKED: usize = WRITTEN - 4;

impl EndpointHome {
    pub(super) fn to_bytes(self) -> [u8; BYTES] {
        let Self { home, start, bytes } = self;
        let mut written = Vec::with_capacity(BYTES);
        written.extend(MARK.to_le_bytes());
        written.extend(home.process.to_le_bytes());
        for word in [home.name, home.secret, start as u64, bytes as u64] {
            written.extend(word.to_le_bytes());
        }
        written.extend(check(&written).to_le_bytes());
        let mut all = [0xff; BYTES];
        all[..WRITTEN].copy_from_slice(&written);
        all
    }

    /// Reads the address of the process. Returns `None` if the description contains none, and an
    /// error if it was damaged.
    pub(super) fn of_bytes(bytes: &[u8; BYTES]) -> Result<Option<Self>, String> {
        let short = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let long = |at: usize| u64::from(short(at)) | u64::from(short(at + 4)) << 32;
        if short(0) != MARK {
            return Ok(None);
        }
        let size = |at: usize| usize::try_from(long(at)).ok();
        match (short(CHECKED) == check(&bytes[..CHECKED]), size(24), size(32)) {
            (true, Some(start), Some(bytes)) => {
                let home = Home { process: short(4), name: long(8), secret: long(16) };
                Ok(Some(Self { home, start, bytes }))
            }
            _ => {
                Err("the description was damaged on its way; pass all of its bytes in order".into())
            }
        }
    }
}

/// Returns a checksum of bytes (FNV-1a).
fn check(said: &[u8]) -> u32 {
    said.iter().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_every_damage_is_seen() {
        let home = Home { process: 4711, name: 0xfedc_ba98_7654_3210, secret: u64::MAX - 3 };
        let there = EndpointHome { home, start: 1 << 33, bytes: 1 << 30 };
        let bytes = there.to_bytes();
        assert_eq!(EndpointHome::of_bytes(&bytes), Ok(Some(there)));
        for at in 4..WRITTEN {
            let mut damaged = bytes;
            damaged[at] ^= 1;
            assert!(EndpointHome::of_bytes(&damaged).is_err(), "{at}");
        }
        for nothing in [[0; BYTES], [0xff; BYTES]] {
            assert_eq!(EndpointHome::of_bytes(&nothing), Ok(None));
        }
    }
}
