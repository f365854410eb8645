//! A task whose type is erased: some words inline, and a table of the operations on them.
//!
//! An enum would need no `unsafe`, but would have to name every kind of task. A `Box<dyn TaskBody>`
//! would allocate for each operation. So [`ErasedTask`] contains the words of the task itself, and
//! the compiler makes two functions for each kind, which treat the words as that type. `poll`,
//! which is on the fast path, is called directly; everything else goes through
//! [`dyn TaskBody`](TaskBody).
//!
//! The invariant of this file: `body` holds a value of the type that `table` was made for, from
//! [`ErasedTask::new`] until the drop. Only this file can access the two fields, so other code does
//! not need `unsafe` for a task.

use super::TaskBody;
use crate::os_thread;
use crate::step::Step;
use std::mem::{MaybeUninit, needs_drop};
use std::ops::{Deref, DerefMut};

/// The number of words of a task.
const WORDS: usize = 16;

type Words = [MaybeUninit<u64>; WORDS];

/// A task whose type is erased; see the [module](self). `O` is the stream that polls it.
pub(crate) struct ErasedTask<O: 'static> {
    table: &'static VTable<O>,
    /// The number that the operating system gives the thread that made the task.
    thread: u32,
    body: Words,
}

/// The operations on the words of one kind of task.
struct VTable<O: 'static> {
    /// # Safety
    ///
    /// The words hold a task of the kind that the table was made for.
    poll: unsafe fn(&mut Words, &'static O) -> Step,
    /// Converts the address of the words to the address of the task in them, without reading the
    /// words.
    seen: fn(*mut Words) -> *mut dyn TaskBody<O>,
    /// Whether dropping the task has an effect. Dropping a leaf task has no effect.
    drops: bool,
}

impl<O: 'static> ErasedTask<O> {
    /// Erases the type of a task.
    #[inline]
    pub(crate) fn new<B: TaskBody<O>>(task: B) -> Self {
        const {
            assert!(
                size_of::<B>() <= size_of::<Words>(),
                "the task is too large: implement TaskBody for its Box"
            );
            assert!(
                align_of::<B>() <= align_of::<Words>(),
                "the alignment of the task is too large: implement TaskBody for its Box"
            );
        }
        let mut body = [MaybeUninit::uninit(); WORDS];
        // SAFETY: the words are large enough, and aligned.
        unsafe { body.as_mut_ptr().cast::<B>().write(task) };
        ErasedTask { table: B::TABLE, thread: os_thread::number(), body }
    }

    /// Returns the number of the thread that made the task. A task is erased when it is submitted,
    /// so this is the thread that submitted the task.
    pub(crate) fn thread(&self) -> u32 {
        self.thread
    }

    /// Does the same as [`TaskBody::poll`].
    #[inline]
    pub(crate) fn poll(&mut self, stream: &'static O) -> Step {
        // SAFETY: the invariant.
        unsafe { (self.table.poll)(&mut self.body, stream) }
    }
}

/// The table of a kind of task.
trait Kind<O: 'static>: TaskBody<O> + Sized {
    const TABLE: &'static VTable<O> = &VTable {
        poll: |words, stream| {
            // SAFETY: the promise of the field.
            let task = unsafe { &mut *words.as_mut_ptr().cast::<Self>() };
            TaskBody::poll(task, stream)
        },
        seen: |words| words.cast::<Self>(),
        drops: needs_drop::<Self>(),
    };
}

impl<O: 'static, B: TaskBody<O>> Kind<O> for B {}

impl<O> Deref for ErasedTask<O> {
    type Target = dyn TaskBody<O>;

    fn deref(&self) -> &Self::Target {
        // SAFETY: the invariant; nothing is written through it.
        unsafe { &*(self.table.seen)((&raw const self.body).cast_mut()) }
    }
}

impl<O> DerefMut for ErasedTask<O> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        // SAFETY: the invariant.
        unsafe { &mut *(self.table.seen)(&raw mut self.body) }
    }
}

impl<O> Drop for ErasedTask<O> {
    #[inline]
    fn drop(&mut self) {
        if !self.table.drops {
            return;
        }
        // SAFETY: the invariant, which ends here.
        unsafe { (self.table.seen)(&raw mut self.body).drop_in_place() };
    }
}

