//! Checked mode, which finds accesses to memory that nothing orders, whether or not they collided
//! in this run.
//!
//! A checked block of devices has a [`Checker`], which tracks the happens-before relation. It has a
//! vector clock for each stream and one for the host ([`clock`]). For every byte, it has the last
//! write and the reads since then ([`shadow`]). An error is a [`finding::Finding`], which is
//! printed once on standard error and kept with the block.
//!
//! A [`CheckNote`](note::CheckNote) reports an operation to the checker. It is a separate task,
//! which is queued in the stream before the operation. The note lists the accesses of the
//! operation, and contains the clock that the host had when it issued the operation. There are
//! three hooks:
//! - [`submit`](crate::submit) puts tasks into streams, and queries their
//!   [effects](crate::task::Effects).
//! - [`hear`] receives from `poll` what a task that is over has waited for, and from `executor`
//!   which tasks the host has waited for.
//! - [`blocks`] receives the accesses of calls that act at once.
//!
//! A block that is not checked pays one load and one branch for each call.
//!
//! # Edges
//!
//! | from | to |
//! |---|---|
//! | a task | the next task of its stream |
//! | a call of the host | the work that is enqueued by that call and by later ones |
//! | the record of an event | a stream that has waited for it; the host, when a call reports that it is complete |
//! | the record of a notify | the wait that it ended |
//! | all work of a stream | the host, after a synchronise, a query that reports completion, or a call that waited for it |
//! | the work before a host function | the host, when the function runs |
//! | all that the host knows when a host function returns | the work after the function |
//! | the work before a CPU kernel | the work that the kernel issues |
//! | the work before a collective, on every rank | the work after it, on every rank that needs that rank's data |
//! | the work before a send or its receive | the work after the matching receive or send |
//! | the exchange of memory with a rank of another process | the accesses of that rank to the memory |
//!
//! The threads of the host count as one component: if one of them learns a fact, all of them know
//! it. They can communicate in ways that the checker cannot see, and a finding must never be false.
//! A CPU kernel [has its own clock](issuer). The progress line of a stream
//! (`ascendExtStreamProgress`) could inform the host without a call, so a checked block has none.

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
