//! The messages from one rank to another.
//!
//! Messages are numbered. Each message uses a place, which later messages use again. Each side
//! writes its contribution into its own cache line of the place, the number last. A side that finds
//! both numbers takes chunks to copy: the receiver from the front, the sender from the back. So
//! each side copies the same part of successive messages of one size, and its caches still hold
//! that part of the buffers.
//!
//! The state of a message is one word, its [`MessageProgress`]. Every step is one atomic change of
//! that word: a chunk is taken, a chunk is done, or the message is withdrawn before any chunk was
//! taken. When the message is done for one side, it is done for both, and the place is free. So no
//! side uses data that the other side is overwriting. A side that has taken a chunk prevents the
//! message from being done. A side that reads a contribution and then fails to take a chunk does
//! not use what it has read.

use super::item::MessageShape;
use super::progress::MessageProgress;
use crate::collective::sync::{AtomicPtr, AtomicU64, Ordering, fence_for_loom};
use crate::processes::region::SharedWords;

/// The number of messages that one side can post before the other side posts its own. In the models
/// there is one place, so the second message already waits.
const PLACES: u64 = if cfg!(loom) { 1 } else { 4 };

/// The smallest and the largest usual size of a chunk in bytes.
const CHUNKS: std::ops::RangeInclusive<usize> = 16 * 1024..=64 * 1024;

/// The largest number of chunks of a message. Very large messages have larger chunks instead of
/// more chunks.
const MOST: usize = 1 << 15;

#[repr(C)]
pub(crate) struct MessageChannel {
    places: [MessagePlace; PLACES as usize],
}

// SAFETY: atomic words: zeros are valid. The address of a buffer belongs to the process of its
// side; other processes use it only as a number.
unsafe impl SharedWords for MessageChannel {}

#[repr(C, align(64))]
struct MessagePlace {
    sender: MessageSide,
    /// Padding, so that the receiver has the second cache line.
    apart: [u64; 4],
    receiver: MessageSide,
    progress: AtomicU64,
}

#[cfg(not(loom))]
const _: () =
    assert!(std::mem::offset_of!(MessagePlace, receiver) == 64 && size_of::<MessagePlace>() == 128);

/// The contribution of one side.
#[repr(C)]
struct MessageSide {
    /// The number of the side's latest message in this place; 0 if there is none.
    number: AtomicU64,
    data: AtomicPtr<u8>,
    count: AtomicU64,
    kind: AtomicU64,
}

/// The result of [`MessageChannel::look`] for a message that a side has posted.
#[derive(Debug)]
pub(crate) enum Found {
    /// There is nothing to do: the other side has not posted the message, or copies the rest of it,
    /// or the message was withdrawn.
    Nothing,
    /// The message is copied.
    Done,
    /// A chunk that this side has taken. It must copy the chunk and then call
    /// [`MessageChannel::finish`].
    Chunk(MessageChunk),
    /// The other side has posted a message with a different content.
    Differs(MessageShape),
    /// The other side has posted memory that its device does not have. A chunk was taken, so this
    /// side must call [`MessageChannel::finish`].
    Astray,
}

/// The state of a message before a side takes a chunk.
enum MessageView {
    Nothing,
    Done,
    /// Both sides have posted the message. Holds the progress, and the progress with one more chunk
    /// taken.
    Open(MessageProgress, MessageProgress),
}

/// A piece of a message.
#[derive(Debug)]
pub(crate) struct MessageChunk {
    pub(crate) from: *const u8,
    pub(crate) to: *mut u8,
    pub(crate) bytes: usize,
}

impl MessageShape {
    /// Returns the content as two words.
    fn words(self) -> (u64, u64) {
        (self.count, self.dtype as u64 | u64::from(self.alone) << 32)
    }

    fn from_words((count, kind): (u64, u64)) -> Option<Self> {
        let dtype = ascend_reduce::DataType::from_hccl(kind as u32)?;
        Some(Self { dtype, count, alone: kind >> 32 != 0 })
    }

    /// Returns the size of a chunk in bytes. A message outside of a batch is divided so that both
    /// of its sides can copy. In a batch each side usually has enough messages, and sharing one
    /// message costs more than it saves.
    fn chunk(self) -> usize {
        let bytes = if self.alone { self.bytes() / 2 } else { usize::MAX / 2 };
        let usual = bytes.clamp(*CHUNKS.start(), *CHUNKS.end());
        usual.max(self.bytes() / MOST).next_multiple_of(64)
    }

    /// Returns the number of chunks. It is at least one, so that an empty message is also done by
    /// some side.
    fn chunks(self) -> u16 {
        self.bytes().div_ceil(self.chunk()).max(1) as u16
    }
}

