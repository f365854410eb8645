//! The parts of the device address range from which this process takes addresses.
//!
//! The range begins at the same address in every process, if the system allows it, and is divided
//! into *shares*. A process *claims* a share before it takes addresses of it. A claim is an
//! abstract socket with the name of the share. The kernel gives a name to one process only, and
//! releases the name when the process ends. A process that is forked from it, and does not call
//! exec, keeps the claim. So among the processes of a user in a network namespace, an address of
//! device memory belongs to one process. It is an error in every other process.
//!
//! If no share is left, or if the range begins elsewhere, a process *borrows*: it takes addresses
//! that another process may have too. This only affects whether the use of an address of another
//! process is an error.

use std::ops::Range;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

enum Share {
    /// This process does not have the share. Another process may have it.
    Other,
    /// This process has claimed the share: its name is bound as long as the socket is open.
    Claimed {
        _socket: UnixDatagram,
    },
    Borrowed,
}

pub(super) struct Shares {
    addresses: Range<usize>,
    /// The size of a share, in bytes. The last share may be smaller.
    bytes: usize,
    all: Vec<Share>,
    /// The beginning of the names of the sockets. `None` if the addresses cannot be compared with
    /// those of other processes.
    name: Option<String>,
}

impl Shares {
    pub(super) fn new(addresses: Range<usize>, bytes: usize, name: Option<String>) -> Self {
        let all = addresses.clone().step_by(bytes).map(|_| Share::Other).collect();
        Self { addresses, bytes, all, name }
    }

    /// Claims adjacent shares with at least `bytes` bytes, and returns their addresses. Without a
    /// name, borrows them.
    pub(super) fn claim(&mut self, bytes: usize) -> Option<Range<usize>> {
        let Some(name) = self.name.clone() else { return self.borrow(bytes) };
        self.take(bytes, |at| {
            let address = SocketAddr::from_abstract_name(format!("{name}-{at}")).ok()?;
            Some(Share::Claimed { _socket: UnixDatagram::bind_addr(&address).ok()? })
        })
    }

    /// Takes adjacent shares that another process may have claimed.
    pub(super) fn borrow(&mut self, bytes: usize) -> Option<Range<usize>> {
        self.take(bytes, |_| Some(Share::Borrowed))
    }

    fn take(&mut self, bytes: usize, get: impl Fn(usize) -> Option<Share>) -> Option<Range<usize>> {
        let Range { start, end } = self.addresses;
        let mut first = 0;
        while first * self.bytes + bytes <= end - start {
            let shares = first..first + bytes.div_ceil(self.bytes);
            let mut taken = Vec::new();
            // A run that fails drops the shares that it has taken.
            for at in shares.clone() {
                let is_other = matches!(self.all[at], Share::Other);
                taken.extend(is_other.then(|| get(at)).flatten());
                if taken.len() <= at - first {
                    break;
                }
            }
            if taken.len() == shares.len() {
                let begin = start + first * self.bytes;
                let until = (start + shares.end * self.bytes).min(end);
                self.all.splice(shares, taken);
                return Some(begin..until);
            }
            first += taken.len() + 1;
        }
        None
    }

    /// Returns the size of all shares together, in bytes.
    pub(super) fn total(&self) -> usize {
        self.addresses.len()
    }

    /// Returns whether the process has at least a quarter of all shares. If so, it reuses resting
    /// addresses first.
    pub(super) fn are_many(&self) -> bool {
        let had = self.all.iter().filter(|share| !matches!(share, Share::Other)).count();
        self.name.is_some() && had * 4 >= self.all.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: usize = 1 << 40;
    const BYTES: usize = 1 << 20;

    /// Returns the shares of a process. Processes with the same `test` are on the same machine.
    fn shares(test: &str, count: usize) -> Shares {
        let name = format!("ascend-emulator-test-{}-{test}", std::process::id());
        Shares::new(START..START + count * BYTES, BYTES, Some(name))
    }

    fn at(first: usize, count: usize) -> Option<Range<usize>> {
        Some(START + first * BYTES..START + (first + count) * BYTES)
    }

    #[test]
    #[cfg_attr(miri, ignore = "it binds sockets")]
    fn no_two_processes_claim_one_share() {
        let [mut one, mut other] = [shares("claim", 8), shares("claim", 8)];
        assert_eq!(one.claim(1), at(0, 1));
        assert_eq!(other.claim(BYTES + 1), at(1, 2));
        assert_eq!(one.claim(2 * BYTES), at(3, 2));
        assert_eq!(other.claim(4 * BYTES), None);
        assert_eq!(other.claim(3 * BYTES), at(5, 3), "what was not enough is free again");
        assert_eq!(one.claim(1), None);
        drop(other);
        assert_eq!(one.claim(3 * BYTES), at(5, 3), "the claims end with the process");
    }

    #[test]
    #[cfg_attr(miri, ignore = "it binds sockets")]
    fn a_process_borrows_what_it_has_not() {
        let [mut one, mut other] = [shares("borrow", 4), shares("borrow", 4)];
        assert_eq!(one.claim(4 * BYTES), at(0, 4));
        assert!(one.are_many() && one.borrow(1).is_none());
        assert_eq!(other.borrow(2 * BYTES), at(0, 2));
        assert_eq!(other.borrow(3 * BYTES), None);
        assert_eq!(other.borrow(2 * BYTES), at(2, 2));
    }

    #[test]
    fn without_a_name_shares_are_borrowed_and_the_last_one_may_be_smaller() {
        let mut all = Shares::new(START..START + 2 * BYTES + 5, BYTES, None);
        assert_eq!(all.claim(3 * BYTES), None);
        assert_eq!(all.claim(BYTES + 5), at(0, 2));
        assert!(!all.are_many());
        let mut small = Shares::new(START..START + 5, BYTES, None);
        assert_eq!(small.claim(6), None);
        assert_eq!(small.claim(5), Some(START..START + 5));
    }
}
