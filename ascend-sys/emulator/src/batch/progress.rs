//! The progress of a message: one word that its two sides share. See the [channel](super::channel).

/// The progress of the message in a place.
#[derive(Clone, Copy)]
pub(super) struct MessageProgress {
    /// The number of the message among those of its place, from 1.
    pub(super) sequence: u16,
    /// The number of chunks that the sender has taken. `front` is the number that the receiver has
    /// taken.
    pub(super) back: u16,
    pub(super) front: u16,
    /// The number of chunks that are not done yet.
    pub(super) left: u16,
}

impl MessageProgress {
    /// The value of `left` for a message that was withdrawn, and so will never be done.
    pub(super) const WITHDRAWN: u16 = u16::MAX;

    pub(super) fn of(word: u64) -> Self {
        let part = |at: u32| (word >> at) as u16;
        Self { sequence: part(48), back: part(32), front: part(16), left: part(0) }
    }

    pub(super) fn word(self) -> u64 {
        let Self { sequence, back, front, left } = self;
        [sequence, back, front, left].into_iter().fold(0, |word, part| word << 16 | u64::from(part))
    }

    /// Returns whether no chunk of message `sequence` was taken, and the previous message is done.
    pub(super) fn is_fresh(self, sequence: u16) -> bool {
        self.left == 0 && self.sequence == sequence.wrapping_sub(1)
    }

    /// Returns whether message `sequence` is done. The place may already have a later message,
    /// because a side may post the later message before it has checked this message.
    pub(super) fn is_done(self, sequence: u16) -> bool {
        match self.sequence.wrapping_sub(sequence) as i16 {
            0 => self.left == 0,
            ahead => ahead > 0,
        }
    }

    /// Returns the progress with one more of the message's `chunks` chunks taken. Returns `None` if
    /// no chunk is left, if the message was withdrawn, or if the place has another message.
    pub(super) fn take(self, sequence: u16, chunks: u16, send: bool) -> Option<Self> {
        let now = match self {
            fresh if fresh.is_fresh(sequence) => Self { sequence, back: 0, front: 0, left: chunks },
            Self { sequence: at, left, .. } if at == sequence && left != Self::WITHDRAWN => self,
            _ => return None,
        };
        let more = now.back + now.front < chunks;
        let (back, front) = if send { (1, 0) } else { (0, 1) };
        more.then_some(Self { back: now.back + back, front: now.front + front, ..now })
    }
}
