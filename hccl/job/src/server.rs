//! The server of a store, which consists of threads that read and one thread that answers.
//!
//! Each connection has a thread that reads its requests. All requests go to one thread, which owns
//! the [`Hall`] and writes the answers. That thread closes the connection of a client that does not
//! read its answers, so that this client does not hold up the other clients.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::address::{Address, Connection, Listener, NO_PORT};
use crate::error::JobError;
use crate::hall::{Answers, Hall};
use crate::message::{Answer, MAX_TEXT, PREAMBLE, Request, expect_preamble, receive, send};
use crate::report::Report;
use std::io::Write as _;

/// The time in which a connection has to say hello.
const HELLO: Duration = Duration::from_secs(10);

/// The time in which a client has to take an answer.
const TAKE: Duration = Duration::from_millis(500);

/// The largest number of connections that have not yet said hello.
const MOST_STRANGERS: usize = 256;

/// The largest number of lines about refused connections that the store prints.
const MOST_NOTES: usize = 64;

/// The server of a job's store. It ends when this handle is dropped and the last client has hung
/// up.
///
/// ```
/// use hccl_job::StoreServer;
///
/// // A launcher starts one process for each rank, with these variables.
/// let server = StoreServer::start(4, "a secret")?;
/// let port = server.port().to_string();
/// for rank in 0..4 {
///     let mut program = std::process::Command::new("./program");
///     program.envs([("RANK", rank.to_string()), ("WORLD_SIZE", "4".to_owned())]);
///     program.envs([("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", port.as_str())]);
///     program.envs([("HCCL_JOB_SECRET", "a secret"), ("HCCL_JOB_SERVED", "1")]);
///     // program.spawn()?;
/// }
/// # Ok::<(), hccl_job::JobError>(())
/// ```
pub struct StoreServer {
    events: Sender<Event>,
    port: u16,
    reports: Arc<Mutex<Vec<Report>>>,
}

pub(crate) enum Event {
    Came {
        id: u64,
        connection: Connection,
        hello: Request,
        from: String,
    },
    Asked(u64, Request),
    HungUp(u64),
    Gone(u32, String, bool),
    /// The [`StoreServer`] is dropped.
    Released,
}

impl StoreServer {
    /// Serves the store of `ranks` ranks on a free port of the loopback address. Does not block.
    ///
    /// # Errors
    ///
    /// [`JobError::NotServed`] when no port is free or a thread cannot be started.
    pub fn start(ranks: u32, secret: &str) -> Result<StoreServer, JobError> {
        StoreServer::on_loopback(Hall::new(ranks, secret.to_owned(), false))
    }

    /// Starts a store for a job that continues when ranks are gone. The remaining ranks form a new
    /// generation, and processes that replace the ranks that are gone join it. Does not block.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start).
    pub fn start_elastic(ranks: u32, secret: &str) -> Result<StoreServer, JobError> {
        StoreServer::on_loopback(Hall::new(ranks, secret.to_owned(), true))
    }

    fn on_loopback(hall: Hall) -> Result<StoreServer, JobError> {
        let refused = |error: std::io::Error| JobError::NotServed {
            place: "127.0.0.1".into(),
            why: error.to_string(),
        };
        let (listener, port) = Listener::on_loopback().map_err(refused)?;
        StoreServer::serve(listener, port, hall).map_err(refused)
    }

    /// Starts a store at the first of these addresses that is free.
    pub(crate) fn at(
        addresses: &[Address],
        ranks: u32,
        secret: &str,
    ) -> Result<StoreServer, JobError> {
        let mut last = None;
        for address in addresses {
            let hall = Hall::new(ranks, secret.to_owned(), false);
            let port = match address {
                Address::Tcp(_, port) => *port,
                Address::Local(_) => 0,
            };
            match address.listen().and_then(|listener| StoreServer::serve(listener, port, hall)) {
                Ok(server) => return Ok(server),
                Err(error) => last = Some((address, error)),
            }
        }
        let (place, why) = last.map_or_else(
            || ("any port".to_owned(), NO_PORT.to_owned()),
            |(address, error)| (address.to_string(), error.to_string()),
        );
        Err(JobError::NotServed { place, why })
    }

    fn serve(listener: Listener, port: u16, hall: Hall) -> std::io::Result<StoreServer> {
        let (events, heard) = mpsc::channel();
        let reports = hall.reports();
        let listener = Arc::new(listener);
        let acceptor = Acceptor {
            listener: Arc::clone(&listener),
            events: events.clone(),
            strangers: Arc::default(),
            is_over: Arc::default(),
        };
        let is_over = Arc::clone(&acceptor.is_over);
        let desk = Desk::new(hall, heard);
        named("hccl-store", move || {
            desk.work();
            is_over.store(true, Ordering::Release);
            listener.shut_down();
        })?;
        named("hccl-store-in", move || acceptor.work())?;
        Ok(StoreServer { events, port, reports })
    }

    /// Returns the TCP port, or 0 when the store is at a local socket.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Reports to the store that the process of a rank has ended, so that no rank waits for it any
    /// more. `why` is the reason that the errors of the other ranks give. With `failed`, the rank
    /// does not count as done, even if it has left the store in order.
    pub fn note_gone(&self, rank: u32, why: &str, failed: bool) {
        // The thread of the store receives events until this handle is dropped.
        let _ = self.events.send(Event::Gone(rank, why.to_owned(), failed));
    }

