//! Waiting for an operation: the time limit, the warning, and the watches that end a wait early.
//!
//! Every waiter has a [`Patience`]. A thread that blocks wakes every [`LOOK_UP`] and checks its
//! patience. A task that awaits checks its patience at each poll. The reactor wakes the task when
//! the time of the next check has come, or after an [alarm](super::patience::alarm).

#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::awaiting;
use super::patience::{Patience, WARN_AFTER, alarms};
use super::queue::StreamQueue;
use super::stamps::Conflicts;
use super::stream_slot::StreamSlot;
use crate::error::peers::{MOST_RANKS, PeerReport};
use crate::error::{Error, Result};

/// The longest time for which a thread blocks before it checks its [`Patience`] again.
const LOOK_UP: Duration = Duration::from_millis(100);

impl Patience {
    /// Returns the error that ends the wait for operation `number`, or the time after which the
    /// wait must be checked again. After [`WARN_AFTER`], logs one warning that says what the
    /// operation waits for.
    pub(crate) fn check(
        &mut self,
        queue: &StreamQueue,
        number: u64,
        waiter: &'static str,
    ) -> Result<Duration> {
        let mut left = self.left();
        let elapsed = self.elapsed();
        if left.is_zero() {
            return Err(queue.timeout(number, elapsed, waiter, self.looked.as_ref()));
        }
        if self.looked.is_none() && elapsed >= LOOK_UP {
            let peers = queue.slot.describe_watched(number).peers;
            let newest = peers.map_or_else(Box::default, |peers| peers.newest());
            self.looked = Some((Instant::now(), newest));
        } else if self.looked.is_none() {
            left = left.min(LOOK_UP.saturating_sub(elapsed));
        }
        if self.is_long() {
            let (device, what) = (queue.device().index(), queue.slot.describe(number));
            let why = queue.what_it_waits_for(number)?;
            let why = why.map(|why| format!(": {why}")).unwrap_or_default();
            tracing::warn!(device, "{waiter} has waited {elapsed:.0?} for {what}{why}");
        }
        if !self.warned {
            left = left.min(WARN_AFTER.saturating_sub(elapsed));
        }
        // Most programs never raise an alarm and skip these checks.
        if alarms() != 0 {
            // The watch of the device counts too: if it has failed, the operation of another rank
            // that this one waits for may never be issued.
            let of_device = || queue.device().watch()?.failure();
            if let Some(error) = self.failure().or_else(of_device) {
                return Err(error);
            }
            match queue.slot.aborted(number) {
                Some(Some(context)) => {
                    // The failure may be the reason for the abort, so it is the better error.
                    if let Some(error) = queue.slot.faults.of(number, (0, 0)) {
                        return Err(error);
                    }
                    return Err(Error::Aborted { context: Some(Box::new(context)) });
                }
                Some(None) => {}
                // Another thread holds the issue lock, so check again soon.
                None => left = left.min(LOOK_UP),
            }
        }
        Ok(left)
    }
}

impl Conflicts {
    /// Waits for the first of the operations, for at most `slice` and no longer than `patience`
    /// allows. May return before the operation is complete.
    pub(crate) fn wait_a_little(
        &self,
        patience: &mut Patience,
        slice: Duration,
        waiter: &'static str,
    ) -> Result<()> {
        let Some((slot, number)) = self.first() else { return Ok(()) };
        let Some(queue) = slot.queue(number) else { return Ok(()) };
        let _ = awaiting::blocks(waiter);
        let slice = patience.check(&queue, number, waiter)?.min(slice);
        let _bound = queue.device().bind()?;
        queue.wait_unnoted(number, None, slice, patience.limit()).map(drop)
    }

    /// Waits until all of the operations are complete, for at most `limit` in all. Does not return
    /// their failures.
    pub(crate) fn wait(self, limit: Duration, waiter: &'static str) -> Result<()> {
        let start = Instant::now();
        for (slot, number) in self.into_iter() {
            slot.wait(number, limit.saturating_sub(start.elapsed()), waiter)?;
        }
        Ok(())
    }
}

impl StreamSlot {
    /// Waits until the number is complete. Does not return a failure of its operation.
    pub(crate) fn wait(&self, number: u64, limit: Duration, waiter: &'static str) -> Result<()> {
        self.queue(number).map_or(Ok(()), |queue| queue.wait(number, limit, waiter))
    }
}

impl StreamQueue {
    /// Waits until the number is complete, as [`StreamSlot::wait`] does.
    pub(crate) fn wait(&self, number: u64, limit: Duration, waiter: &'static str) -> Result<()> {
        self.wait_until(number, None, limit, waiter)
    }

    /// Waits until the number is complete, for a `Work`, which has the `ticket` of its operation.
    pub(crate) fn wait_work(
        &self,
        number: u64,
        ticket: u64,
        limit: Duration,
        waiter: &'static str,
    ) -> Result<()> {
        self.wait_until(number, Some(ticket), limit, waiter)
    }

