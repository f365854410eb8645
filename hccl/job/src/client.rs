//! The client of a store: the connection of one rank.

use std::io::Write as _;
use std::io::{self, ErrorKind};
use std::thread;
use std::time::{Duration, Instant};

use crate::address::{Address, Connection, NO_PORT};
use crate::env::{JobEnv, Meeting, StorePlace};
use crate::error::{JobError, MAX_KEY, MAX_STORED, MAX_VALUE};
use crate::message::{Answer, MAX_TEXT, PREAMBLE, Request, expect_preamble, receive, send, tamed};
use crate::server::StoreServer;
use crate::variables::RANK_TABLE_FILE;

/// The time limit of an answer to a request that waits for nothing.
const ANSWER: Duration = Duration::from_secs(20);

/// The time between two tries to reach the store.
const PAUSE: Duration = Duration::from_millis(20);

/// A rank's connection to the store of its job.
///
/// The store is a small server of keys and values. It records which ranks have come, which are done
/// and which are gone. A value has at most 64 KiB; for data, use a communicator. Calls block.
///
/// Dropping a `Store` reports that this rank is done, unless the rank has reported a failure. If
/// the thread panics, the drop reports a failure instead. Under `hcclrun` the server runs in
/// `hcclrun`. Otherwise it runs in the process of rank 0 and ends with that process.
///
/// ```
/// use std::time::Duration;
///
/// use hccl_job::{JobEnv, Store};
/// # use hccl_job::StoreServer;
/// # let server = StoreServer::start(1, "a secret")?;
/// # let variables = [
/// #     ("RANK", "0".to_owned()), ("WORLD_SIZE", "1".to_owned()), ("MASTER_ADDR", "127.0.0.1".to_owned()),
/// #     ("MASTER_PORT", server.port().to_string()), ("HCCL_JOB_SECRET", "a secret".to_owned()),
/// #     ("HCCL_JOB_SERVED", "1".to_owned()),
/// # ];
/// # let find = |name: &str| variables.iter().find(|it| it.0 == name).map(|it| it.1.clone().into());
/// # let env = JobEnv::from_variables(find)?.expect("RANK is set");
///
/// // `env` is `JobEnv::from_env()?` under a launcher.
/// let mut store = Store::join(&env, Duration::from_secs(10))?;
/// store.set("address", b"10.0.0.1:4711")?;
/// assert_eq!(store.get("address", Duration::from_secs(10))?, b"10.0.0.1:4711");
/// assert_eq!(store.add("counter", 2)?, 2);
/// # Ok::<(), hccl_job::JobError>(())
/// ```
pub struct Store {
    connection: Connection,
    place: String,
    rank: u32,
    /// The server of the store, if this process serves it.
    _server: Option<StoreServer>,
    is_lost: bool,
    /// Whether the rank has reported a failure. If so, dropping does not report that it is done.
    has_failed: bool,
}

/// A set of ranks that work together until the ranks regroup.
///
/// ```
/// use std::time::Duration;
///
/// use hccl_job::{Generation, JobEnv, Store};
/// # use hccl_job::StoreServer;
/// # let server = StoreServer::start(1, "a secret")?;
/// # let variables = [
/// #     ("RANK", "0".to_owned()), ("WORLD_SIZE", "1".to_owned()), ("MASTER_ADDR", "127.0.0.1".to_owned()),
/// #     ("MASTER_PORT", server.port().to_string()), ("HCCL_JOB_SECRET", "a secret".to_owned()),
/// #     ("HCCL_JOB_SERVED", "1".to_owned()),
/// # ];
/// # let find = |name: &str| variables.iter().find(|it| it.0 == name).map(|it| it.1.clone().into());
/// # let env = JobEnv::from_variables(find)?.expect("RANK is set");
///
/// let mut store = Store::join(&env, Duration::from_secs(10))?;
/// let generation: Generation = store.next_generation(Duration::from_secs(10))?;
/// assert_eq!((generation.number, generation.members), (1, vec![0]));
/// # Ok::<(), hccl_job::JobError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Generation {
    /// The number of the generation, from 1.
    pub number: u32,
    /// The ranks, by the numbers that the launcher gave them. The position of a number in this list
    /// is the rank in this generation.
    pub members: Vec<u32>,
}

