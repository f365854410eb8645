//! The data of a store and its answers to clients, without sockets.
//!
//! Terms. A *client* is a connection of a rank that has said hello. A *generation* is a set of
//! ranks that work together: at first all ranks of the job, later the remaining ones and newcomers.
//! A rank is *done* when its client has said [`Request::Bye`] without an earlier
//! [`Request::Fails`], unless the launcher reports later that its process has failed. A rank is
//! *gone* when its client has left in another way, or when the launcher reports its end.
//!
//! Rules:
//! 1. A client waits for at most one thing, and gets at most one answer to a request.
//! 2. The first generation forms when all ranks of the job wait for it. If one of them is gone or
//!    done, the generation never forms, and the waiting ranks get an error. But a *forgiving* store
//!    forms it without the ranks that are gone.
//! 3. A later generation forms when every member of the one before waits for it, is gone or is
//!    done. Its members are those that wait, in their order, then the newcomers that wait, by rank.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{MAX_KEY, MAX_STORED, MAX_VALUE, have};
use crate::message::{Answer, Request, tamed};
use crate::report::Report;

/// The data of a store. The [module](self) states its rules.
pub(crate) struct Hall {
    world_size: u32,
    secret: String,
    is_forgiving: bool,
    clients: BTreeMap<u64, Client>,
    /// The last known state of each rank that has come or is gone.
    ranks: BTreeMap<u32, Fate>,
    values: BTreeMap<String, Value>,
    counters: BTreeMap<String, i64>,
    stored: usize,
    /// The number of the current generation, or 0 before the first has formed.
    generation: u32,
    /// The ranks of the current generation, each with its client.
    members: Vec<(u32, u64)>,
    /// The ranks that have come to the meeting of the next generation. Some may have stopped
    /// waiting.
    came: BTreeSet<u32>,
    /// The members that are done, by rank.
    done: BTreeSet<u32>,
    /// The reports, in the order in which they came. `StoreServer::reports` reads them.
    reports: Arc<Mutex<Vec<Report>>>,
}

struct Client {
    rank: u32,
    process: u32,
    /// Whether it has reported a failure.
    has_failed: bool,
    waits: Option<Wait>,
}

struct Wait {
    what: Awaited,
    until: Instant,
}

enum Awaited {
    Value { key: String, from: Option<u32> },
    Generation,
}

struct Value {
    bytes: Vec<u8>,
    /// The number of reads that are left, or `None` if the value stays.
    reads: Option<u32>,
}

#[derive(Clone, PartialEq, Eq)]
enum Fate {
    Here,
    /// The client has reported that it is done.
    Done,
    Gone(String),
}

/// Answers to send, each with its client.
pub(crate) type Answers = Vec<(u64, Answer)>;

impl Hall {
    pub(crate) fn new(world_size: u32, secret: String, is_forgiving: bool) -> Hall {
        Hall {
            world_size,
            secret,
            is_forgiving,
            clients: BTreeMap::new(),
            ranks: BTreeMap::new(),
            values: BTreeMap::new(),
            counters: BTreeMap::new(),
            stored: 0,
            generation: 0,
            members: Vec::new(),
            came: BTreeSet::new(),
            done: BTreeSet::new(),
            reports: Arc::default(),
        }
    }

    /// Returns the failures that ranks have reported.
    pub(crate) fn reports(&self) -> Arc<Mutex<Vec<Report>>> {
        Arc::clone(&self.reports)
    }

    pub(crate) fn has_clients(&self) -> bool {
        !self.clients.is_empty()
    }

    /// Returns the earliest time limit of all waits.
    pub(crate) fn next_limit(&self) -> Option<Instant> {
        self.clients.values().filter_map(|client| Some(client.waits.as_ref()?.until)).min()
    }

