//! Faults that a device is told to have, so that programs can see what they do about them.
//!
//! A fault waits for an operation of HCCL or for an allocation of its device, by number. An operation asks just before it is
//! issued; as long as nobody has asked for a fault, that is one load.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::collective::validate::{Refusal, refuse};
use crate::fabric::{Member, registry};
use crate::machine::{self, Device};
use crate::message::{Failure, fail};
use crate::step::Step;
use crate::stream::{STREAMS, Stream};
use crate::task::Task;
use ascend_sys::ACL_ERROR_RT_PARAM_INVALID;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Delay(Duration),
    Stop,
    Leave,
    WrongCount,
    OutOfMemory,
    LinkTimeout,
}

impl Kind {
    /// By the number that `AscendExtFault` uses.
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
pub(crate) struct Faults {
    asked_for: Vec<Fault>,
    /// Its streams make no progress.
    stopped: bool,
}

struct Fault {
    kind: Kind,
    /// From 1; 0 is the next or all of them, as the kind has it.
    number: u64,
    /// Operations or allocations since it was asked for.
    seen: u64,
    /// It happens once, and has happened.
    over: bool,
}

impl Fault {
    /// Whether it is still to come, and at the operation or allocation with this number.
    fn is_at(&self, number: u64) -> bool {
        !self.over && (self.number == 0 || self.number == number)
    }

    /// The next operation or allocation comes. `applies`: the fault could happen to it.
    fn is_due(&mut self, applies: bool) -> bool {
        self.seen += 1;
        if self.kind == Kind::OutOfMemory {
            // Who asks again, for example after it has given something back, is told the same.
            return self.seen >= self.number;
        }
        let due = applies && self.is_at(self.seen);
        let repeats = matches!(self.kind, Kind::Delay(_) | Kind::WrongCount);
        self.over |= due && !(repeats && self.number == 0);
        due
    }
}

/// How many faults were asked for in the process.
static ASKED_FOR: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// The device of the rank that leaves with the call that the thread is in.
    static LEAVING: Cell<Option<u32>> = const { Cell::new(None) };
}

fn of(device: &Device) -> MutexGuard<'_, Faults> {
    lock(&device.faults)
}

fn lock(faults: &Mutex<Faults>) -> MutexGuard<'_, Faults> {
    faults.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A device of a block, by its place in it.
fn find(block: u32, index: u32) -> Result<&'static Device, Failure> {
    let settings = machine::block(block)?;
    if index >= settings.count {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "there is no device {index} in block {block}, which has {}",
            settings.count
        );
    }
    Ok(machine::device_slot(settings.first + index))
}

/// Has a device of a block fail.
pub(crate) fn set(block: u32, device: u32, kind: Kind, number: u64) -> Result<(), Failure> {
    add(find(block, device)?, kind, number);
    Ok(())
}

/// The same for a device at hand.
pub(crate) fn add(device: &Device, kind: Kind, number: u64) {
    of(device).asked_for.push(Fault { kind, number, seen: 0, over: false });
    ASKED_FOR.fetch_add(1, Ordering::Release);
}

/// A fault as an environment variable says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Of the block.
    pub(crate) device: u32,
    pub(crate) kind: Kind,
    pub(crate) number: u64,
}

/// Reads faults of a block of so many devices, such as `delay 0 by 20, stop 1 at 3`.
pub(crate) fn parse(text: &str, devices: u32) -> Result<Vec<Wanted>, String> {
    let wanted = text.split(',').map(str::trim).filter(|one| !one.is_empty());
    wanted.map(|one| parse_one(one, devices).map_err(|why| format!("\"{one}\": {why}"))).collect()
}

