//! Order: how operations get onto streams, which operations wait for which, and how the host learns
//! that an operation is complete.
//!
//! This directory is one protocol. To find out why a [`Work`](work::Work) completes, read
//! [`timeline`] and [`stream_slot`], then [`work`] and the waits below it: [`reactor`] for a task,
//! [`wait`] and [`patience`] for a thread.
//!
//! # Terms
//!
//! * A *stream slot* ([`stream_slot`]) belongs to a stream while the stream lives. The slot has the
//!   timeline, the issue lock and the failures. Later another stream gets the slot. Slots are never
//!   freed.
//! * A *number* is the position of an operation among those of its slot. A *ticket* is the position
//!   of a task among those that the backend has accepted on the stream. An operation may be several
//!   tasks, or none.
//! * The *timeline* ([`timeline`]) records which numbers are submitted and which are complete.
//! * The *queue* ([`queue`]) is the stream itself: its handle and its device. The queue *occupies*
//!   the slot ([`Occupant`](stream_slot::Occupant)) until everything on the stream is complete.
//! * The *issue lock* of a stream is the right to enqueue on it. The *issue order*
//!   ([`issue_order`]) of a device is the issue lock of the stream that last issued for a
//!   communicator.
//! * A *stamp* ([`stamps`]) on memory, a communicator, a kernel or a graph names the operation that
//!   reads or writes this object. An object that one stream uses again and again has this stream
//!   as its *regular* stream ([`regular`]). The stamp of the regular stream needs no lock.
//! * A *label* ([`label`]) is the part of a communicator that its operations need: its name, and
//!   the numbers that the operations take in it.
//! * A *mark* ([`marks`]) is an event that is recorded after an operation. Other streams wait for
//!   it. If the backend does not count tickets, marks also show which operations are complete.
//! * A [`Work`](work::Work) is the handle of an operation, which it names by slot and number. The
//!   [`reactor`] wakes the tasks that await a `Work`.
//! * A *patience* ([`patience`]) is one wait with its time limit. A [`Watch`](patience::Watch) may
//!   end a wait early. A thread that makes a watch fail raises an *alarm* afterwards, so that every
//!   waiter checks its watch again.
//!
//! # States of an operation
//!
//! 1. *Reserved*: it has the next number, under the issue lock, and its stamps are placed.
//! 2. *Submitted*: its enqueue call has returned, with success or with an error, and the timeline
//!    has stored the ticket that the stream had reached.
//! 3. *Complete*: everything that it enqueued is complete. Nothing touches its memory any more.
//! 4. *Reported* (`told` in the code): its outcome was returned to the task or thread that awaited
//!    it. If nobody awaited it, a failure is returned by a later call instead: the next operation
//!    or synchronise of its stream, the next operation that uses memory which it wrote, or the next
//!    wait for a later operation ([`unseen`]).
//!
//! # Rules
//!
//! 1. An operation stamps everything that it touches before it is enqueued. So a stamp names every
//!    byte that a device touches.
//! 2. A number counts as complete only when everything that its operation enqueued is complete,
//!    also after an error. It may seem complete too late, never too early.
//! 3. A slot and a number name an operation for ever, because the next stream of a slot continues
//!    the numbers and tickets of the last stream.
//! 4. A slot without an occupant has no unfinished operation, and its failures are in the slot.
//! 5. A thread that holds an issue lock never waits for an operation. It waits for another issue
//!    lock only for a limited time. So the operation gives up its number and its lock before it
//!    resolves a conflict, and then starts over. A group ([`together`]) needs the issue locks of
//!    all its streams and takes them in the order of their addresses.
//! 6. Lock order: issue lock, list of stamps, marks. A thread that holds marks or a list only
//!    try-locks an issue lock.
//! 7. A task checks its operation, registers with the reactor, and checks again. A thread makes a
//!    watch fail before it raises an alarm.
//!
//! # Layers
//!
//! The table lists the layers from bottom to top. A file imports only files that come before it in
//! the table, with two exceptions: [`unseen`] and [`stream_slot`] import each other, and so do
//! [`queue`] and [`marks`].
//!
//! | layer | contents |
//! | --- | --- |
//! | [`timeline`], [`label`], [`faults`], [`registry`], [`patience`], [`awaiting`] | files that import no other layer of the protocol |
//! | [`issue_order`], [`helper`], [`unseen`], [`stream_slot`], [`regular`], [`stamps`] | the names of operations, the order in which they wait for each other, and their failures |
//! | [`reactor`] | the thread that wakes tasks; it uses a stream only as the occupant of its slot |
//! | `memory::block`, `device::shared`, `runtime::shared`, [`Device`](crate::Device) | the state that all handles of a block, a device or a runtime share |
//! | [`queue`], [`marks`], [`wait`] | a stream on its device |
//! | [`issue`], [`work`] | issuing an operation, and the handle of an issued operation |
//! | [`together`] | the operations of a group |
//!
//! # Models
//!
//! Each core has a model (`RUSTFLAGS="--cfg loom" cargo test --release --lib loom`) in its own
//! file: [`timeline`] (rule 2), [`regular`] (rule 1, where stamps take no lock), [`issue_order`]
//! (rule 5), [`registry`] (rule 7, wake-ups and alarms), and the locks in `ascend-sync`. The tests
//! in `tests/order.rs`, `tests/in_flight.rs`, `tests/awaiting.rs` and `tests/waiting.rs` exercise
//! the whole protocol.

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