    /// Handles the first request of a connection. Returns the reason as the error if the store
    /// refuses the connection.
    pub(crate) fn hello(&mut self, id: u64, request: Request) -> Result<(), String> {
        let Request::Hello { secret, rank, world_size, process } = request else {
            return Err("its first message is not a hello: use one version of hccl".into());
        };
        if secret != self.secret {
            return Err("its secret is not that of this job: give all ranks of a job the same \
                        HCCL_JOB_SECRET, and each job its own MASTER_PORT"
                .into());
        }
        if world_size != self.world_size || rank >= world_size {
            let own = self.world_size;
            return Err(format!(
                "it is rank {rank} of {world_size}, and this job has {own} ranks: give all ranks \
                 of the job the same number of ranks"
            ));
        }
        if let Some((_, client)) = self.clients.iter().find(|(_, client)| client.rank == rank) {
            let (rank, first) = (client.rank, client.process);
            return Err(match first == process {
                true => format!(
                    "process {process} is rank {rank} of this job already, and a process joins \
                     its job once: use the store that it has joined"
                ),
                false => format!(
                    "there is a rank {rank} already, process {first}, and this is process \
                     {process}: give each process its own rank"
                ),
            });
        }
        self.ranks.insert(rank, Fate::Here);
        self.clients.insert(id, Client { rank, process, has_failed: false, waits: None });
        Ok(())
    }

    /// Handles a request of a client, and returns the answers that are possible then.
    pub(crate) fn hear(&mut self, id: u64, request: Request, now: Instant) -> Answers {
        let Some(client) = self.clients.get_mut(&id) else { return Vec::new() };
        if client.waits.is_some() {
            // A client waits for at most one thing (rule 1).
            let why = "it has sent a request before the answer to its last request: send one \
                       request at a time"
                .into();
            return vec![(id, Answer::Refused { why })];
        }
        let rank = client.rank;
        let answer = match request {
            Request::Hello { .. } => Answer::Refused { why: "it has said hello twice".into() },
            Request::Set { key, value, reads } => self.set(key, value, reads),
            Request::Add { key, by } => self.add(key, by),
            Request::Waiting => Answer::Waiting(self.newcomers().len() as u32),
            Request::Fails { text, follows } => {
                client.has_failed = true;
                self.report(Report { rank, text: tamed(&text), follows })
            }
            Request::Bye => {
                let fate = match client.has_failed {
                    true => Fate::Gone("it has failed".into()),
                    false => Fate::Done,
                };
                if fate == Fate::Done && self.members.contains(&(rank, id)) {
                    self.done.insert(rank);
                }
                self.clients.remove(&id);
                self.ranks.insert(rank, fate);
                return self.settle(now);
            }
            Request::Get { key, from, wait_ms } => {
                let until = after(now, wait_ms);
                client.waits = Some(Wait { what: Awaited::Value { key, from }, until });
                return self.settle(now);
            }
            Request::Join { wait_ms } => {
                client.waits = Some(Wait { what: Awaited::Generation, until: after(now, wait_ms) });
                self.came.insert(rank);
                return self.settle(now);
            }
        };
        let mut answers = vec![(id, answer)];
        answers.extend(self.settle(now));
        answers
    }

    /// Records that a connection has ended, and returns the answers that are possible then.
    pub(crate) fn hang_up(&mut self, id: u64, now: Instant) -> Answers {
        let Some(client) = self.clients.remove(&id) else { return Vec::new() };
        let why = "its process has ended, or has left the store";
        self.ranks.insert(client.rank, Fate::Gone(why.into()));
        self.settle(now)
    }

    /// Records that a rank has ended, as the launcher reports, and returns the answers that are
    /// possible then. With `failed`, the rank is not done, even if it has left in order.
    pub(crate) fn gone(&mut self, rank: u32, why: String, failed: bool, now: Instant) -> Answers {
        let theirs: Vec<u64> = self
            .clients
            .iter()
            .filter(|(_, client)| client.rank == rank)
            .map(|(id, _)| *id)
            .collect();
        for id in theirs {
            self.clients.remove(&id);
        }
        if failed {
            self.done.remove(&rank);
        }
        if failed || self.ranks.get(&rank) != Some(&Fate::Done) {
            self.ranks.insert(rank, Fate::Gone(why));
        }
        self.settle(now)
    }

