//! What a reactor watches: slots that are used again, so that registering allocates nothing in the steady state.

#![forbid(unsafe_code)]

/// Names one registration. A key of a slot that has been used again names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    slot: usize,
    generation: u64,
}

/// See the [module](self).
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

    /// All of them.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|(_, value)| value.as_ref())
    }

    /// Moves those that are ready to `ready`.
    pub(crate) fn take_ready(&mut self, is_ready: impl Fn(&T) -> bool, ready: &mut Vec<T>) {
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

    /// Look, register, look again, against complete, count, scan: the task sees the completion or is woken. The reactor is one
    /// that runs already and is blocked in the backend, so a registration does not make it scan. It reads the counter first.
    #[test]
    fn loom_no_wake_up_is_lost() {
        loom::model(|| {
            let complete = Arc::new(AtomicBool::new(false));
            let activity = Arc::new(AtomicBool::new(false));
            let registry = Arc::new(Mutex::new(Registry::<()>::default()));
            let task = {
                let (complete, registry) = (complete.clone(), registry.clone());
                loom::thread::spawn(move || {
                    if complete.load(Ordering::Acquire) {
                        return true;
                    }
                    let key = registry.lock().unwrap().insert(());
                    if complete.load(Ordering::Acquire) {
                        return registry.lock().unwrap().remove(key).is_some();
                    }
                    false
                })
            };
            let device = {
                let (complete, activity) = (complete.clone(), activity.clone());
                loom::thread::spawn(move || {
                    complete.store(true, Ordering::Release);
                    activity.store(true, Ordering::Release);
                })
            };
            let mut woken = Vec::new();
            let mut counted;
            loop {
                counted = activity.load(Ordering::Acquire);
                registry
                    .lock()
                    .unwrap()
                    .take_ready(|()| complete.load(Ordering::Acquire), &mut woken);
                if counted {
                    break;
                }
                // Blocked in the backend until the counter moves.
                while !activity.load(Ordering::Acquire) {
                    loom::thread::yield_now();
                }
            }
            device.join().unwrap();
            let saw = task.join().unwrap();
            assert!(saw || woken.len() == 1, "the task sleeps for ever");
        });
    }

    /// Read the alarms, look, register, read them again, against fail, alarm, and a reactor that passes now and then and wakes all when it
    /// hears a new alarm: the task sees the failure or is woken.
    #[test]
    fn loom_no_alarm_is_lost() {
        loom::model(|| {
            let failed = Arc::new(AtomicBool::new(false));
            let alarms = Arc::new(AtomicU64::new(0));
            let registry = Arc::new(Mutex::new(Registry::<()>::default()));
            let task = {
                let (failed, alarms, registry) = (failed.clone(), alarms.clone(), registry.clone());
                loom::thread::spawn(move || {
                    let before = alarms.load(Ordering::SeqCst);
                    if failed.load(Ordering::Acquire) {
                        return true;
                    }
                    let _ = registry.lock().unwrap().insert(());
                    // Looks again then.
                    alarms.load(Ordering::SeqCst) != before
                })
            };
            let failing = {
                let (failed, alarms) = (failed.clone(), alarms.clone());
                loom::thread::spawn(move || {
                    failed.store(true, Ordering::Release);
                    alarms.fetch_add(1, Ordering::SeqCst);
                })
            };
            let mut woken = Vec::new();
            let mut heard = 0;
            let mut pass = || {
                let mut registry = registry.lock().unwrap();
                let now = alarms.load(Ordering::SeqCst);
                registry.take_ready(|()| now != heard, &mut woken);
                heard = now;
            };
            pass();
            failing.join().unwrap();
            pass();
            let saw = task.join().unwrap();
            pass();
            assert!(saw || woken.len() == 1, "the task sleeps for ever");
        });
    }
}
