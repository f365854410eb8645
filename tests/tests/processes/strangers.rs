//! A client that connects to the address of a process and is no rank gets a refusal. The ranks are
//! served as before.

use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::process::Child;
use std::time::{Duration, Instant};

use crate::ranks::{Place, is_rank, ranks_of, root_maker};

const NAME: &str = "strangers::strangers_are_sent_away_and_ranks_are_served";

/// Returns a word of a root info: see `root_info.rs` of the emulator.
fn word(root: &str, at: usize) -> u64 {
    let byte = |at: usize| u8::from_str_radix(&root[2 * at..2 * at + 2], 16).unwrap();
    u64::from_le_bytes(std::array::from_fn(|n| byte(64 + 8 * at + n)))
}

fn connect(root: &str) -> UnixStream {
    let name = format!("ascend-emulator-{}-{:016x}", word(root, 1), word(root, 3));
    let stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

fn frame(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

fn hello(layout: u64, secret: u64) -> Vec<u8> {
    frame(&format!(
        r#"{{"layout":{layout},"version":"0.0.0","secret":{secret},"home":{{"process":1,"name":2,"secret":3}},"data":0,"bytes":0,"device_bytes":0}}"#
    ))
}

/// Returns the answer of the process before it ends the connection.
fn answer(root: &str, said: &[u8]) -> String {
    let mut stream = connect(root);
    stream.write_all(said).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn open_files(process: &Child) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", process.id())).unwrap().count()
}

#[test]
fn strangers_are_sent_away_and_ranks_are_served() {
    let body = |place: Place| {
        let stream = place.device.stream().unwrap();
        place.communicator().barrier(&stream).unwrap().wait().unwrap();
    };
    if is_rank(body) {
        std::process::exit(0);
    }
    let (mut maker, root) = root_maker(NAME);
    let before = open_files(&maker);
    let secret = word(&root, 4);
    assert!(answer(&root, &u64::MAX.to_le_bytes()).is_empty());
    let refused = answer(&root, &frame("what is this"));
    assert!(refused.contains("is not from an emulator"), "{refused}");
    let refused = answer(&root, &hello(0, secret ^ 1));
    assert!(refused.contains("does not know the secret"), "{refused}");
    let refused = answer(&root, &hello(u64::MAX, secret));
    assert!(refused.contains("version 0.0.0"), "{refused}");
    // Some clients send nothing or only a part of a message, and stay.
    let stay: Vec<UnixStream> = (0..10).map(|_| connect(&root)).collect();
    (&stay[0]).write_all(&[7, 0, 0]).unwrap();
    for output in ranks_of(NAME, &root, 2) {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    drop(stay);
    let began = Instant::now();
    while open_files(&maker) > before && began.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(open_files(&maker), before, "a descriptor stays behind");
    maker.kill().unwrap();
    let output = maker.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    for piece in [
        "wanted to connect to this one, and was refused",
        "is not from an emulator",
        "secret",
        "version 0.0.0",
    ] {
        assert!(said.contains(piece), "{piece}: {said}");
    }
}
