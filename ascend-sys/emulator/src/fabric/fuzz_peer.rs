//! A fuzz target that acts as another process of the machine. It connects to this process with a
//! correct hello, then sends arbitrary frames.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::sync::{Arc, Mutex, Once, OnceLock};
use std::time::{Duration, Instant};

use super::between::{self, HEARS};
use super::config::CommConfig;
use super::gathering::{Applicant, Entered};
use super::root_info::decode;
use super::{formation, joint, root};
use crate::fuzz::some_block;
use crate::machine::{self, BlockRequest, Settings};
use crate::processes::line::send;
use crate::processes::listener::{self, as_bytes};
use crate::processes::peer::{Doorbell, Home, random};
use crate::processes::region::memory_file;
use ascend_sync::lock_std as lock;

/// The number of the root info that the other process has made.
const IMAGE: u64 = 7;
/// The size of a memory file that the other process sends, in bytes.
const WORDS: usize = 64 << 20;
/// The size of the other process's device memory, in bytes.
const POOL: usize = 1 << 20;
/// A time limit far longer than any step of the target takes.
const LIMIT: Duration = Duration::from_secs(60);

fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let request = BlockRequest { count: 2, ..some_block() };
        machine::create_block(&request).unwrap_or_else(|failure| panic!("{}", failure.text))
    })
}

/// A panic of the thread that handles frames from other processes. That thread goes on after a
/// panic, but a fuzz target must not.
static PANICKED: Mutex<Option<String>> = Mutex::new(None);

fn watch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |about| {
            if std::thread::current().name() == Some("ascend-fabric") {
                *lock(&PANICKED) = Some(about.to_string());
            }
            others(about);
        }));
    });
}

/// Another process: its socket to this process, and its address.
struct Other {
    stream: UnixStream,
    home: Home,
}

impl Other {
    /// Connects to this process.
    fn new(own: Home) -> Other {
        let name = format!("ascend-emulator-{}-{:016x}", own.process, own.name);
        let address = SocketAddr::from_abstract_name(name).expect("a name");
        let stream = UnixStream::connect_addr(&address).expect("this process listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a socket");
        let home = Home { process: own.process, name: random(), secret: random() };
        Other { stream, home }
    }

    /// Connects to this process and introduces itself with a correct hello.
    fn come(own: Home) -> Other {
        let mut other = Other::new(own);
        let hello = serde_json::json!({
            "layout": HEARS.layout, "version": "0", "secret": own.secret, "home": other.home, "data": 0x1000_0000, "bytes": POOL,
            "device_bytes": POOL,
        });
        other.say(&as_bytes(&hello), &files_of_hello(2));
        assert!(other.hear().is_some_and(|answer| answer.starts_with("{\"Welcome\"")));
        other
    }

    /// Sends a frame with descriptors. A frame to a process that has hung up is lost.
    fn say(&mut self, frame: &[u8], files: &[Arc<OwnedFd>]) {
        let head =
            [(frame.len() as u32).to_le_bytes(), (files.len() as u32).to_le_bytes()].concat();
        let bytes = [&head, frame].concat();
        let sent = send(&self.stream, &bytes, files).unwrap_or(bytes.len());
        let _ = self.stream.write_all(&bytes[sent..]);
    }

    /// Returns the next frame, without its descriptors; `None` if this process has hung up.
    fn hear(&mut self) -> Option<String> {
        let mut head = [0; 8];
        self.read(&mut head)?;
        let mut bytes = vec![0; u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize];
        self.read(&mut bytes)?;
        Some(String::from_utf8(bytes).expect("a text"))
    }