// SAFETY: it holds a value of a kind, and every kind is `Send`.
unsafe impl<O> Send for ErasedTask<O> {}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::step::Reason;
    use std::sync::atomic::{AtomicUsize, Ordering};

    struct Owner {
        polls: AtomicUsize,
    }

    static OWNER: Owner = Owner { polls: AtomicUsize::new(0) };

    /// A task that counts down at each poll, and counts its drops.
    struct Countdown {
        left: usize,
        dropped: &'static AtomicUsize,
        text: String,
    }

    impl Drop for Countdown {
        fn drop(&mut self) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl TaskBody<Owner> for Countdown {
        fn poll(&mut self, owner: &'static Owner) -> Step {
            owner.polls.fetch_add(1, Ordering::Relaxed);
            match self.left.checked_sub(1) {
                Some(left) => {
                    self.left = left;
                    self.text.push('.');
                    Step::Again
                }
                None => Step::Done(Ok(())),
            }
        }

        fn again(&self) -> Option<ErasedTask<Owner>> {
            let Countdown { left, dropped, .. } = *self;
            Some(ErasedTask::new(Countdown { left, dropped, text: self.text.clone() }))
        }

        fn describe(&self) -> String {
            format!("{} left{}", self.left, self.text)
        }
    }

    /// A task that is as large as possible, and has no drop.
    struct Full([u64; WORDS]);

    impl TaskBody<Owner> for Full {
        fn poll(&mut self, _: &'static Owner) -> Step {
            self.0.iter_mut().for_each(|word| *word += 1);
            Step::Park
        }

        fn describe(&self) -> String {
            format!("{:?}", self.0)
        }
    }

    /// A kind that is too large for the words of the task.
    struct Large([u64; 100]);

    impl TaskBody<Owner> for Box<Large> {
        fn poll(&mut self, _: &'static Owner) -> Step {
            self.0[99] += 1;
            Step::Done(Ok(()))
        }

        fn describe(&self) -> String {
            self.0[99].to_string()
        }
    }

    #[test]
    fn a_task_is_polled_moved_asked_and_dropped_as_its_kind() {
        static DROPPED: AtomicUsize = AtomicUsize::new(0);
        let start = Countdown { left: 2, dropped: &DROPPED, text: String::new() };
        let mut tasks = vec![ErasedTask::new(start)];
        assert!(matches!(tasks[0].poll(&OWNER), Step::Again));
        // The task is moved between two polls.
        tasks.extend(tasks[0].again());
        let mut moved = tasks.remove(0);
        assert!(matches!(moved.poll(&OWNER), Step::Again));
        assert!(matches!(moved.poll(&OWNER), Step::Done(Ok(()))));
        assert_eq!(moved.describe(), "0 left..");
        assert_eq!(tasks[0].describe(), "1 left.");
        assert_eq!(OWNER.polls.load(Ordering::Relaxed), 3);
        assert!(!moved.arm(&OWNER) && moved.limit().is_none());
        let Step::Done(Err(failure)) = moved.expire(&OWNER, &Reason::Aborted) else { panic!() };
        assert_eq!(&*failure.text, "0 left..: the stream was aborted");
        drop(moved);
        assert_eq!(DROPPED.load(Ordering::Relaxed), 1);
        drop(tasks);
        assert_eq!(DROPPED.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_kind_fills_the_words_or_lies_in_a_box() {
        let mut words = [7; WORDS];
        words[WORDS - 1] = u64::MAX - 1;
        let mut full = ErasedTask::new(Full(words));
        assert!(matches!(full.poll(&OWNER), Step::Park));
        words.iter_mut().for_each(|word| *word += 1);
        assert_eq!(full.describe(), format!("{words:?}"));
        let mut large = ErasedTask::new(Box::new(Large([41; 100])));
        assert!(matches!(large.poll(&OWNER), Step::Done(Ok(()))));
        assert_eq!(large.describe(), "42");
    }

    #[test]
    fn a_task_that_panics_is_dropped_once() {
        struct Careless(&'static AtomicUsize);
        impl Drop for Careless {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        impl TaskBody<Owner> for Careless {
            fn poll(&mut self, _: &'static Owner) -> Step {
                panic!("this is what is tested")
            }
            fn describe(&self) -> String {
                String::new()
            }
        }
        static DROPPED: AtomicUsize = AtomicUsize::new(0);
        let mut task = ErasedTask::new(Careless(&DROPPED));
        let poll = std::panic::AssertUnwindSafe(|| drop(task.poll(&OWNER)));
        std::panic::catch_unwind(poll).unwrap_err();
        drop(task);
        assert_eq!(DROPPED.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_task_goes_to_another_thread() {
        static DROPPED: AtomicUsize = AtomicUsize::new(0);
        let task = ErasedTask::new(Countdown { left: 0, dropped: &DROPPED, text: "x".into() });
        let there = std::thread::spawn(move || task.describe());
        assert_eq!(there.join().unwrap(), "0 leftx");
        assert_eq!(DROPPED.load(Ordering::Relaxed), 1);
    }
}