    fn set(&mut self, key: String, value: Vec<u8>, reads: u32) -> Answer {
        if key.len() > MAX_KEY || value.len() > MAX_VALUE {
            return Answer::Refused { why: "its key or its value is too long: shorten it".into() };
        }
        let before = self.values.get(&key).map_or(0, |value| key.len() + value.bytes.len());
        let stored = self.stored - before + key.len() + value.len();
        if stored > MAX_STORED {
            return Answer::Full { bytes: stored as u64 };
        }
        self.stored = stored;
        self.values.insert(key, Value { bytes: value, reads: Some(reads).filter(|n| *n > 0) });
        Answer::Done
    }

    fn add(&mut self, key: String, by: i64) -> Answer {
        if key.len() > MAX_KEY {
            return Answer::Refused { why: "its key is too long: use at most 256 bytes".into() };
        }
        if !self.counters.contains_key(&key) {
            let stored = self.stored + key.len() + size_of::<i64>();
            if stored > MAX_STORED {
                return Answer::Full { bytes: stored as u64 };
            }
            self.stored = stored;
        }
        let sum = self.counters.entry(key).or_default();
        *sum = sum.wrapping_add(by);
        Answer::Sum(*sum)
    }

    /// Stores a report of a failure. It counts against the limit of the store, as values do.
    fn report(&mut self, report: Report) -> Answer {
        let stored = self.stored + size_of::<Report>() + report.text.len();
        if stored > MAX_STORED {
            return Answer::Full { bytes: stored as u64 };
        }
        self.stored = stored;
        self.reports.lock().unwrap_or_else(PoisonError::into_inner).push(report);
        Answer::Done
    }

    /// Returns the clients that wait for the next generation, by rank.
    fn joining(&self) -> BTreeMap<u32, u64> {
        let waits =
            |client: &Client| matches!(client.waits, Some(Wait { what: Awaited::Generation, .. }));
        let joining = self.clients.iter().filter(|(_, client)| waits(client));
        joining.map(|(id, client)| (client.rank, *id)).collect()
    }

    /// Returns the clients that wait for the next generation and are not in the current generation,
    /// by rank.
    fn newcomers(&self) -> BTreeMap<u32, u64> {
        let mut joining = self.joining();
        joining.retain(|rank, id| !self.members.contains(&(*rank, *id)));
        joining
    }

    /// Returns the members of the current generation that are neither gone nor done.
    fn remaining(&self) -> Vec<(u32, u64)> {
        self.members.iter().copied().filter(|(_, id)| self.clients.contains_key(id)).collect()
    }

    fn is_gone(&self, rank: u32) -> bool {
        matches!(self.ranks.get(&rank), Some(Fate::Gone(_)))
    }

    /// Returns whether all members have left and at least one of them was done.
    fn is_over(&self) -> bool {
        !self.done.is_empty() && self.remaining().is_empty()
    }

    /// Returns the members of the next generation, if it can form now (rules 2 and 3).
    fn next_members(&self) -> Option<Vec<(u32, u64)>> {
        let joining = self.joining();
        if joining.is_empty() || self.is_over() {
            return None;
        }
        if self.expected().iter().any(|rank| !joining.contains_key(rank)) {
            return None;
        }
        let mut next = self.remaining();
        next.extend(self.newcomers());
        Some(next)
    }

    /// Returns the ranks without which the next generation does not form.
    fn expected(&self) -> Vec<u32> {
        match self.generation {
            0 => {
                let is_left_out = |rank: u32| self.is_forgiving && self.is_gone(rank);
                (0..self.world_size).filter(|rank| !is_left_out(*rank)).collect()
            }
            _ => self.remaining().into_iter().map(|(rank, _)| rank).collect(),
        }
    }

    /// Returns the rank because of which an awaited value or generation cannot come, and the
    /// reason.
    fn hindrance(&self, what: &Awaited) -> Option<(u32, String)> {
        let fate = |rank: u32| match self.ranks.get(&rank)? {
            Fate::Gone(why) => Some((rank, why.clone())),
            Fate::Done => Some((rank, "it is done".into())),
            Fate::Here => None,
        };
        match what {
            Awaited::Value { from, .. } => fate((*from)?),
            Awaited::Generation if self.generation == 0 => {
                let (rank, why) = self.expected().into_iter().find_map(fate)?;
                match (self.ranks.get(&rank), &self.missing()[..]) {
                    // Nothing is done yet. It left because its own wait was over.
                    (Some(Fate::Done), missing @ [_, ..]) => {
                        Some((rank, format!("it waits no longer: {} not come", have(missing))))
                    }
                    _ => Some((rank, why)),
                }
            }
            Awaited::Generation => {
                let (first, _) = *self.members.first()?;
                self.is_over()
                    .then(|| (first, "the job is done, and a process takes part once".into()))
            }
        }
    }