impl MessageSide {
    fn content(&self) -> (u64, u64) {
        (self.count.load(Ordering::Acquire), self.kind.load(Ordering::Acquire))
    }
}

impl MessagePlace {
    /// Returns the caller's side and the other side.
    fn sides(&self, send: bool) -> (&MessageSide, &MessageSide) {
        if send { (&self.sender, &self.receiver) } else { (&self.receiver, &self.sender) }
    }

    fn progress(&self) -> MessageProgress {
        MessageProgress::of(self.progress.load(Ordering::Acquire))
    }

    /// Changes the progress from `now` to `new`. Returns false if another thread has changed it in
    /// the meantime.
    fn exchange(&self, now: MessageProgress, new: MessageProgress) -> bool {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        self.progress.compare_exchange(now.word(), new.word(), success, failure).is_ok()
    }
}

/// Returns the position of message `number` among the messages that use the same place, from 1.
fn sequence(number: u64) -> u16 {
    ((number - 1) / PLACES + 1) as u16
}

impl MessageChannel {
    pub(crate) fn new() -> Self {
        let side = || MessageSide {
            number: AtomicU64::new(0),
            data: AtomicPtr::new(std::ptr::null_mut()),
            count: AtomicU64::new(0),
            kind: AtomicU64::new(0),
        };
        let place = |_| MessagePlace {
            sender: side(),
            apart: [0; 4],
            receiver: side(),
            progress: AtomicU64::new(0),
        };
        Self { places: std::array::from_fn(place) }
    }

    fn place(&self, number: u64) -> &MessagePlace {
        &self.places[((number - 1) % PLACES) as usize]
    }

    /// Returns the number of a side's next message, if a place is free for it.
    pub(crate) fn next(&self, send: bool) -> Option<u64> {
        let own = |place: &MessagePlace| place.sides(send).0.number.load(Ordering::Relaxed);
        let number = self.places.iter().map(own).max().unwrap_or(0) + 1;
        self.place(number).progress().is_fresh(sequence(number)).then_some(number)
    }

    /// Posts the next message of a side, if a place is free for it. Returns the number of the
    /// message. Only one thread at a time may do this for a side. The buffer must stay until the
    /// message is done or withdrawn.
    pub(crate) fn post(&self, send: bool, data: *mut u8, content: MessageShape) -> Option<u64> {
        let number = self.next(send)?;
        let (count, kind) = content.words();
        let (side, _) = self.place(number).sides(send);
        // If the other side reads one of these too early, just after the previous message has
        // ended, it notices that end: see `look`.
        side.data.store(data, Ordering::Release);
        side.count.store(count, Ordering::Release);
        side.kind.store(kind, Ordering::Release);
        side.number.store(number, Ordering::Release);
        Some(number)
    }

    /// Returns whether the other side has posted the message.
    pub(crate) fn is_matched(&self, number: u64, send: bool) -> bool {
        let (_, other) = self.place(number).sides(send);
        other.number.load(Ordering::SeqCst) >= number
    }

    /// Returns the next work of the caller's side for a message. `find` takes an address in the
    /// process of the other side and a number of bytes, and returns the address of these bytes in
    /// this process.
    #[inline]
    pub(crate) fn look(
        &self,
        number: u64,
        send: bool,
        content: MessageShape,
        find: impl Fn(*mut u8, usize) -> Option<*mut u8>,
    ) -> Found {
        let place = self.place(number);
        let (own, other) = place.sides(send);
        loop {
            let (now, new) = match self.see(number, send, content) {
                MessageView::Nothing => return Found::Nothing,
                MessageView::Done => return Found::Done,
                MessageView::Open(now, new) => (now, new),
            };
            let (theirs, data) = (other.content(), other.data.load(Ordering::Acquire));
            if theirs != content.words() {
                // No side takes a chunk of a message whose sides differ. If the progress shows that
                // a chunk was taken, the other side is already at its next message.
                match (
                    place.progress().is_fresh(sequence(number)),
                    MessageShape::from_words(theirs),
                ) {
                    (true, Some(theirs)) => return Found::Differs(theirs),
                    _ => continue,
                }
            }
            if !place.exchange(now, new) {
                continue;
            }
            let index = if send { content.chunks() - new.back } else { new.front - 1 };
            let start = usize::from(index) * content.chunk();
            let own = own.data.load(Ordering::Relaxed);
            let Some(data) = find(data, content.bytes()) else { return Found::Astray };
            let (from, to) = if send { (own, data) } else { (data, own) };
            return Found::Chunk(MessageChunk {
                from: from.wrapping_add(start),
                to: to.wrapping_add(start),
                bytes: content.chunk().min(content.bytes() - start),
            });
        }
    }

