//! Fuzz targets, which send arbitrary bytes to a store and to a client of a store.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::time::Duration;

use crate::address::Connection;
use crate::client::{Reach, Store, greet};
use crate::error::JobError;
use crate::hall::Hall;
use crate::message::{Answer, MAX_TEXT, PREAMBLE, Request, receive};
use crate::server::{Desk, Event, read};

/// The secret of the job.
const SECRET: &str = "secret";
/// The longest error text, in bytes.
const LONGEST_TEXT: usize = 4 * MAX_TEXT + 512;

fn hello(rank: u32) -> Request {
    Request::Hello { secret: SECRET.into(), rank, world_size: 3, process: 7 }
}

/// Returns a connection on which the other side has sent these bytes and sends no more, and the
/// socket of the other side.
fn sent(bytes: &[u8]) -> (Connection, UnixStream) {
    let (ours, mut theirs) = UnixStream::pair().expect("a pair of sockets");
    theirs.write_all(bytes).expect("room for the bytes");
    theirs.shutdown(Shutdown::Write).expect("it was open");
    (Connection::Local(ours), theirs)
}

/// Sends these bytes to a store as a client does. Asserts that the store sends whole messages, and
/// at most one answer for each request. Also asserts that the store counts its stored bytes
/// correctly, and that it still serves another client.
pub fn store_server(bytes: &[u8]) {
    let (events, heard) = mpsc::channel();
    let mut desk = Desk::new(Hall::new(3, SECRET.into(), bytes.len().is_multiple_of(2)), heard);
    let (own, mut honest) = UnixStream::pair().expect("a pair of sockets");
    let (connection, from) = (Connection::Local(own), String::from("an honest client"));
    desk.hear(Event::Came { id: 1, connection, hello: hello(1), from });
    let mut answer = |desk: &mut Desk, request: Option<Request>| {
        request.into_iter().for_each(|request| desk.hear(Event::Asked(1, request)));
        receive::<Answer>(&mut honest).expect("a message").expect("an answer")
    };
    assert!(matches!(answer(&mut desk, None), Answer::Done));

    let (connection, mut theirs) = sent(bytes);
    theirs.set_nonblocking(true).expect("a socket");
    read(2, connection, "a stranger".into(), &events, || ());
    let (mut requests, mut answers) = (0, Vec::new());
    while let Ok(event) = desk.heard.try_recv() {
        requests += usize::from(matches!(event, Event::Came { .. } | Event::Asked(..)));
        desk.hear(event);
        // This fails if the store has closed the connection or has sent nothing more.
        let _ = theirs.read_to_end(&mut answers);
        let (stored, found) = desk.hall.recount();
        assert_eq!(stored, found, "the bytes that are stored");
    }
    let mut answers = &answers[..];
    if !answers.is_empty() {
        let (preamble, rest) = answers.split_at(PREAMBLE.len());
        assert_eq!(preamble, PREAMBLE);
        answers = rest;
    }
    let mut count = 0;
    while let Some(_answer) = receive::<Answer>(&mut answers).expect("a whole message") {
        count += 1;
    }
    assert!(count <= requests, "{count} answers to {requests} requests");

    let set = Request::Set { key: "honest".into(), value: b"value".into(), reads: 0 };
    assert!(matches!(answer(&mut desk, Some(set)), Answer::Done));
    let get = Request::Get { key: "honest".into(), from: None, wait_ms: 0 };
    assert!(matches!(answer(&mut desk, Some(get)), Answer::Value(value) if value == b"value"));
}

/// Sends these bytes to a client as its store does. Asserts that each call returns, that each error
/// text has a limited length, and that every call reports a lost store once the store is lost.
pub fn store_client(bytes: &[u8]) {
    let (connection, _theirs) = sent(bytes);
    let limit = Duration::from_secs(10);
    let connection = match greet(connection, &hello(1), limit) {
        Ok(connection) => connection,
        Err(Reach::Refused(why)) => return assert!(why.len() <= LONGEST_TEXT),
        Err(Reach::Failed(_)) => return,
    };
    let mut store = Store::over(connection, "here".into(), 1, None);
    let mut is_lost = false;
    let mut look = |error: Option<JobError>| {
        let text = error.as_ref().map_or(0, |error| error.to_string().len());
        assert!(text <= LONGEST_TEXT, "an error of {text} bytes");
        let says_so = matches!(error, Some(JobError::Lost { .. }));
        assert!(says_so || !is_lost, "{error:?}, and the store was lost before");
        is_lost = says_so;
    };
    while !store.has_lost() {
        look(store.set("key", b"value").err());
        look(store.get("key", limit).err());
        look(store.get_from(0, "key", limit).err());
        look(store.add("count", 1).err());
        match store.next_generation(limit) {
            Ok(generation) => assert!(generation.members.contains(&1)),
            Err(error) => look(Some(error)),
        }
        look(store.newcomers().err());
        look(store.report_failure("text", false).err());
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_client_sends_anything() {
        seeded_inputs::check("store_server", 4000, store_server);
    }

    #[test]
    fn a_store_sends_anything() {
        seeded_inputs::check("store_client", 4000, store_client);
    }
}
