//! Order: how operations get onto streams, which of them wait for which, and how the host learns
//! that one is complete.
//!
//! This directory is one protocol. To find out why a [`Work`](work::Work) completes, read
//! [`timeline`] and [`stream_slot`], then [`work`] and the waits below it: [`reactor`] for a task,
//! [`wait`] and [`patience`] for a thread.
//!
//! # Terms
//!
//! * A *stream slot* ([`stream_slot`]) belongs to a stream while it lives: it has the timeline, the
//!   issue lock and the failures. Later another stream gets it. Slots are never freed.
//! * A *number* counts the operations of a slot. A *ticket* counts the tasks that the backend has
//!   taken from the stream; an operation may be several tasks, or none.
//! * The *timeline* ([`timeline`]) knows which numbers are submitted and which are complete.
//! * The *queue* ([`queue`]) is the stream itself: its handle and its device. It *occupies* the
//!   slot ([`Occupant`](stream_slot::Occupant)) until everything on it is complete.
//! * The *issue lock* of a stream is the right to enqueue on it. The *issue order*
//!   ([`issue_order`]) of a device is the issue lock of the stream that has issued for a
//!   communicator last.
//! * A *stamp* ([`stamps`]) on memory, a communicator, a kernel or a graph says which operation
//!   reads or writes it. The stream that uses it most is the *regular* one ([`regular`]), whose
//!   stamp needs no lock.
//! * A *label* ([`label`]) is a communicator as its operations know it: its name, and the numbers
//!   that they take in it.
//! * A *mark* ([`marks`]) is an event behind an operation, for which other streams wait; where the
//!   backend does not count tickets, it also tells which operations are complete.
//! * A [`Work`](work::Work) names an operation by its slot and number and watches it. The
//!   [`reactor`] wakes the tasks that await one.
//! * A *patience* ([`patience`]) is one wait; a [`Watch`](patience::Watch) may end it before its
//!   time, and gives the *alarm* when it does, so that every waiter looks again.
//!
//! # States of an operation
//!
//! 1. *Reserved*: it has the next number, under the issue lock, and its stamps are placed.
//! 2. *Submitted*: its enqueue call has returned, whatever it returned, and the timeline has the
//!    ticket that the stream had reached.
//! 3. *Complete*: everything that it enqueued is complete. Nothing touches its memory any more.
//! 4. *Told*: its outcome is known to the task or thread that awaited it. If nobody awaited it, the
//!    failure is told by whoever comes behind it in the order of the streams: the next operation or
//!    synchronise of its stream, the next operation that uses what it has written, or the next wait
//!    behind it ([`unseen`]).
//!
//! # Rules
//!
//! 1. An operation stamps everything that it touches before it is enqueued. So no device touches
//!    bytes that no stamp names.
//! 2. A number counts as complete only when everything that its operation enqueued is complete,
//!    also after an error. It may seem complete too late, never too early.
//! 3. A slot and a number name an operation for ever: numbers and tickets go on from one stream of
//!    a slot to the next.
//! 4. A slot without an occupant has no unfinished operation, and its failures have been looked at.
//! 5. A thread that holds an issue lock waits for no operation, and for another issue lock only for
//!    a limited time. So a conflict is solved with none held: the number is given up and the
//!    operation starts over. A group ([`together`]), which needs the issue locks of all its
//!    streams, takes them in the order of their addresses.
//! 6. Lock order: issue lock, list of stamps, marks. A thread that holds marks or a list only tries
//!    an issue lock.
//! 7. A task looks, registers with the reactor, and looks again. A thread that makes a watch fail
//!    does so before it gives an alarm.
//!
//! # Floors
//!
//! From bottom to top; a file imports only what stands before it, but for [`queue`] and [`marks`],
//! which are one.
//!
//! | floor | |
//! | --- | --- |
//! | [`timeline`], [`label`], [`faults`], [`registry`], [`patience`], [`awaiting`] | import no other part of the protocol |
//! | [`issue_order`], [`helper`], [`stream_slot`], [`regular`], [`stamps`] | what names an operation, and who has to wait for whom |
//! | [`reactor`] | knows a stream as the occupant of its slot |
//! | `memory::block`, `device::shared`, `runtime::shared`, [`Device`](crate::Device) | what is made of these and shared by all handles |
//! | [`queue`], [`marks`], [`wait`] | a stream on its device |
//! | [`issue`], [`work`] | an operation on its way, and its handle |
//! | [`together`] | the operations of a group |
//!
//! # Models
//!
//! Each core has a model (`RUSTFLAGS="--cfg loom" cargo test --release --lib loom`) in its own
//! file: [`timeline`] (rule 2), [`regular`] (rule 1, where stamps take no lock), [`issue_order`]
//! (rule 5), [`registry`] (rule 7, wake-ups and alarms), and the locks in `ascend-sync`. The tests
//! in `tests/order.rs`, `tests/in_flight.rs`, `tests/awaiting.rs` and `tests/waiting.rs` go through
//! the whole of it.

pub(crate) mod awaiting;
pub(crate) mod faults;
pub(crate) mod helper;
pub(crate) mod issue;
pub(crate) mod issue_order;
pub(crate) mod label;
mod marks;
pub(crate) mod patience;
pub(crate) mod queue;
pub(crate) mod reactor;
mod registry;
mod regular;
pub(crate) mod stamps;
pub(crate) mod stream_slot;
pub(crate) mod timeline;
pub(crate) mod together;
pub(crate) mod unseen;
pub(crate) mod wait;
pub mod work;
