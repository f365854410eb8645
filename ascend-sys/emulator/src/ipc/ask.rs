//! Questions to an exporter: a thread sends a question and waits for the answer.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::key::ExportKind;
use super::news::{Granted, IpcNews, say};
use crate::processes::peer::{Home, Peer};
use ascend_sync::lock_std as lock;

/// The time limit for the answer of an exporter. Its listener answers without another thread.
pub(crate) const ANSWER: Duration = Duration::from_secs(10);
/// The interval at which a waiting thread checks whether the exporter still runs.
const LOOK: Duration = Duration::from_millis(200);

struct Question {
    to: Home,
    answer: Option<(Result<Granted, String>, Vec<OwnedFd>)>,
}

/// The questions that wait for an answer.
static QUESTIONS: Mutex<BTreeMap<u64, Question>> = Mutex::new(BTreeMap::new());
static ANSWERED: Condvar = Condvar::new();

/// An import of this process. When this is dropped, the exporter is notified that the import has
/// ended.
pub(super) struct Imported {
    pub(super) peer: Arc<Peer>,
    /// The number of the export.
    pub(super) number: u64,
    /// The number of the import, which is the number of the question that requested it.
    import: u64,
    is_over: bool,
}

impl Imported {
    /// Requests an import, and waits for the answer. The error says why there is no import.
    pub(super) fn want(
        peer: &Arc<Peer>,
        kind: ExportKind,
        number: u64,
    ) -> Result<(Self, Granted, Option<OwnedFd>), String> {
        let mut own = Self { peer: Arc::clone(peer), number, import: 0, is_over: false };
        let answer = ask(peer, |ask| {
            own.import = ask;
            IpcNews::Wants { ask, kind, number }
        });
        // If no answer comes in time, the import may still be granted later. In that case, dropping
        // `own` ends the import.
        let (granted, file) = answer?;
        Ok((own, granted, file))
    }

    fn end(&self, ask: u64) -> IpcNews {
        IpcNews::Ends { ask, import: self.import, number: self.number }
    }

    /// Ends the import, and waits until the exporter has confirmed it. The error says why there is
    /// no confirmation.
    pub(super) fn close(mut self) -> Result<(), String> {
        self.is_over = true;
        ask(&self.peer, |ask| self.end(ask)).map(drop)
    }
}

impl Drop for Imported {
    fn drop(&mut self) {
        if !self.is_over {
            say(&self.peer, self.end(0), None);
        }
    }
}

/// Asks another process, and waits for its answer, with the descriptor that came with it. The error
/// says why there is no answer, or why the other process refuses.
fn ask(
    peer: &Peer,
    question: impl FnOnce(u64) -> IpcNews,
) -> Result<(Granted, Option<OwnedFd>), String> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let ask = NEXT.fetch_add(1, Ordering::Relaxed);
    lock(&QUESTIONS).insert(ask, Question { to: peer.home, answer: None });
    say(peer, question(ask), None);
    let process = peer.home.process;
    let until = Instant::now() + ANSWER;
    let mut questions = lock(&QUESTIONS);
    loop {
        let answer = questions.get_mut(&ask).and_then(|question| question.answer.take());
        let why = match answer {
            Some((answer, files)) => {
                questions.remove(&ask);
                let granted = answer.map_err(|why| format!("process {process}: {why}"))?;
                return Ok((granted, files.into_iter().next()));
            }
            None if peer.gone().is_some() => peer.gone().unwrap_or_default().to_owned(),
            None if Instant::now() >= until => {
                let seconds = ANSWER.as_secs();
                format!(
                    "process {process} has not answered within {seconds} s; check whether it is \
                     stopped"
                )
            }
            None => {
                let waited = ANSWERED.wait_timeout(questions, LOOK);
                questions = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
        };
        questions.remove(&ask);
        return Err(why);
    }
}

/// Handles the answer of a process. Ignores the answer if this process has not sent that process
/// the question.
pub(super) fn answered(
    from: &Arc<Peer>,
    ask: u64,
    answer: Result<Granted, String>,
    files: Vec<OwnedFd>,
) {
    let mut questions = lock(&QUESTIONS);
    if let Some(question) = questions.get_mut(&ask)
        && question.to == from.home
        && question.answer.is_none()
    {
        question.answer = Some((answer, files));
    }
    drop(questions);
    wake();
}

/// Makes the waiting threads check again.
pub(super) fn wake() {
    ANSWERED.notify_all();
}