fn parse_one(text: &str, devices: u32) -> Result<Wanted, String> {
    let mut words = text.split_whitespace();
    let name = words.next().unwrap_or_default();
    let names = ["delay", "stop", "leave", "wrong-count", "out-of-memory", "link-timeout"];
    let Some(kind) = (1..).zip(names).find(|(_, known)| *known == name) else {
        return Err(format!("one of {} is expected first", names.join(", ")));
    };
    let number = |word: Option<&str>, what: &str| {
        let word = word.unwrap_or_default();
        word.parse::<u64>().map_err(|_| format!("{what} is expected, not \"{word}\""))
    };
    let device = number(words.next(), "the number of a device behind it")?;
    let device = u32::try_from(device).ok().filter(|device| *device < devices);
    let device = device.ok_or_else(|| format!("there are {devices} devices, from 0"))?;
    let (mut length, mut at) = (0, 0);
    while let Some(word) = words.next() {
        match word {
            "by" if name == "delay" => length = number(words.next(), "a number of milliseconds")?,
            "at" => at = number(words.next(), "the number of an operation")?,
            _ => return Err(format!("\"{word}\" means nothing here")),
        }
    }
    let length = u32::try_from(length).map_err(|_| "at most 49 days are possible".to_string())?;
    let kind = Kind::from_number(kind.0, length).ok_or("this is no fault")?;
    Ok(Wanted { device, kind, number: at })
}

/// Ends the faults of a device of a block; what has stopped goes on.
pub(crate) fn clear(block: u32, device: u32) -> Result<(), Failure> {
    forget(find(block, device)?);
    Ok(())
}

/// The same for a device at hand.
pub(crate) fn forget(device: &Device) {
    let Faults { asked_for, stopped } = std::mem::take(&mut *of(device));
    ASKED_FOR.fetch_sub(asked_for.len() as u32, Ordering::Release);
    if stopped {
        for stream in STREAMS.all().filter(|stream| stream.device_id() == device.id) {
            stream.wake();
        }
    }
}

/// What a fault needs of an operation.
#[derive(Clone, Copy)]
pub(crate) struct Operation {
    /// It meets peers for the first time.
    pub(crate) meets: bool,
    /// It has a count, and that is not zero.
    pub(crate) counts: bool,
}

impl Operation {
    fn can_have(self, kind: Kind) -> bool {
        match kind {
            Kind::LinkTimeout => self.meets,
            Kind::WrongCount => self.counts,
            _ => true,
        }
    }
}

/// An operation is about to be issued. True: with one element less.
#[inline]
pub(crate) fn before(
    member: &Member,
    stream: &'static Stream,
    operation: Operation,
) -> Result<bool, Refusal> {
    if ASKED_FOR.load(Ordering::Relaxed) == 0 {
        return Ok(false);
    }
    before_with_faults(member, stream, operation)
}

#[cold]
fn before_with_faults(
    member: &Member,
    stream: &'static Stream,
    operation: Operation,
) -> Result<bool, Refusal> {
    let device = machine::device_slot(member.device);
    let mut due = Vec::new();
    let operations = |fault: &&mut Fault| fault.kind != Kind::OutOfMemory;
    for fault in of(device).asked_for.iter_mut().filter(operations) {
        if fault.is_due(operation.can_have(fault.kind)) {
            due.push(fault.kind);
        }
    }
    let mut wrong = false;
    for kind in due {
        match kind {
            Kind::Delay(length) => hold(stream, Hold::For(length, None)),
            Kind::Stop => {
                of(device).stopped = true;
                for stream in STREAMS.live().filter(|stream| stream.device_id() == device.id) {
                    hold(stream, Hold::WhileStopped);
                }
            }
            Kind::Leave => {
                LEAVING.set(Some(device.id));
                return refuse!(
                    HCCL_E_UNAVAIL,
                    "rank {} has left: its device was told to have this fault",
                    member.rank
                );
            }
            Kind::WrongCount => wrong = true,
            Kind::LinkTimeout => member.comm.never_meet(member.rank)?,
            Kind::OutOfMemory => {}
        }
    }
    Ok(wrong)
}