impl Store {
    /// Connects to the store of this process's job. Rank 0 serves the store unless the launcher
    /// does.
    ///
    /// Blocks until the store can be reached, but does not wait for the other ranks.
    ///
    /// # Errors
    ///
    /// [`JobError::Unreachable`] when the store cannot be reached within `limit`. If the store may
    /// be at several ports, this is also the error when a store at one of them refuses this rank,
    /// because that store may be of another job. Otherwise [`JobError::Refused`] when the store has
    /// another secret or another number of ranks, or when this rank has already joined.
    /// [`JobError::NotServed`] when rank 0 cannot serve the store. [`JobError::Variable`] when the
    /// ranks meet by a rank table.
    pub fn join(env: &JobEnv, limit: Duration) -> Result<Store, JobError> {
        let place = match &env.meeting {
            Meeting::Store(place) => place,
            Meeting::RankTable(file) => {
                let rule = "a job whose ranks meet by a rank table has no store: to use a store, \
                            unset this variable, and set MASTER_ADDR and MASTER_PORT";
                let (name, value) = (RANK_TABLE_FILE, file.display().to_string());
                return Err(JobError::Variable { name, value, rule: rule.into() });
            }
        };
        let world_size = env.world_size;
        let serves = env.rank == 0 && !place.is_served;
        let server = match serves {
            true => Some(StoreServer::at(&place.addresses, world_size, &place.secret)?),
            false => None,
        };
        let hello = || Request::Hello {
            secret: place.secret.clone(),
            rank: env.rank,
            world_size,
            process: std::process::id(),
        };
        let began = Instant::now();
        let mut last = String::from(NO_PORT);
        loop {
            for address in &place.addresses {
                let left = limit.saturating_sub(began.elapsed()).max(Duration::from_millis(100));
                match reach(address, &hello(), left.min(Duration::from_secs(2))) {
                    Ok(connection) => {
                        return Ok(Store::over(connection, address.to_string(), env.rank, server));
                    }
                    Err(Reach::Refused(why)) if place.addresses.len() == 1 => {
                        let place = address.to_string();
                        return Err(JobError::Refused { rank: env.rank, place, why });
                    }
                    // This may be the store of another job, and that of this job may be at another
                    // port.
                    Err(Reach::Refused(why)) => last = format!("{address}: refused, since {why}"),
                    Err(Reach::Failed(error)) => last = format!("{address}: {error}"),
                }
            }
            if began.elapsed() >= limit {
                return Err(unreachable(env.rank, place, began.elapsed(), last));
            }
            thread::sleep(PAUSE);
        }
    }

    /// Makes a `Store` from a connection on which the rank has already said hello.
    pub(crate) fn over(
        connection: Connection,
        place: String,
        rank: u32,
        server: Option<StoreServer>,
    ) -> Store {
        Store { connection, place, rank, _server: server, is_lost: false, has_failed: false }
    }

    /// Stores a value under a key, and replaces an earlier value of that key. Does not wait for
    /// other ranks.
    ///
    /// # Errors
    ///
    /// [`JobError::TooLarge`] for a key of more than 256 bytes, for a value of more than 64 KiB,
    /// and when the store would hold more than 64 MiB. [`JobError::Lost`] when the store is gone.
    pub fn set(&mut self, key: &str, value: &[u8]) -> Result<(), JobError> {
        self.set_for(key, value, 0)
    }

    /// Stores a value as [`set`](Self::set) does, but the store drops it after `reads` reads. If
    /// `reads` is 0, the store keeps the value.
    ///
    /// # Errors
    ///
    /// As for [`set`](Self::set).
    pub fn set_for(&mut self, key: &str, value: &[u8], reads: u32) -> Result<(), JobError> {
        check("a key", key.len(), MAX_KEY)?;
        check("a value", value.len(), MAX_VALUE)?;
        let request = Request::Set { key: key.to_owned(), value: value.to_vec(), reads };
        match self.ask(&request, Duration::ZERO)? {
            Answer::Done => Ok(()),
            other => Err(self.odd(other)),
        }
    }

    /// Returns the value of a key. Blocks until the value is stored, for at most `limit`.
    ///
    /// # Errors
    ///
    /// [`JobError::Late`] when `limit` is over, with the ranks that have not come to the store.
    /// [`JobError::TooLarge`] for a key of more than 256 bytes. [`JobError::Lost`] when the store
    /// is gone.
    pub fn get(&mut self, key: &str, limit: Duration) -> Result<Vec<u8>, JobError> {
        self.get_of(key, None, limit)
    }

