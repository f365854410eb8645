//! Two processes that exchange lines: the test, and the same test run again.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use ascend_emulator_testing::common::Block;
use ascend_emulator_testing::ok;

const ROLE: &str = "HCCL_TEST_IPC";
/// The prefix of each line from one process to the other, because the test harness prints too.
const MARK: &str = "ipc: ";

/// The other process, from the side of the test.
pub struct Other {
    pub child: Child,
    words: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Other {
    pub fn say(&mut self, words: &str) {
        writeln!(self.words, "{words}").unwrap();
    }

    /// Returns the next line of the other process.
    pub fn hear(&mut self) -> String {
        for line in self.lines.by_ref() {
            if let Some((_, words)) = line.unwrap().split_once(MARK) {
                return words.into();
            }
        }
        panic!("the other process has ended: {:?}", self.child.try_wait());
    }

    /// Sends a line, and returns the answer.
    pub fn ask(&mut self, words: &str) -> String {
        self.say(words);
        self.hear()
    }

    pub fn process(&self) -> i32 {
        self.child.id() as i32
    }

    /// Waits for the process, which must end successfully.
    pub fn end(mut self) {
        drop(self.words);
        for line in self.lines.by_ref() {
            line.unwrap();
        }
        assert!(self.child.wait().unwrap().success());
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// The other process's side of the exchange.
pub struct Talk(Lines<std::io::StdinLock<'static>>);

impl Talk {
    pub fn say(&self, words: impl std::fmt::Display) {
        println!("\n{MARK}{words}");
    }

    /// Returns the next line of the test, or `None` at the end of the test.
    pub fn hear(&mut self) -> Option<String> {
        self.0.next().map(Result::unwrap)
    }

    /// Returns the next line of a test that has not ended.
    pub fn next(&mut self) -> String {
        self.hear().unwrap()
    }
}

/// In the process of the test, starts the test again and returns that process. In that other
/// process, makes two devices and sets the first one, runs `other`, and returns `None`.
pub fn other(name: &str, other: impl FnOnce(&mut Talk)) -> Option<Other> {
    if std::env::var_os(ROLE).is_some() {
        let block = Block::new(2);
        ok!(aclrtSetDevice(block.first));
        other(&mut Talk(std::io::stdin().lines()));
        drop(block);
        return None;
    }
    Some(again(name))
}

/// Starts another process that runs the same test.
pub fn again(name: &str) -> Other {
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.args([name, "--exact", "--nocapture", "--test-threads=1"]).env(ROLE, "1");
    process.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = process.spawn().unwrap();
    let words = child.stdin.take().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    Other { child, words, lines }
}
