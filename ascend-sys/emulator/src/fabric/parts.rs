//! Parts of a communicator, which other modules keep in it.
//!
//! A communicator consists of its identity, its meetings and its records. A module that builds on
//! it (kernels, operators, sub-communicators) keeps a *part* in it: one value of a type of the
//! module's own. The module finds its part by that type. A part is made when it is first needed,
//! and stays as long as the communicator. The communicator calls its parts when a rank leaves and
//! when the communicator fails. So it does not depend on the modules that build on it.
//!
//! The parts form a list that only grows, so a search takes no lock. Collectives and messages do
//! not search for parts.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Mutex, OnceLock};

use super::comm::Comm;
use super::part_news::PartNews;
use crate::collective::comm_error::CommError;
use ascend_sync::lock_std as lock;

/// A module's part in a communicator.
pub(crate) trait CommPart: Any + Send + Sync {
    /// Handles a rank that will issue nothing more. Called at least once for each rank that leaves
    /// after the part was made. If the process of the rank is gone, [`lost`](CommPart::lost) is
    /// called instead.
    fn left(&self, rank: usize, why: &str);

    /// Handles the failure of the communicator.
    fn broken(&self) {}

    /// Repeats the news that the process of rank `to` has missed. Called when that process has just
    /// made its side.
    fn repeat(&self, _comm: &Comm, _to: usize) {}

    /// Handles the loss of the process of a rank.
    fn lost(&self, _comm: &Comm, _rank: usize) {}

    /// Handles news from the part of another process, about a rank of that process.
    fn heard(&self, _comm: &Comm, _rank: usize, _news: &PartNews) -> Heard {
        Heard::NotForThis
    }
}

/// The answer of a part to news.
pub(crate) enum Heard {
    /// The news is for another part, which may not be there yet.
    NotForThis,
    Taken,
    /// The news ends the communicator.
    Fails(CommError),
}

/// News from parts in other processes, in order, until a part in this process takes it.
#[derive(Default)]
pub(super) struct Unheard {
    any: AtomicBool,
    state: Mutex<UnheardNews>,
}

#[derive(Default)]
struct UnheardNews {
    news: VecDeque<(usize, PartNews)>,
    /// Whether a thread is delivering news to the parts.
    is_at_it: bool,
    /// Whether the delivering thread must check for news once more.
    again: bool,
}

impl Unheard {
    /// Adds one piece of news, which must then be delivered.
    pub(super) fn add(&self, rank: usize, news: PartNews) {
        lock(&self.state).news.push_back((rank, news));
        self.any.store(true, Ordering::Release);
        // Orders the entry before the search for parts; pairs with the fence in `is_empty`.
        fence(Ordering::SeqCst);
    }

    /// Returns whether there is no news. Called after a part was made. The fence pairs with the one
    /// in `add`: it orders the new part before the check.
    pub(super) fn is_empty(&self) -> bool {
        fence(Ordering::SeqCst);
        !self.any.load(Ordering::Acquire)
    }

    /// Delivers the news to the parts that exist. One thread at a time delivers. A thread that
    /// calls this meanwhile leaves its news to the delivering thread. No lock is held while a part
    /// handles news. Returns the error that ends the communicator, if there is one.
    pub(super) fn deliver(&self, comm: &Comm, parts: &CommParts) -> Option<CommError> {
        let mut ends = None;
        let mut state = lock(&self.state);
        state.again = true;
        if state.is_at_it {
            return None;
        }
        state.is_at_it = true;
        while std::mem::take(&mut state.again) {
            let mut due = std::mem::take(&mut state.news);
            drop(state);
            due.retain(|(rank, news)| match heard(comm, parts, *rank, news) {
                Heard::NotForThis => true,
                Heard::Taken => false,
                Heard::Fails(error) => {
                    ends.get_or_insert(error);
                    false
                }
            });
            state = lock(&self.state);
            due.append(&mut state.news);
            state.news = due;
        }
        state.is_at_it = false;
        self.any.store(!state.news.is_empty(), Ordering::Release);
        ends
    }
}

fn heard(comm: &Comm, parts: &CommParts, rank: usize, news: &PartNews) -> Heard {
    let answers = parts.all().map(|part| part.heard(comm, rank, news));
    answers.into_iter().find(|it| !matches!(it, Heard::NotForThis)).unwrap_or(Heard::NotForThis)
}

/// The parts of a communicator, in the order in which they were made.
#[derive(Default)]
pub(super) struct CommParts(OnceLock<Box<PartEntry>>);

struct PartEntry {
    part: Box<dyn CommPart>,
    next: CommParts,
}

impl PartEntry {
    fn as_type<P: CommPart>(&self) -> Option<&P> {
        let part: &dyn Any = &*self.part;
        part.downcast_ref()
    }
}

impl CommParts {
    pub(super) fn all(&self) -> impl Iterator<Item = &dyn CommPart> {
        self.entries().map(|entry| &*entry.part)
    }

    fn entries(&self) -> impl Iterator<Item = &PartEntry> {
        std::iter::successors(self.first(), |entry| entry.next.first())
    }

    fn first(&self) -> Option<&PartEntry> {
        self.0.get().map(|entry| &**entry)
    }

    /// Returns the part of this type, and makes it first if there is none.
    pub(super) fn get_or_make<P: CommPart>(&self, make: impl Fn() -> P) -> &P {
        let mut place = self;
        loop {
            // If two threads reach the end of the list at once, one of them makes the entry.
            let entry = place.0.get_or_init(|| {
                Box::new(PartEntry { part: Box::new(make()), next: Self::default() })
            });
            if let Some(part) = entry.as_type() {
                return part;
            }
            place = &entry.next;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Default)]
    struct Counts<const N: usize>(AtomicUsize);

    impl<const N: usize> CommPart for Counts<N> {
        fn left(&self, rank: usize, _: &str) {
            self.0.fetch_add(rank, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_part_is_made_once_and_found_by_its_type() {
        let parts = CommParts::default();
        let first: *const _ = parts.get_or_make(Counts::<0>::default);
        std::thread::scope(|scope| {
            let made = || parts.get_or_make(Counts::<1>::default).0.fetch_add(1, Ordering::Relaxed);
            (0..4).for_each(|_| drop(scope.spawn(made)));
        });
        assert!(std::ptr::eq(first, parts.get_or_make(Counts::<0>::default)));
        parts.all().for_each(|part| part.left(5, "it is over"));
        assert_eq!(parts.all().count(), 2);
        assert_eq!(parts.get_or_make(Counts::<0>::default).0.load(Ordering::Relaxed), 5);
        assert_eq!(parts.get_or_make(Counts::<1>::default).0.load(Ordering::Relaxed), 9);
    }
}