    /// Returns the value of a key that a certain rank stores, as [`get`](Self::get) does. Fails at
    /// once if the value is not stored and that rank is gone or done. `rank` is the number that the
    /// launcher gave to that rank.
    ///
    /// # Errors
    ///
    /// As for [`get`](Self::get), and [`JobError::Gone`] when the rank is gone or done.
    pub fn get_from(&mut self, rank: u32, key: &str, limit: Duration) -> Result<Vec<u8>, JobError> {
        self.get_of(key, Some(rank), limit)
    }

    fn get_of(
        &mut self,
        key: &str,
        from: Option<u32>,
        limit: Duration,
    ) -> Result<Vec<u8>, JobError> {
        check("a key", key.len(), MAX_KEY)?;
        let request = Request::Get { key: key.to_owned(), from, wait_ms: milliseconds(limit) };
        let what = || match from {
            Some(rank) => format!("storing \"{key}\" by rank {rank}"),
            None => format!("storing \"{key}\""),
        };
        match self.ask(&request, limit)? {
            Answer::Value(value) => Ok(value),
            Answer::Late { missing } => Err(JobError::Late { what: what(), after: limit, missing }),
            Answer::Gone { rank, why } => {
                Err(JobError::Gone { what: what(), rank, why: tamed(&why) })
            }
            other => Err(self.odd(other)),
        }
    }

    /// Adds `by` to a counter, which begins at 0, and returns the sum. Does not wait for other
    /// ranks.
    ///
    /// # Errors
    ///
    /// As for [`set`](Self::set).
    pub fn add(&mut self, key: &str, by: i64) -> Result<i64, JobError> {
        check("a key", key.len(), MAX_KEY)?;
        match self.ask(&Request::Add { key: key.to_owned(), by }, Duration::ZERO)? {
            Answer::Sum(sum) => Ok(sum),
            other => Err(self.odd(other)),
        }
    }

    /// Blocks until the next generation forms, for at most `limit`.
    ///
    /// The first generation forms when all ranks of the job have called this method. In an elastic
    /// job it forms without the ranks that are gone. A later generation forms when every member of
    /// the generation before has called this method, is gone or is done. Processes that wait and
    /// were not in that generation become members, too.
    ///
    /// # Errors
    ///
    /// [`JobError::Late`] when `limit` is over. [`JobError::Gone`] when the job is done, or when
    /// the first generation cannot form because a rank is gone or done. [`JobError::Lost`] when the
    /// store is gone.
    pub fn next_generation(&mut self, limit: Duration) -> Result<Generation, JobError> {
        let what = || String::from("the meeting of all ranks");
        match self.ask(&Request::Join { wait_ms: milliseconds(limit) }, limit)? {
            Answer::Formed { number, members } if members.contains(&self.rank) => {
                Ok(Generation { number, members })
            }
            Answer::Late { missing } => Err(JobError::Late { what: what(), after: limit, missing }),
            Answer::Gone { rank, why } => {
                Err(JobError::Gone { what: what(), rank, why: tamed(&why) })
            }
            other => Err(self.odd(other)),
        }
    }

    /// Returns the number of processes that wait for the next generation and are not in the current
    /// generation. Does not wait for other ranks.
    ///
    /// # Errors
    ///
    /// [`JobError::Lost`] when the store is gone.
    pub fn newcomers(&mut self) -> Result<u32, JobError> {
        match self.ask(&Request::Waiting, Duration::ZERO)? {
            Answer::Waiting(processes) => Ok(processes),
            other => Err(self.odd(other)),
        }
    }

    /// Reports to the store that this rank fails. `follows` means that it fails because another
    /// rank is gone. With these reports the server of the store can find which rank failed first,
    /// and why. The store gets only the first 1,024 characters of `text`. Does not wait for other
    /// ranks.
    ///
    /// # Errors
    ///
    /// [`JobError::TooLarge`] when the store would hold more than 64 MiB. [`JobError::Lost`] when
    /// the store is gone.
    pub fn report_failure(&mut self, text: &str, follows: bool) -> Result<(), JobError> {
        self.has_failed = true;
        let text = text.chars().take(MAX_TEXT / 4).collect();
        match self.ask(&Request::Fails { text, follows }, Duration::ZERO)? {
            Answer::Done => Ok(()),
            other => Err(self.odd(other)),
        }
    }

