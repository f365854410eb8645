//! The position of an operation in its communicator, and a rank's claim about it.

/// The position of an operation in its communicator. The parity of the number selects the slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MeetingPlace {
    /// The number of the operation, counted from 1.
    pub(crate) number: u64,
}

/// A rank's claim about its operation. If the claims are not equal on all ranks, the operation
/// fails on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// Operation, element type, reduction and root, packed by the caller. The caller leaves one
    /// byte for the [capture](Claim::capture).
    pub(crate) kind: u64,
    /// The number of elements, or a fingerprint of counts.
    pub(crate) count: u64,
}

impl Claim {
    const CAPTURE: u32 = 24;

    /// Returns the claim of an operation that was captured. It matches only the same capture of
    /// another rank.
    #[inline]
    pub(crate) fn of_capture(self, capture: u8) -> Claim {
        Claim { kind: self.kind | u64::from(capture) << Claim::CAPTURE, ..self }
    }

    /// Returns the number of the capture of the communicator that the claim belongs to; 0 if there
    /// is none.
    pub(crate) fn capture(self) -> u8 {
        (self.kind >> Claim::CAPTURE) as u8
    }
}