    fn wait_until(
        &self,
        number: u64,
        ticket: Option<u64>,
        limit: Duration,
        waiter: &'static str,
    ) -> Result<()> {
        let is_complete = || match ticket {
            Some(ticket) => self.slot.is_work_complete(number, ticket),
            None => self.is_complete(number),
        };
        if is_complete() {
            return Ok(());
        }
        let mut blocking = awaiting::blocks(waiter);
        let _bound = self.device().bind()?;
        let wait = |slice| self.wait_unnoted(number, ticket, slice, limit);
        let mut patience = if alarms() == 0 {
            // Most waits last about a microsecond, and reading the clock would be a large part of
            // that. So the first slice does not read it.
            let first = limit.min(LOOK_UP);
            let all_of_it = wait(first)?;
            if is_complete() {
                return Ok(());
            }
            Patience::since(if all_of_it { first } else { Duration::ZERO }, limit)
        } else {
            Patience::new(limit)
        };
        loop {
            blocking.has_lasted(patience.elapsed());
            let slice = patience.check(self, number, waiter)?.min(LOOK_UP);
            wait(slice)?;
            if is_complete() {
                return Ok(());
            }
        }
    }

    /// Waits as [`wait_a_little`](Self::wait_a_little) does. If the whole slice passes, removes the
    /// error text that the backend has stored about the time-out.
    fn wait_unnoted(
        &self,
        number: u64,
        ticket: Option<u64>,
        slice: Duration,
        patience: Duration,
    ) -> Result<bool> {
        let ticket = ticket.or_else(|| self.slot.timeline.ticket(number));
        let all_of_it = self.wait_a_little(number, ticket, slice, patience)?;
        if all_of_it {
            // The text must not appear in the message of a later error.
            drop(self.table().recent_message());
        }
        Ok(all_of_it)
    }

    /// Blocks for at most `slice` in a wait call of the backend. `patience` is the limit of the
    /// whole wait. Returns whether the whole slice passed.
    fn wait_a_little(
        &self,
        number: u64,
        ticket: Option<u64>,
        slice: Duration,
        patience: Duration,
    ) -> Result<bool> {
        match (self.slot.progress, ticket) {
            (None, _) => self.marks.wait(self, number, slice),
            (_, Some(ticket)) => self.table().await_task(self.handle(), ticket, slice, patience),
            // The enqueue call of the operation has not returned yet, so it has no ticket.
            (_, None) => {
                std::thread::sleep(Duration::from_micros(50));
                Ok(false)
            }
        }
    }

    #[cold]
    fn timeout(
        &self,
        number: u64,
        after: Duration,
        waiter: &'static str,
        looked: Option<&(Instant, Box<[u64]>)>,
    ) -> Error {
        let message = match self.what_it_waits_for(number) {
            Ok(message) => message,
            Err(error) => return error,
        };
        let (mut operation, device) = (self.slot.describe_waiting(number), self.device().index());
        if let (None, Some(own), Some(all @ ..=MOST_RANKS)) =
            (&operation.peers, operation.rank, operation.world_size)
            && let awaited @ [_, ..] = &self.awaited_ranks(number)[..]
        {
            operation.peers = Some(PeerReport::of_messages(own, all, awaited).into());
        }
        if let (Some(peers), Some((at, before))) = (&mut operation.peers, looked) {
            Arc::make_mut(peers).compare(before, at.elapsed());
        }
        let what = if operation.operation == waiter {
            format!("{operation} on device {device}")
        } else {
            format!("{operation} on device {device} ({waiter})")
        };
        Error::Timeout { what: what.into(), after, message, context: Some(Box::new(operation)) }
    }

    /// Returns the ranks that an operation waits for, as far as they are known.
    #[cold]
    pub(crate) fn awaited_ranks(&self, number: u64) -> Vec<u32> {
        if let Some(elsewhere) = self.slot.first_elsewhere(number) {
            return elsewhere.awaited_ranks();
        }
        let ticket = |number| self.slot.timeline.ticket(number);
        let Some(last) = ticket(number) else { return Vec::new() };
        // If no ticket is kept for the number before, only the last ticket of this one is known.
        let before = number.checked_sub(1).and_then(ticket).unwrap_or(0);
        self.table().task_peers(self.handle(), (before + 1).min(last)..=last)
    }

    /// Returns a description of what the operation waits for, or `None` if that is not known. The
    /// backend describes it in the error text of a wait that times out, so this blocks for 1 ms.
    #[cold]
    pub(crate) fn what_it_waits_for(&self, number: u64) -> Result<Option<Box<str>>> {
        if let Some(elsewhere) = self.slot.first_elsewhere(number) {
            return Ok(elsewhere.waits_for());
        }
        let _bound = self.device().bind()?;
        // Removes an earlier text, which is about another call.
        drop(self.table().recent_message());
        let moment = Duration::from_millis(1);
        self.wait_a_little(number, self.slot.timeline.ticket(number), moment, moment)?;
        // Removes the beginning of the text, which names the C function and says that the work is
        // not complete.
        let without_entry = |message: Box<str>| match message.split_once("not complete yet, and ") {
            Some((_, what)) => what.strip_prefix("its work goes on: ").unwrap_or(what).into(),
            None => message,
        };
        Ok(self.table().recent_message().map(without_entry))
    }
}