    /// Returns whether [`look`](Self::look) would return [`Found::Nothing`].
    pub(crate) fn is_quiet(&self, number: u64, send: bool, content: MessageShape) -> bool {
        matches!(self.see(number, send, content), MessageView::Nothing)
    }

    fn see(&self, number: u64, send: bool, content: MessageShape) -> MessageView {
        let (place, sequence) = (self.place(number), sequence(number));
        let now = place.progress();
        if now.is_done(sequence) {
            return MessageView::Done;
        }
        let Some(new) = now.take(sequence, content.chunks(), send) else {
            return MessageView::Nothing;
        };
        let (_, other) = place.sides(send);
        match other.number.load(Ordering::Acquire) == number {
            true => MessageView::Open(now, new),
            false => MessageView::Nothing,
        }
    }

    /// Notes that a chunk is copied. Returns true for the last chunk.
    pub(crate) fn finish(&self, number: u64) -> bool {
        let before = self.place(number).progress.fetch_sub(1, Ordering::SeqCst);
        fence_for_loom();
        MessageProgress::of(before).left == 1
    }

    /// Withdraws a message, unless the other side has posted it with the same content; then the
    /// message is copied completely. If this returns true, no thread touches the memory of the
    /// message afterwards.
    pub(crate) fn withdraw(&self, number: u64, send: bool, content: MessageShape) -> bool {
        let (place, sequence) = (self.place(number), sequence(number));
        loop {
            let now = place.progress();
            if !now.is_fresh(sequence) {
                return now.is_done(sequence) || now.left == MessageProgress::WITHDRAWN;
            }
            let (_, other) = place.sides(send);
            let matched = other.number.load(Ordering::Acquire) == number;
            if matched && other.content() == content.words() {
                return false;
            }
            let new =
                MessageProgress { sequence, back: 0, front: 0, left: MessageProgress::WITHDRAWN };
            if place.exchange(now, new) {
                return true;
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use ascend_reduce::DataType;

    #[test]
    fn a_message_that_is_matched_is_not_taken_back() {
        let content = MessageShape { dtype: DataType::Int8, count: 10, alone: true };
        let here = |data, _| Some(data);
        let (channel, mut data) = (MessageChannel::new(), [0; 20]);
        let mut post = |send: bool| {
            let half = data.as_mut_ptr().wrapping_add(10 * usize::from(send));
            channel.post(send, half, content).expect("a free place")
        };
        let [sent, received] = [post(true), post(false)];
        assert!(!channel.withdraw(sent, true, content));
        assert!(!channel.withdraw(received, false, content));
        assert!(matches!(channel.look(received, false, content, here), Found::Chunk(_)));
        assert!(channel.finish(received), "there is one chunk");
        let alone = post(true);
        assert!(channel.withdraw(alone, true, content), "nobody has come");
    }
}

#[cfg(all(test, loom))]
mod models {
    use loom::sync::Arc;
    use loom::sync::atomic::fence;
    use loom::thread;

    use super::super::party::Party;
    use super::*;
    use crate::collective::models::Bell;
    use crate::collective::sync::{AtomicU32, Mutex, UnsafeCell};
    use ascend_reduce::DataType;

    /// The invented address of the buffers. The channel only passes addresses.
    const BASE: usize = 1 << 20;

    /// Returns the shape of a message of `chunks` chunks.
    fn content(chunks: usize) -> MessageShape {
        MessageShape { dtype: DataType::Int8, count: (chunks * CHUNKS.end()) as u64, alone: false }
    }

    struct ChannelModel {
        channel: MessageChannel,
        /// A cell for each chunk.
        memory: Vec<UnsafeCell<u32>>,
        sleepers: [(AtomicU32, Mutex<Option<Bell>>); 2],
        broken: AtomicU64,
    }

    impl ChannelModel {
        fn new(chunks: usize) -> Arc<Self> {
            let memory = (0..chunks).map(|_| UnsafeCell::new(0)).collect();
            let sleepers = std::array::from_fn(|_| (AtomicU32::new(0), Mutex::new(None)));
            let (channel, broken) = (MessageChannel::new(), AtomicU64::new(0));
            Arc::new(Self { channel, memory, sleepers, broken })
        }

        fn party(&self, side: usize) -> Party<'_, Bell> {
            let (armed, waker) = &self.sleepers[side];
            Party { armed, waker }
        }

        /// Copies a chunk.
        fn copy(&self, chunk: &MessageChunk) {
            let index = (chunk.to as usize - BASE) / CHUNKS.end();
            // SAFETY: only this thread has taken the chunk, which loom checks.
            self.memory[index].with_mut(|cell| unsafe { *cell += 1 });
        }

        fn post(&self, send: bool, content: MessageShape) -> u64 {
            let number = self.channel.post(send, BASE as *mut u8, content).expect("a free place");
            fence(Ordering::SeqCst);
            self.party(usize::from(!send)).wake();
            number
        }

        /// Does one side of a message. Returns false if the message was withdrawn before any thread
        /// touched its memory.
        fn go(&self, number: u64, send: bool, content: MessageShape) -> bool {
            let bell = Bell::new();
            loop {
                match self.channel.look(number, send, content, |data, _| Some(data)) {
                    Found::Chunk(chunk) => {
                        self.copy(&chunk);
                        if self.channel.finish(number) {
                            self.party(usize::from(!send)).wake();
                        }
                    }
                    Found::Done => {
                        self.party(usize::from(send)).rest();
                        return true;
                    }
                    Found::Nothing if self.broken.load(Ordering::SeqCst) != 0 => {
                        if self.channel.withdraw(number, send, content) {
                            let found =
                                self.channel.look(number, send, content, |data, _| Some(data));
                            return matches!(found, Found::Done);
                        }
                        thread::yield_now();
                    }
                    Found::Nothing => {
                        self.party(usize::from(send)).arm(bell.clone());
                        let quiet = self.channel.is_quiet(number, send, content);
                        if quiet && self.broken.load(Ordering::SeqCst) == 0 {
                            bell.0.wait();
                        }
                    }
                    Found::Differs(_) | Found::Astray => unreachable!("both say the same"),
                }
            }
        }
    }

    /// Runs `side` on two threads, with true for the sender.
    fn both(model: &Arc<ChannelModel>, side: impl Fn(&ChannelModel, bool) + Copy + Send + 'static) {
        let other = Arc::clone(model);
        let thread = thread::spawn(move || side(&other, true));
        side(model, false);
        thread.join().unwrap();
    }

    fn check(body: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(body);
    }

    #[test]
    fn loom_both_sides_copy_and_both_learn_of_the_end() {
        check(|| {
            both(&ChannelModel::new(3), |model, send| {
                let number = model.post(send, content(3));
                assert!(model.go(number, send, content(3)));
                // SAFETY: the message is done, so no thread writes any more, which loom checks.
                let read = |cell: &UnsafeCell<u32>| cell.with(|cell| unsafe { *cell });
                assert_eq!(model.memory.iter().map(read).sum::<u32>(), 3);
            })
        });
    }

    #[test]
    fn loom_a_place_serves_one_message_after_the_other() {
        check(|| {
            // The contents of the two messages differ. A side that confused them would report a
            // difference, or copy too much.
            both(&ChannelModel::new(2), |model, send| {
                for chunks in [2, 1] {
                    let number = model.post(send, content(chunks));
                    assert!(model.go(number, send, content(chunks)));
                }
            })
        });
    }

    #[test]
    fn loom_a_side_may_post_before_it_has_looked_after_the_message_before() {
        check(|| {
            both(&ChannelModel::new(1), |model, send| {
                let first = model.post(send, content(1));
                if send {
                    // The other side copies the message; then the place is free.
                    while model.channel.next(send).is_none() {
                        thread::yield_now();
                    }
                    let second = model.post(send, content(1));
                    assert!(model.go(second, send, content(1)));
                    assert!(matches!(
                        model.channel.look(first, send, content(1), |data, _| Some(data)),
                        Found::Done
                    ));
                    assert!(model.channel.withdraw(first, send, content(1)));
                } else {
                    assert!(model.go(first, send, content(1)));
                    let second = model.post(send, content(1));
                    assert!(model.go(second, send, content(1)));
                }
            });
        });
    }

    #[test]
    fn loom_a_message_that_was_withdrawn_is_not_touched() {
        check(|| {
            let model = ChannelModel::new(1);
            both(&model, |model, send| {
                let number = model.post(send, content(1));
                if send {
                    model.broken.store(1, Ordering::SeqCst);
                    fence(Ordering::SeqCst);
                    (0..2).for_each(|side| model.party(side).wake());
                }
                if !model.go(number, send, content(1)) {
                    // SAFETY: the message is withdrawn, so no other thread accesses the memory,
                    // which loom checks.
                    model.memory[0].with(|cell| assert_eq!(unsafe { *cell }, 0));
                }
            });
        });
    }
}
