//! Checked mode: finds accesses to memory that nothing orders, whether or not they collided this
//! time.
//!
//! A block of devices that is checked has a [`Checker`], which keeps happens-before: a vector clock
//! for each stream and one for the host ([`clock`]), and for every byte its last write and the
//! reads since ([`shadow`]). An error is a [`finding::Finding`], told once on standard error and
//! kept with the block.
//!
//! The checker hears of an operation from a [`CheckNote`](note::CheckNote): a task of its own,
//! which goes into the stream before the operation. The note lists what the operation will touch,
//! and carries what the host knew when it issued it. Checks hook in at three places. Tasks go into
//! streams through [`submit`](crate::submit), which asks them for their
//! [effects](crate::task::Effects). [`hear`] is told by `poll` what a task that is over has waited
//! for, and by `executor` which tasks the host has waited for. [`blocks`] is told by calls that act
//! at once what they do to memory. A block that is not checked pays one load and one branch for
//! each call.
//!
//! # Edges
//!
//! | from | to |
//! |---|---|
//! | a task | the next task of its stream |
//! | a call of the host | the work that is enqueued by that call and by later ones |
//! | the record of an event | a stream that has waited for it; the host, when a call says that it is complete |
//! | the record of a notify | the wait that it ended |
//! | all work of a stream | the host, after a synchronise, a query that says complete, or a call that waited for it |
//! | the work before a host function | the host, when the function runs; and what the host knows when it returns, to the work behind it |
//! | the work before a CPU kernel | the work that the kernel issues |
//! | the work before a collective, on every rank | the work behind it on every rank that needs that rank's data |
//! | the work before a send and its receive | the work behind the other one |
//! | the exchange of memory with a rank of another process | what that rank does with the memory |
//!
//! The threads of the host count as one: a fact that one of them learned, all know. They can tell
//! each other things in ways that the checker cannot see, and a finding must never be wrong. A CPU
//! kernel is [not among them](issuer). The progress line of a stream (`ascendExtStreamProgress`)
//! could tell the host something without a call, so a checked block gives none.

mod abroad;
mod blocks;
mod clock;
mod engine;
mod finding;
mod hear;
mod hosts;
mod issuer;
mod note;
mod operations;
mod reached;
mod shadow;
mod submit;
mod svg;

pub(crate) use abroad::{joins, lent, reaches, recorded_abroad, records_abroad};
pub(crate) use blocks::{
    allocated, close, engine, engine_of_block, forget, freed, host_accessed, host_is_told,
    host_is_told_by_others, host_sets, host_takes, host_touches, is_on, open, registered, tell,
    unregistered, window_opened, written_by_others,
};
pub(crate) use clock::ClockComponent;
pub(crate) use engine::Checker;
pub(crate) use hear::{
    freed_in_stream, host_saw, kernel_begins, kernel_is_wrong, notify_cleared, passed,
    signal_ended, was_done, window_touched,
};
pub(crate) use hosts::OneHost;
pub(crate) use issuer::KernelClock;
pub(crate) use note::{marks, tells, will_be_done};
pub(crate) use operations::{Announced, CheckedBatch, collective, touches};
pub(crate) use reached::reaches_no_more;
pub(crate) use shadow::CheckedOperation;
pub(crate) use submit::{announce, returns_to_stream};
