//! The faults that were requested for a device, and the operations at which they happen. [`super`]
//! has their effects on operations and streams.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use ascend_sync::lock_std as lock;

/// The kind of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultKind {
    Delay(Duration),
    Stop,
    Leave,
    WrongCount,
    OutOfMemory,
    LinkTimeout,
}

impl FaultKind {
    /// Returns the kind with this number of `AscendExtFault`; `None` if there is no such kind.
    pub(crate) fn from_number(number: u32, milliseconds: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Delay(Duration::from_millis(milliseconds.into()))),
            2 => Some(Self::Stop),
            3 => Some(Self::Leave),
            4 => Some(Self::WrongCount),
            5 => Some(Self::OutOfMemory),
            6 => Some(Self::LinkTimeout),
            _ => None,
        }
    }
}

/// The faults of one device.
#[derive(Default)]
pub(crate) struct Faults(Mutex<Asked>);

#[derive(Default)]
struct Asked {
    faults: Vec<Fault>,
    /// Whether the streams of the device make no progress.
    stopped: bool,
}

struct Fault {
    kind: FaultKind,
    /// The number of the operation or allocation, from 1. 0 means the next operation or allocation,
    /// or all of them, depending on the kind. [`FaultKind::OutOfMemory`] also happens to all later
    /// allocations.
    number: u64,
    /// The number of operations or allocations since the fault was requested.
    seen: u64,
    /// Whether the fault happens only once, and has happened.
    over: bool,
}

impl Fault {
    /// Returns whether the fault is still to happen, at the operation or allocation with this
    /// number.
    fn is_at(&self, number: u64) -> bool {
        !self.over && (self.number == 0 || self.number == number)
    }

    /// Counts the next operation or allocation, and returns whether the fault happens. `applies` is
    /// true if the fault could happen to it.
    fn is_due(&mut self, applies: bool) -> bool {
        self.seen += 1;
        if self.kind == FaultKind::OutOfMemory {
            // A caller that tries again, for example after it has freed something, gets the same
            // error.
            return self.seen >= self.number;
        }
        let due = applies && self.is_at(self.seen);
        let repeats = matches!(self.kind, FaultKind::Delay(_) | FaultKind::WrongCount);
        self.over |= due && !(repeats && self.number == 0);
        due
    }
}

/// The number of faults that are requested in the process.
static ASKED_FOR: AtomicU32 = AtomicU32::new(0);

/// Returns whether any fault is requested.
#[inline]
pub(crate) fn are_any() -> bool {
    ASKED_FOR.load(Ordering::Relaxed) != 0
}

impl Faults {
    fn asked(&self) -> MutexGuard<'_, Asked> {
        lock(&self.0)
    }

    pub(crate) fn add(&self, kind: FaultKind, number: u64) {
        self.asked().faults.push(Fault { kind, number, seen: 0, over: false });
        ASKED_FOR.fetch_add(1, Ordering::Release);
    }

    /// Ends all faults. Returns true if the device had stopped.
    pub(super) fn clear(&self) -> bool {
        let Asked { faults, stopped } = std::mem::take(&mut *self.asked());
        ASKED_FOR.fetch_sub(faults.len() as u32, Ordering::Release);
        stopped
    }

    pub(super) fn stop(&self) {
        self.asked().stopped = true;
    }

    pub(super) fn has_stopped(&self) -> bool {
        self.asked().stopped
    }

    /// Returns the faults that happen to the next operation. `can_have` returns whether a fault of
    /// a kind can happen to that operation.
    pub(super) fn due(&self, can_have: impl Fn(FaultKind) -> bool) -> Vec<FaultKind> {
        let mut asked = self.asked();
        let operations = |fault: &&mut Fault| fault.kind != FaultKind::OutOfMemory;
        let due = |fault: &mut Fault| fault.is_due(can_have(fault.kind)).then_some(fault.kind);
        asked.faults.iter_mut().filter(operations).filter_map(due).collect()
    }

    /// Returns whether a link that an operation makes fails. The device issues `operations`
    /// operations before that operation.
    pub(super) fn link_fails(&self, operations: usize) -> bool {
        let mut due = false;
        let links = |fault: &&mut Fault| fault.kind == FaultKind::LinkTimeout;
        for fault in self.asked().faults.iter_mut().filter(links) {
            let now = fault.is_at(fault.seen + 1 + operations as u64);
            fault.over |= now;
            due |= now;
        }
        due
    }

    /// Returns whether an allocation must fail.
    #[inline]
    pub(crate) fn allocation_fails(&self) -> bool {
        are_any() && self.allocation_is_due()
    }

    #[cold]
    fn allocation_is_due(&self) -> bool {
        let mut due = false;
        // Every allocation counts.
        let allocations = |fault: &&mut Fault| fault.kind == FaultKind::OutOfMemory;
        for fault in self.asked().faults.iter_mut().filter(allocations) {
            due |= fault.is_due(true);
        }
        due
    }
}