    fn read(&mut self, bytes: &mut [u8]) -> Option<()> {
        match self.stream.read_exact(bytes) {
            Ok(()) => Some(()),
            Err(e) if matches!(e.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => {
                None
            }
            Err(e) => panic!("this process does not answer: {e}"),
        }
    }

    /// Waits until this process has handled all frames: sends a question, and waits for the answer.
    /// Returns false if this process has hung up.
    fn is_heard(&mut self) -> bool {
        self.hears(&mut Vec::new())
    }

    /// Does the same as [`is_heard`](Self::is_heard), and collects the frames that arrive
    /// meanwhile.
    fn hears(&mut self, heard: &mut Vec<String>) -> bool {
        let key = random();
        self.say(format!("{{\"Comm\":{{\"comm\":{key},\"news\":\"Asks\"}}}}").as_bytes(), &[]);
        let answer = format!("{{\"Comm\":{{\"comm\":{key},\"news\":\"NotHere\"}}}}");
        loop {
            match self.hear() {
                Some(said) if said == answer => return true,
                Some(said) => heard.push(said),
                None => return false,
            }
        }
    }
}

/// Returns `count` descriptors for a frame: a memory file, then pipes.
fn files(count: usize) -> Vec<Arc<OwnedFd>> {
    let file = |at: usize| match at {
        0 => Arc::new(memory_file(WORDS).expect("a memory file")),
        _ => Arc::new(std::io::pipe().expect("a pipe").1.into()),
    };
    (0..count).map(file).collect()
}

/// Returns `count` descriptors of the kinds that a hello carries: an eventfd, then memory files.
fn files_of_hello(count: usize) -> Vec<Arc<OwnedFd>> {
    let file = |at: usize| match at {
        0 => Doorbell::new().expect("an eventfd").0,
        _ => Arc::new(memory_file(POOL).expect("a memory file")),
    };
    (0..count).map(file).collect()
}

/// Returns the number of descriptors and the text of a line. Replaces the names in the text by
/// their values.
fn read(line: &[u8], names: &[(&str, String)]) -> (usize, String) {
    let (count, text) = match line {
        [digit @ b'0'..=b'4', rest @ ..] => (usize::from(digit - b'0'), rest),
        rest => (0, rest),
    };
    let text = String::from_utf8_lossy(text).into_owned();
    (count, names.iter().fold(text, |text, (name, value)| text.replace(name, value)))
}

fn address(home: &Home) -> String {
    serde_json::to_string(home).expect("a text")
}

/// Acts as a process that connects to this one without a proper hello; see [`peer`]. This process
/// closes the connection.
fn stranger(lines: &[u8], own: Home) {
    let mut other = Other::new(own);
    let names = [
        ("$L", HEARS.layout.to_string()),
        ("$S", own.secret.to_string()),
        ("$H", address(&own)),
        ("$P", address(&other.home)),
        ("$B", POOL.to_string()),
    ];
    for line in lines.split(|byte| *byte == b'\n') {
        let (count, text) = read(line, &names);
        other.say(text.as_bytes(), &files_of_hello(count));
    }
    // This process may have hung up already.
    let _ = other.stream.shutdown(Shutdown::Write);
    while other.hear().is_some() {}
}

/// Sends the frames of another process to this process, one frame per line.
///
/// A line that begins with a digit from 0 to 4 is a frame with that number of descriptors. The
/// bytes after a leading `=` are sent as they are, without the head of a frame. Every other line is
/// a frame without descriptors. No frame may break the thread that handles it, or keep the ranks
/// waiting after the other process is gone.
///
/// Names in a line are replaced by values. `$R` is the number of a root info of this process, and
/// `$I` that of a root info of the other process. A rank of this process waits at each of the two.
/// `$C` is the key of the newest communicator. `$H` and `$P` are the addresses of this process and
/// of the other process. `$W` is the size of the memory file in bytes.
///
/// If the input begins with `!`, its lines are frames of a process that has not introduced itself.
/// Then `$L` is the layout and `$S` the secret of a correct hello, and `$B` is the size of the
/// device memory in bytes.
pub fn peer(bytes: &[u8]) {
    watch_panics();
    let info = root::create().unwrap_or_else(|failure| panic!("{}", failure.text));
    let (own, number) = decode(&info).expect("a root info");
    if let [b'!', lines @ ..] = bytes {
        stranger(lines, own);
        return is_well();
    }
    let mut other = Other::come(own);
    assert!(other.is_heard());
    let applicant = |rank: u32| {
        let (settings, config) = (*settings(), CommConfig::default());
        Applicant { rank, ranks: 2, device: settings.first + rank, settings, config, guest: None }
    };
    let image = between::image(&other.home, IMAGE, None, LIMIT).expect("it has come");
    let here = root::enter(&info, &applicant(0));
    let there = Entered::begin(Arc::clone(&image), "image".into(), &applicant(1), "fuzz");

    // After an incomplete frame, this process handles no further frame.
    let mut is_cut = false;
    for line in bytes.split(|byte| *byte == b'\n') {
        if let [b'=', raw @ ..] = line {
            let _ = other.stream.write_all(raw);
            is_cut = true;
            continue;
        }
        let names = [
            ("$R", number.to_string()),
            ("$I", IMAGE.to_string()),
            ("$C", joint::newest().unwrap_or_default().to_string()),
            ("$H", address(&own)),
            ("$P", address(&other.home)),
            ("$W", WORDS.to_string()),
        ];
        let (count, text) = read(line, &names);
        other.say(text.as_bytes(), &files(count));
        if !is_cut && ["Ready", "Formed", "Enter"].iter().any(|news| text.contains(news)) {
            if !other.is_heard() {
                break;
            }
            formation::advance(&image);
        }
    }
    let began = Instant::now();
    if !is_cut {
        other.is_heard();
    }
    let Other { stream, home } = other;
    drop(stream);
    while listener::find(&home).is_some() {
        assert!(began.elapsed() < LIMIT, "this process did not notice that the other is gone");
        std::thread::yield_now();
    }
    let left = root::leave(&info, 1, "it is over");
    drop((left, image));
    for entered in [here, there].into_iter().flatten() {
        match entered.wait() {
            Ok(comm) => drop(comm.missing(1)),
            Err(failure) => assert!(!failure.text.is_empty()),
        }
    }
    assert!(began.elapsed() < LIMIT, "ranks have waited {:?}", began.elapsed());
    is_well();
}

fn is_well() {
    if let Some(panic) = lock(&PANICKED).take() {
        panic!("the thread that handles frames has panicked: {panic}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sub-communicator takes memory for each of its ranks, so a request must not name more ranks
    /// than the parent has.
    #[test]
    fn a_sub_communicator_of_more_ranks_than_there_are_is_not_registered() {
        let info = root::create().unwrap_or_else(|failure| panic!("{}", failure.text));
        let (own, number) = decode(&info).unwrap();
        let mut other = Other::come(own);
        let config = CommConfig::default();
        let request = BlockRequest { count: 1, ..some_block() };
        let settings =
            machine::create_block(&request).unwrap_or_else(|failure| panic!("{}", failure.text));
        let applicant =
            Applicant { rank: 0, ranks: 2, device: settings.first, settings, config, guest: None };
        let here =
            root::enter(&info, &applicant).unwrap_or_else(|failure| panic!("{}", failure.text));
        let mut news = |text: String| other.say(text.as_bytes(), &[]);
        news(format!(
            "{{\"Root\":{{\"root\":{number},\"from_home\":false,\"news\":{{\"Enter\":{{\"rank\":1,\"ranks\":2,\"seat\":\
             {{\"card\":1,\"start\":0,\"bytes\":65536,\"checked\":false}},\"product\":\"A3\",\"connect_timeout\":{{\"secs\":20,\"nanos\":0}},\
             \"name\":\"\",\"buffer_megabytes\":200}}}}}}}}"
        ));
        news(format!("{{\"Root\":{{\"root\":{number},\"from_home\":false,\"news\":\"Ready\"}}}}"));
        assert!(other.is_heard());
        let comm = here.wait().unwrap_or_else(|failure| panic!("{}", failure.text));
        let key = comm.joint.as_ref().unwrap().key;
        let mut wants = |ranks: &str, turn: u32| {
            let wish = format!("{{\"name\":\"s\",\"ranks\":[{ranks}],\"buffer_megabytes\":1}}");
            let news = format!("{{\"WantsSub\":{{\"rank\":1,\"turn\":{turn},\"wish\":{wish}}}}}");
            other.say(format!("{{\"Comm\":{{\"comm\":{key},\"news\":{news}}}}}").as_bytes(), &[]);
            let mut answers = Vec::new();
            assert!(other.hears(&mut answers));
            answers.iter().filter(|answer| answer.contains("SubIs")).count()
        };
        assert_eq!(wants("1,0,1", 1), 0);
        assert_eq!(wants("1,2", 1), 0);
        assert_eq!(wants("1,0", 1), 1);
    }
}
