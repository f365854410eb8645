//! A registry of entries with keys. The reactor registers the operations whose end it waits for,
//! and [`patience`](super::patience) registers the wakers to call at an alarm. The place of a
//! removed entry is reused, so that registering allocates nothing in the steady state.

#![forbid(unsafe_code)]

/// The key of one entry. The key becomes invalid when the entry is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    slot: usize,
    generation: u64,
}

/// Performs the task's side of a wait. Returns whether the wait is over, or the error of
/// `register`. If the wait is not over, the task is registered, and the last calls of `is_over` and
/// `alarms` came after the registration.
pub(crate) fn look_and_register<E>(
    is_over: impl Fn() -> bool,
    alarms: impl Fn() -> u64,
    mut register: impl FnMut() -> Result<(), E>,
) -> Result<bool, E> {
    while !is_over() {
        let before = alarms();
        register()?;
        if !is_over() && alarms() == before {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Entries with their keys; see the [module](self).
pub(crate) struct Registry<T> {
    slots: Vec<(u64, Option<T>)>,
    free: Vec<usize>,
}

impl<T> Default for Registry<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Registry<T> {
    pub(crate) fn insert(&mut self, value: T) -> Key {
        match self.free.pop() {
            Some(slot) => {
                let (generation, place) = &mut self.slots[slot];
                *generation += 1;
                *place = Some(value);
                Key { slot, generation: *generation }
            }
            None => {
                self.slots.push((0, Some(value)));
                Key { slot: self.slots.len() - 1, generation: 0 }
            }
        }
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        match self.slots.get_mut(key.slot) {
            Some((generation, value)) if *generation == key.generation => value.as_mut(),
            _ => None,
        }
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        match self.slots.get_mut(key.slot) {
            Some((generation, value)) if *generation == key.generation => {
                let value = value.take()?;
                self.free.push(key.slot);
                Some(value)
            }
            _ => None,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    /// Returns all entries.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|(_, value)| value.as_ref())
    }

    /// Moves to `ready` all entries for which `is_ready` returns true. The second argument of
    /// `is_ready` says whether there was an alarm since the last call. `alarms` is the present
    /// number of alarms. `heard` is the number at the last call, and is updated.
    pub(crate) fn take_due(
        &mut self,
        heard: &mut u64,
        alarms: u64,
        is_ready: impl Fn(&T, bool) -> bool,
        ready: &mut Vec<T>,
    ) {
        let any = alarms != *heard;
        self.take_ready(|value| is_ready(value, any), ready);
        *heard = alarms;
    }

    /// Moves to `ready` all entries for which `is_ready` returns true.
    fn take_ready(&mut self, is_ready: impl Fn(&T) -> bool, ready: &mut Vec<T>) {
        for (slot, (_, value)) in self.slots.iter_mut().enumerate() {
            if value.as_ref().is_some_and(&is_ready)
                && let Some(value) = value.take()
            {
                self.free.push(slot);
                ready.push(value);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_old_key_names_nothing() {
        let mut registry = Registry::default();
        let first = registry.insert('a');
        assert_eq!(registry.remove(first), Some('a'));
        let second = registry.insert('b');
        assert_eq!(first.slot, second.slot);
        assert!(registry.get_mut(first).is_none() && registry.remove(first).is_none());
        assert_eq!(registry.get_mut(second), Some(&mut 'b'));
    }

    #[test]
    fn the_ready_ones_are_taken_once() {
        let mut registry = Registry::default();
        let _ = (registry.insert(1), registry.insert(2), registry.insert(3));
        let mut ready = Vec::new();
        registry.take_ready(|value| value % 2 == 1, &mut ready);
        assert_eq!(ready, [1, 3]);
        registry.take_ready(|_| true, &mut ready);
        assert_eq!(ready, [1, 3, 2]);
        assert!(registry.is_empty() && registry.values().next().is_none());
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use loom::sync::{Arc, Mutex};

    /// The state that a task and the reactor share. One task waits.
    struct WaitModel {
        registry: Mutex<Registry<()>>,
        complete: AtomicBool,
        /// The activity counter of the backend.
        activity: AtomicU64,
        failed: AtomicBool,
        alarms: AtomicU64,
    }

    impl WaitModel {
        fn new() -> Arc<Self> {
            Arc::new(WaitModel {
                registry: Mutex::new(Registry::default()),
                complete: AtomicBool::new(false),
                activity: AtomicU64::new(0),
                failed: AtomicBool::new(false),
                alarms: AtomicU64::new(0),
            })
        }

        /// Polls as a `Work` does, which checks for failures when it registers. Returns whether the
        /// task need not sleep.
        fn poll(&self) -> bool {
            let register = || match self.failed.load(Ordering::Acquire) {
                true => Err(()),
                false => {
                    let mut registry = self.registry.lock().unwrap();
                    // One entry is enough, because a task replaces the waker of its earlier call.
                    if registry.is_empty() {
                        let _ = registry.insert(());
                    }
                    Ok(())
                }
            };
            let is_over = || self.complete.load(Ordering::Acquire);
            let alarms = || self.alarms.load(Ordering::SeqCst);
            look_and_register(is_over, alarms, register).unwrap_or(true)
        }

        /// Runs one pass of the reactor. Returns whether it has woken the task.
        fn pass(&self, heard: &mut u64) -> bool {
            let mut ready = Vec::new();
            let mut registry = self.registry.lock().unwrap();
            let alarms = self.alarms.load(Ordering::SeqCst);
            let is_ready = |(): &(), alarm| alarm || self.complete.load(Ordering::Acquire);
            registry.take_due(heard, alarms, is_ready, &mut ready);
            !ready.is_empty()
        }
    }

    /// The reactor runs already and is blocked in the backend, so a registration does not wake it.
    #[test]
    fn loom_no_wake_up_is_lost() {
        loom::model(|| {
            let model = WaitModel::new();
            let task = {
                let model = model.clone();
                loom::thread::spawn(move || model.poll())
            };
            let device = {
                let model = model.clone();
                loom::thread::spawn(move || {
                    model.complete.store(true, Ordering::Release);
                    model.activity.store(1, Ordering::Release);
                })
            };
            let (mut heard, mut woken) = (0, false);
            loop {
                let counted = model.activity.load(Ordering::Acquire) != 0;
                woken |= model.pass(&mut heard);
                if counted {
                    break;
                }
                // Blocked in the backend until its counter moves.
                while model.activity.load(Ordering::Acquire) == 0 {
                    loom::thread::yield_now();
                }
            }
            device.join().unwrap();
            assert!(task.join().unwrap() || woken, "the task sleeps for ever");
        });
    }

    /// The reactor checks its entries at arbitrary moments while a watch fails.
    #[test]
    fn loom_no_alarm_is_lost() {
        loom::model(|| {
            let model = WaitModel::new();
            let task = {
                let model = model.clone();
                loom::thread::spawn(move || model.poll())
            };
            let failing = {
                let model = model.clone();
                loom::thread::spawn(move || {
                    model.failed.store(true, Ordering::Release);
                    model.alarms.fetch_add(1, Ordering::SeqCst);
                })
            };
            let mut heard = 0;
            let mut woken = model.pass(&mut heard);
            failing.join().unwrap();
            woken |= model.pass(&mut heard);
            let need_not_sleep = task.join().unwrap();
            woken |= model.pass(&mut heard);
            assert!(need_not_sleep || woken, "the task sleeps for ever");
        });
    }
}