/// A fault as an environment variable describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WantedFault {
    /// The number of the device in the block.
    pub(crate) device: u32,
    pub(crate) kind: FaultKind,
    pub(crate) number: u64,
}

/// Reads faults of a block of `devices` devices, such as `delay 0 by 20, stop 1 at 3`.
pub(crate) fn parse(text: &str, devices: u32) -> Result<Vec<WantedFault>, String> {
    let wanted = text.split(',').map(str::trim).filter(|one| !one.is_empty());
    wanted.map(|one| parse_one(one, devices).map_err(|why| format!("\"{one}\": {why}"))).collect()
}

fn parse_one(text: &str, devices: u32) -> Result<WantedFault, String> {
    let mut words = text.split_whitespace();
    let name = words.next().unwrap_or_default();
    let names = ["delay", "stop", "leave", "wrong-count", "out-of-memory", "link-timeout"];
    let Some(kind) = (1..).zip(names).find(|(_, known)| *known == name) else {
        return Err(format!("no fault has this name; write one of {} first", names.join(", ")));
    };
    let number = |word: Option<&str>, what: &str| {
        let word = word.unwrap_or_default();
        word.parse::<u64>().map_err(|_| format!("write {what}, not \"{word}\""))
    };
    let device = number(words.next(), "the number of a device after the name of the fault")?;
    let device = u32::try_from(device).ok().filter(|device| *device < devices);
    let device =
        device.ok_or_else(|| format!("write a device below {devices}, the number of devices"))?;
    let (mut length, mut at) = (0, 0);
    while let Some(word) = words.next() {
        match word {
            "by" if name == "delay" => length = number(words.next(), "a number of milliseconds")?,
            "at" => at = number(words.next(), "the number of an operation")?,
            _ => return Err(format!("\"{word}\" means nothing here; remove it")),
        }
    }
    let length = u32::try_from(length)
        .map_err(|_| "the delay is too long; write at most 4294967295 milliseconds".to_string())?;
    let kind = FaultKind::from_number(kind.0, length)
        .ok_or("this is not a fault; write one of the names of faults")?;
    Ok(WantedFault { device, kind, number: at })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_from_words() {
        let delay = FaultKind::Delay(Duration::from_millis(20));
        let wanted = |device, kind, number| WantedFault { device, kind, number };
        let read = parse(" delay 0 by 20 at 4, stop 1 at 3,leave 2,wrong-count 0 , ", 3).unwrap();
        let expected = [
            wanted(0, delay, 4),
            wanted(1, FaultKind::Stop, 3),
            wanted(2, FaultKind::Leave, 0),
            wanted(0, FaultKind::WrongCount, 0),
        ];
        assert_eq!(read, expected);
        let read = parse("out-of-memory 1 at 2, link-timeout 1", 2).unwrap();
        assert_eq!(
            read,
            [wanted(1, FaultKind::OutOfMemory, 2), wanted(1, FaultKind::LinkTimeout, 0)]
        );
        for (text, why) in [
            ("burn 1", "one of delay, stop"),
            ("stop", "a device after the name"),
            ("stop one", "not \"one\""),
            ("stop 2", "a device below 2"),
            ("stop 1 by 3", "\"by\" means nothing"),
            ("stop 1 at", "an operation"),
            ("delay 1 by x", "milliseconds"),
        ] {
            let error = parse(text, 2).unwrap_err();
            assert!(error.contains(text) && error.contains(why), "{error}");
        }
    }
}