/// A rank is about to meet the others for the first time, in a group that issues so many operations of its device before.
#[inline]
pub(crate) fn before_contact(member: &Member, operations: usize) -> Result<(), Refusal> {
    if ASKED_FOR.load(Ordering::Relaxed) == 0 {
        return Ok(());
    }
    let device = machine::device_slot(member.device);
    let mut due = false;
    for fault in of(device).asked_for.iter_mut().filter(|fault| fault.kind == Kind::LinkTimeout) {
        let now = fault.is_at(fault.seen + 1 + operations as u64);
        fault.over |= now;
        due |= now;
    }
    if due { member.comm.never_meet(member.rank) } else { Ok(()) }
}

/// A call has failed and holds no lock any more: if its rank was told to leave with it, it does.
#[cold]
pub(crate) fn after_failure() {
    if let Some(device) = LEAVING.take() {
        registry::destroy_all(&(device..device + 1), "it was told to have this fault");
    }
}

/// Whether an allocation of the device must fail.
#[inline]
pub(crate) fn allocation_fails(device: &Device) -> bool {
    ASKED_FOR.load(Ordering::Relaxed) != 0 && an_allocation_is_due(device)
}

#[cold]
fn an_allocation_is_due(device: &Device) -> bool {
    let mut faults = of(device);
    let mut due = false;
    // Every one of them counts.
    for fault in faults.asked_for.iter_mut().filter(|fault| fault.kind == Kind::OutOfMemory) {
        due |= fault.is_due(true);
    }
    due
}

/// A stream was made: it stands still if its device does.
#[inline]
pub(crate) fn made(stream: &'static Stream, device: &Device) {
    if ASKED_FOR.load(Ordering::Relaxed) != 0 && of(device).stopped {
        hold(stream, Hold::WhileStopped);
    }
}

fn hold(stream: &'static Stream, hold: Hold) {
    // A stream that takes no tasks makes no progress anyway.
    let _ = stream.enqueue(Task::Hold(hold));
}

/// What a stream does instead of going on.
pub(crate) enum Hold {
    /// So long, from when it is at the head.
    For(Duration, Option<Instant>),
    WhileStopped,
}

impl Hold {
    pub(crate) fn poll(&mut self, stream: &'static Stream) -> Step {
        let over = match self {
            Self::For(length, since) => since.get_or_insert_with(Instant::now).elapsed() >= *length,
            Self::WhileStopped => !of(stream.device()).stopped,
        };
        if over { Step::Done(Ok(())) } else { Step::Park }
    }

    pub(crate) fn describe(&self) -> String {
        match self {
            Self::For(length, _) => format!("delay of {length:?} that its device was told to have"),
            Self::WhileStopped => "nothing: its device was told to stop".into(),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_from_words() {
        let delay = Kind::Delay(Duration::from_millis(20));
        let wanted = |device, kind, number| Wanted { device, kind, number };
        let read = parse(" delay 0 by 20 at 4, stop 1 at 3,leave 2,wrong-count 0 , ", 3).unwrap();
        let expected = [
            wanted(0, delay, 4),
            wanted(1, Kind::Stop, 3),
            wanted(2, Kind::Leave, 0),
            wanted(0, Kind::WrongCount, 0),
        ];
        assert_eq!(read, expected);
        let read = parse("out-of-memory 1 at 2, link-timeout 1", 2).unwrap();
        assert_eq!(read, [wanted(1, Kind::OutOfMemory, 2), wanted(1, Kind::LinkTimeout, 0)]);
        for (text, why) in [
            ("burn 1", "one of delay, stop"),
            ("stop", "a device behind it"),
            ("stop one", "not \"one\""),
            ("stop 2", "there are 2 devices"),
            ("stop 1 by 3", "\"by\" means nothing"),
            ("stop 1 at", "an operation"),
            ("delay 1 by x", "milliseconds"),
        ] {
            let error = parse(text, 2).unwrap_err();
            assert!(error.contains(text) && error.contains(why), "{error}");
        }
    }
}