    /// Returns the failures that ranks have reported, in the order in which they came.
    pub fn reports(&self) -> Vec<Report> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for StoreServer {
    fn drop(&mut self) {
        let _ = self.events.send(Event::Released);
    }
}

fn named(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    thread::Builder::new().name(name.into()).spawn(work).map(drop)
}

/// The thread that takes connections.
struct Acceptor {
    listener: Arc<Listener>,
    events: Sender<Event>,
    strangers: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
}

impl Acceptor {
    fn work(self) {
        let mut next = 0;
        loop {
            let accepted = self.listener.accept();
            if self.is_over.load(Ordering::Acquire) {
                return;
            }
            let (connection, from) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    if error.kind() == std::io::ErrorKind::PermissionDenied {
                        eprintln!("hccl-job: the store has refused a connection: {error}");
                    }
                    // The process may have too many open files. The next try succeeds when some are
                    // closed.
                    thread::sleep(Duration::from_millis(10));
                    continue;
                }
            };
            next += 1;
            let (id, events, strangers) = (next, self.events.clone(), self.strangers.clone());
            if strangers.fetch_add(1, Ordering::Relaxed) >= MOST_STRANGERS {
                strangers.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let counted = Arc::clone(&strangers);
            let reads = named("hccl-store-from", move || {
                read(id, connection, from, &events, || {
                    counted.fetch_sub(1, Ordering::Relaxed);
                });
            });
            if reads.is_err() {
                strangers.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

/// Reads the requests of one connection until it ends. Calls `known` when the connection has said
/// hello, or has failed to do so.
pub(crate) fn read(
    id: u64,
    mut connection: Connection,
    from: String,
    events: &Sender<Event>,
    known: impl FnOnce(),
) {
    let hello = (|| {
        connection.set_read_limit(Some(HELLO))?;
        connection.set_write_limit(TAKE)?;
        expect_preamble(&mut connection)?;
        connection.write_all(PREAMBLE)?;
        let hello = receive::<Request>(&mut connection)?;
        connection.set_read_limit(None)?;
        Ok::<_, std::io::Error>((hello, connection.try_clone()?))
    })();
    known();
    // A connection that sends nothing or garbage is dropped, which closes it.
    let Ok((Some(hello), own)) = hello else { return };
    if events.send(Event::Came { id, connection: own, hello, from }).is_err() {
        return;
    }
    while let Ok(Some(request)) = receive::<Request>(&mut connection) {
        if events.send(Event::Asked(id, request)).is_err() {
            return;
        }
    }
    // This fails only if the thread that answers has ended.
    let _ = events.send(Event::HungUp(id));
}

/// The thread that answers.
pub(crate) struct Desk {
    pub(crate) hall: Hall,
    connections: BTreeMap<u64, Connection>,
    pub(crate) heard: Receiver<Event>,
    notes: usize,
}

impl Desk {
    pub(crate) fn new(hall: Hall, heard: Receiver<Event>) -> Desk {
        Desk { hall, connections: BTreeMap::new(), heard, notes: 0 }
    }

    fn work(mut self) {
        let mut is_released = false;
        while !is_released || self.hall.has_clients() {
            let limit = self.hall.next_limit();
            let event = match limit {
                None => self.heard.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(limit) => {
                    self.heard.recv_timeout(limit.saturating_duration_since(Instant::now()))
                }
            };
            match event {
                Ok(Event::Released) => is_released = true,
                Ok(event) => self.hear(event),
                Err(RecvTimeoutError::Timeout) => {
                    let answers = self.hall.settle(Instant::now());
                    self.answer(answers);
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        self.connections.values().for_each(Connection::hang_up);
    }

    /// Handles an event, and sends all answers that are possible after it.
    pub(crate) fn hear(&mut self, event: Event) {
        let now = Instant::now();
        let answers = match event {
            Event::Came { id, connection, hello, from } => {
                self.welcome(id, connection, hello, &from);
                self.hall.settle(now)
            }
            Event::Asked(id, request) => self.hall.hear(id, request, now),
            Event::HungUp(id) => {
                self.connections.remove(&id);
                self.hall.hang_up(id, now)
            }
            Event::Gone(rank, why, failed) => self.hall.gone(rank, why, failed, now),
            Event::Released => Vec::new(),
        };
        self.answer(answers);
    }

    fn welcome(&mut self, id: u64, mut connection: Connection, hello: Request, from: &str) {
        match self.hall.hello(id, hello) {
            Ok(()) => {
                if send(&mut connection, &Answer::Done).is_ok() {
                    self.connections.insert(id, connection);
                }
            }
            Err(why) => {
                self.note(&format!("{from} was refused: {why}"));
                // The client may have closed the connection.
                let _ = send(&mut connection, &Answer::Refused { why });
                connection.hang_up();
            }
        }
    }

    fn note(&mut self, text: &str) {
        self.notes += 1;
        if self.notes <= MOST_NOTES {
            let text: String = text.chars().take(MAX_TEXT).collect();
            eprintln!("hccl-job: the store of this job: {text}");
        }
    }

    fn answer(&mut self, answers: Answers) {
        for (id, answer) in answers {
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            let is_refused = matches!(answer, Answer::Refused { .. });
            // The thread that reads this connection then sees its end and sends `Event::HungUp`.
            if send(connection, &answer).is_err() || is_refused {
                connection.hang_up();
            }
        }
    }
}