    /// Returns the number that the launcher gave to this rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Returns whether the store does not answer any more.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn has_lost(&self) -> bool {
        self.is_lost
    }

    /// Returns the address of the store, for messages.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Sends a request and receives its answer. `limit` is the time that the request may wait in
    /// the store.
    fn ask(&mut self, request: &Request, limit: Duration) -> Result<Answer, JobError> {
        if self.is_lost {
            return Err(JobError::Lost { why: "an earlier call has lost the connection".into() });
        }
        let answer = (|| {
            self.connection.set_read_limit(Some(limit.saturating_add(ANSWER)))?;
            send(&mut self.connection, request)?;
            receive::<Answer>(&mut self.connection)
        })();
        let why = match answer {
            Ok(Some(Answer::Refused { why })) => tamed(&why),
            Ok(Some(Answer::Full { bytes })) => {
                let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                return Err(JobError::TooLarge { what: "a total", bytes, most: MAX_STORED });
            }
            Ok(Some(answer)) => return Ok(answer),
            Ok(None) => "the process that serves the store has ended".into(),
            Err(error) if is_late(&error) => "no answer has come in time".into(),
            Err(error) => error.to_string(),
        };
        // The connection cannot be used again: a late answer would be taken for that of the next
        // request.
        self.is_lost = true;
        Err(JobError::Lost { why: format!("{why} ({})", self.place) })
    }

    fn odd(&mut self, answer: Answer) -> JobError {
        self.is_lost = true;
        JobError::Lost { why: format!("{} ({})", unexpected(&answer), self.place) }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // A lost store cannot receive a report, and a rank that has failed is not done.
        if self.is_lost || self.has_failed {
            return;
        }
        if std::thread::panicking() {
            let _ = self.report_failure("a thread of the rank has panicked", false);
        } else {
            let _ = send(&mut self.connection, &Request::Bye);
        }
    }
}

#[derive(Debug)]
pub(crate) enum Reach {
    Failed(io::Error),
    Refused(String),
}

impl From<io::Error> for Reach {
    fn from(error: io::Error) -> Self {
        Reach::Failed(error)
    }
}

fn reach(address: &Address, hello: &Request, limit: Duration) -> Result<Connection, Reach> {
    greet(address.connect(limit)?, hello, limit)
}

/// Says hello to the other end, and checks that the other end answers as a store does.
pub(crate) fn greet(
    mut connection: Connection,
    hello: &Request,
    limit: Duration,
) -> Result<Connection, Reach> {
    // The listener may be another program, which may never send anything.
    connection.set_read_limit(Some(limit))?;
    connection.set_write_limit(ANSWER)?;
    connection.write_all(PREAMBLE)?;
    expect_preamble(&mut connection)?;
    send(&mut connection, hello)?;
    match receive::<Answer>(&mut connection)? {
        Some(Answer::Done) => Ok(connection),
        Some(Answer::Refused { why }) => Err(Reach::Refused(tamed(&why))),
        Some(other) => Err(Reach::Refused(unexpected(&other))),
        None => Err(io::Error::new(ErrorKind::UnexpectedEof, "the other side has hung up").into()),
    }
}

/// Returns a text for an answer that does not fit its request. Long texts are cut.
fn unexpected(answer: &Answer) -> String {
    tamed(&format!(
        "the store has sent an answer that does not fit its request; use one version of hccl: \
         {answer:?}"
    ))
}

fn unreachable(rank: u32, place: &StorePlace, after: Duration, why: String) -> JobError {
    let host = match place.is_served {
        true => "The launcher serves it: see whether the launcher still runs",
        false if matches!(place.addresses[..], [Address::Local(_)]) => {
            "Rank 0 serves it from its own call on: see whether rank 0 has started, and whether \
             all ranks have one parent process, or the same HCCL_JOB_ID, and the same \
             HCCL_JOB_SECRET; or set MASTER_ADDR and MASTER_PORT on all ranks"
        }
        false => {
            "Rank 0 serves it from its own call on: see whether rank 0 has started, and whether \
             all ranks have the same MASTER_ADDR, MASTER_PORT, HCCL_JOB_ID and HCCL_JOB_SECRET"
        }
    };
    JobError::Unreachable { rank, place: place.to_string(), after, why, host }
}

fn check(what: &'static str, bytes: usize, most: usize) -> Result<(), JobError> {
    if bytes <= most { Ok(()) } else { Err(JobError::TooLarge { what, bytes, most }) }
}

fn milliseconds(limit: Duration) -> u64 {
    u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
