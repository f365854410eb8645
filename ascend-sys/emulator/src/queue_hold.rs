//! The gate of a queue: open, held, or closed with the code with which new jobs are refused.
//!
//! A *held* queue accepts jobs but does not begin them (`aclrtStreamStop`). A job that has begun
//! goes on, and a job with a void ticket still gives up. The gate is read under the queue's lock
//! before a job begins, and written under the same lock, so no job is taken once
//! [`TaskQueue::hold`] has returned. A job that was taken before counts as begun.

use super::{HELD, Job, TaskQueue};
use ascend_sync::Ordering;
use std::collections::VecDeque;

impl<J: Job> TaskQueue<J> {
    /// Closes the gate: from now on, new jobs are refused with `code`. A `code` of 0 opens the gate
    /// again.
    pub(crate) fn set_gate(&self, code: i32) {
        let _order = self.queue.lock();
        self.gate.store(code, Ordering::Relaxed);
    }

    /// Holds the queue: no more jobs begin. A closed gate stays closed.
    pub(crate) fn hold(&self) {
        self.change_gate(0, HELD);
    }

    /// Lets jobs begin again, if the queue was held. The caller must poll afterwards.
    pub(crate) fn release(&self) {
        self.change_gate(HELD, 0);
    }

    fn change_gate(&self, from: i32, to: i32) {
        let _order = self.queue.lock();
        if self.gate.load(Ordering::Relaxed) == from {
            self.gate.store(to, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_held(&self) -> bool {
        self.gate.load(Ordering::Relaxed) == HELD
    }

    /// Returns whether the queue is held and has no job left that has begun. Returns false if
    /// another thread has the lock.
    pub(crate) fn is_at_rest(&self, owner: &'static J::Owner) -> bool {
        let Some(mut head) = self.try_head() else { return false };
        let rests = head.with(|head| head.is_none()) && self.is_held();
        drop(head);
        if self.kick.load(Ordering::Acquire) {
            self.poll(owner, 1);
        }
        rests
    }

    /// Takes the next job that may begin.
    #[inline]
    pub(super) fn next(&self, queue: &mut VecDeque<(u64, J)>) -> Option<(u64, J)> {
        if self.is_held() && !queue.front().is_some_and(|(ticket, _)| self.is_void(*ticket)) {
            return None;
        }
        queue.pop_front()
    }
}
