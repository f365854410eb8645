//! Checked mode: accesses to memory that nothing orders, found whether or not they met this time.
//!
//! A block of devices that is checked has a [`Checker`], which keeps happens-before: a vector clock
//! for each stream and one for the host ([`clock`]), and for every byte who wrote it and who has
//! read it since ([`shadow`]). What is wrong is a [`finding::Finding`], told once on standard error
//! and kept with the block.
//!
//! The checker hears of an operation from a [`CheckNote`](note::CheckNote): a task of its own,
//! which goes into the stream before the operation, says what that will touch, and carries what the
//! host knew when it issued it. Checks hook in at three places: [`submit`](crate::submit), through
//! which tasks go into streams and which asks them for their [effects](crate::task::Effects);
//! [`hear`], which `poll` tells what a task that is over has waited for, and `executor` which tasks
//! the host has waited for; [`blocks`], which calls that act at once tell what they do to memory. A
//! block that is not checked pays one load and one branch for each call.
//!
//! # Which edges there are
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
//! The threads of the host count as one: what one of them was told, all know. They have ways to
//! tell each other that cannot be seen here, and a finding must never be wrong. A CPU kernel is
//! [none of them](issuer). The progress line of a stream (`ascendExtStreamProgress`) could tell the
//! host something without a call, so a checked block gives none.

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