    /// Returns all answers that are possible now.
    pub(crate) fn settle(&mut self, now: Instant) -> Answers {
        let mut answers = Vec::new();
        if let Some(members) = self.next_members() {
            self.generation += 1;
            let ranks: Vec<u32> = members.iter().map(|(rank, _)| *rank).collect();
            self.members = members;
            self.done.clear();
            self.came.clear();
            for (id, client) in &mut self.clients {
                if matches!(client.waits, Some(Wait { what: Awaited::Generation, .. })) {
                    client.waits = None;
                    let number = self.generation;
                    answers.push((*id, Answer::Formed { number, members: ranks.clone() }));
                }
            }
        }
        let ids: Vec<u64> = self.clients.keys().copied().collect();
        for id in ids {
            if let Some(answer) = self.look(id, now) {
                answers.push((id, answer));
            }
        }
        answers
    }

    /// Returns the answer to the wait of a client, if it is possible now.
    fn look(&mut self, id: u64, now: Instant) -> Option<Answer> {
        let client = self.clients.get(&id)?;
        let (rank_of_client, wait) = (client.rank, client.waits.as_ref()?);
        let answer = match &wait.what {
            Awaited::Value { key, .. } if self.values.contains_key(key) => {
                let key = key.clone();
                Answer::Value(self.read(&key))
            }
            what => match self.hindrance(what) {
                Some((rank, why)) => {
                    if matches!(what, Awaited::Generation) && self.generation > 0 {
                        // The rank came too late to take part, which is not a failure of the job.
                        let text = why.clone();
                        self.report(Report { rank: rank_of_client, text, follows: true });
                    }
                    Answer::Gone { rank, why }
                }
                None if now >= wait.until => Answer::Late { missing: self.late(what) },
                None => return None,
            },
        };
        self.clients.get_mut(&id)?.waits = None;
        Some(answer)
    }

    fn read(&mut self, key: &str) -> Vec<u8> {
        let Some(value) = self.values.get_mut(key) else { return Vec::new() };
        let Some(reads) = &mut value.reads else { return value.bytes.clone() };
        *reads -= 1;
        if *reads > 0 {
            return value.bytes.clone();
        }
        let bytes = self.values.remove(key).map_or_else(Vec::new, |value| value.bytes);
        self.stored -= key.len() + bytes.len();
        bytes
    }

    /// Returns the number of stored bytes twice: as the hall keeps it, and counted anew.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn recount(&self) -> (usize, usize) {
        let values = self.values.iter().map(|(key, value)| key.len() + value.bytes.len());
        let counters = self.counters.keys().map(|key| key.len() + size_of::<i64>());
        let reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        let reports = reports.iter().map(|report| size_of::<Report>() + report.text.len());
        (self.stored, values.chain(counters).chain(reports).sum())
    }

    /// Returns the ranks that an awaited generation lacks, or those that have never come, if a
    /// value is awaited.
    fn late(&self, what: &Awaited) -> Vec<u32> {
        match what {
            Awaited::Value { .. } => self.missing(),
            Awaited::Generation => {
                let expected = self.expected().into_iter();
                expected.filter(|rank| !self.came.contains(rank)).collect()
            }
        }
    }

    /// Returns the ranks that have never come.
    fn missing(&self) -> Vec<u32> {
        (0..self.world_size).filter(|rank| !self.ranks.contains_key(rank)).collect()
    }
}

fn after(now: Instant, wait_ms: u64) -> Instant {
    // A limit of one day is as good as none, and adding it cannot overflow.
    now + Duration::from_millis(wait_ms).min(Duration::from_secs(24 * 3600))
}

#[cfg(test)]
mod tests;
