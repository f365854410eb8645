//! Copies whose addresses are stored in words of memory. The words are read when the copy begins,
//! so an earlier task or kernel may write them.

use crate::capture;
use crate::check;
use crate::leaf::Copy;
use crate::memory::nominal;
use crate::message::{Failure, fail};
use crate::step::Step;
use crate::stream::Stream;
use crate::submit;
use crate::task::{TaskBody, Touch};
use crate::value::{BYTES, Word};
use ascend_sys::ACL_ERROR_RT_PARAM_INVALID;

/// The address of the source or the destination of a copy.
#[derive(Clone, Copy)]
pub(crate) enum CopyEnd {
    Given(usize),
    /// The address that a word holds, plus this number of bytes.
    Behind(Word, usize),
}

/// The source of a copy's addresses and length.
#[derive(Clone, Copy)]
pub(crate) enum CopySource {
    Ends { to: CopyEnd, from: CopyEnd, bytes: usize },
    Described(CopyDescriptor),
}

/// The addresses of a copy, and its number of bytes.
#[derive(Clone, Copy)]
pub(crate) struct CopyRequest {
    pub(crate) to: usize,
    pub(crate) from: usize,
    pub(crate) bytes: usize,
}

/// A function that checks a request in a stream, and makes the copy. It returns `None` if there is
/// nothing to copy.
pub(crate) type PlanCopy = fn(CopyRequest, &Stream) -> Result<Option<Copy>, Failure>;

impl CopyEnd {
    fn read(self) -> Result<usize, Failure> {
        match self {
            CopyEnd::Given(address) => Ok(address),
            CopyEnd::Behind(word, offset) => {
                let address = word.load() as usize;
                match address.checked_add(offset) {
                    Some(sum) if address != 0 => Ok(sum),
                    _ => fail!(
                        ACL_ERROR_RT_PARAM_INVALID,
                        "the word at {:#x} holds {address:#x}, and the offset is {offset}: the sum \
                         is not a valid address; write an address there before the copy",
                        nominal(word.data())
                    ),
                }
            }
        }
    }

    fn word(self) -> Option<Word> {
        match self {
            CopyEnd::Given(_) => None,
            CopyEnd::Behind(word, _) => Some(word),
        }
    }
}

/// A description of a copy in memory of the device.
#[derive(Clone, Copy)]
pub(crate) struct CopyDescriptor([Word; 4]);

impl CopyDescriptor {
    pub(crate) const BYTES: usize = 4 * BYTES;
    /// The value of the first word, by which a description is distinguished from unwritten memory.
    const MARK: u64 = u64::from_le_bytes(*b"ascncopy");

    /// Returns the description at the address `data`.
    ///
    /// # Safety
    ///
    /// As for [`Word::new`], with [`CopyDescriptor::BYTES`] bytes.
    pub(crate) unsafe fn new(data: *mut u8) -> CopyDescriptor {
        let word = |at: usize| {
            // SAFETY: all words are in the bytes that the caller promises.
            unsafe { Word::new(data.wrapping_add(at * BYTES)) }
        };
        CopyDescriptor([0, 1, 2, 3].map(word))
    }

    pub(crate) fn write(self, request: CopyRequest) {
        let CopyRequest { to, from, bytes } = request;
        let words = [CopyDescriptor::MARK, to as u64, from as u64, bytes as u64];
        self.0.iter().zip(words).for_each(|(word, value)| word.store(value));
    }

    fn read(self) -> Result<CopyRequest, Failure> {
        let [mark, to, from, bytes] = self.0.map(|word| word.load());
        if mark != CopyDescriptor::MARK {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "the memory at {:#x} has no description of a copy; write one with \
                 aclrtSetMemcpyDesc",
                nominal(self.0[0].data())
            );
        }
        Ok(CopyRequest { to: to as usize, from: from as usize, bytes: bytes as usize })
    }
}

impl CopySource {
    fn read(self) -> Result<CopyRequest, Failure> {
        match self {
            CopySource::Ends { to, from, bytes } => {
                Ok(CopyRequest { to: to.read()?, from: from.read()?, bytes })
            }
            CopySource::Described(descriptor) => descriptor.read(),
        }
    }

    /// Returns the words that the copy reads for its addresses and length.
    fn words(self) -> Vec<Word> {
        match self {
            CopySource::Ends { to, from, .. } => {
                [to, from].into_iter().filter_map(CopyEnd::word).collect()
            }
            CopySource::Described(CopyDescriptor(words)) => words.to_vec(),
        }
    }
}

/// Submits a copy to a stream, for the function `call`.
pub(crate) fn enqueue(
    stream: &'static Stream,
    call: &'static str,
    source: CopySource,
    plan: PlanCopy,
) -> Result<(), Failure> {
    if stream.is_diverted() {
        let words: Vec<_> =
            source.words().iter().map(|word| (word.data().cast_const(), BYTES)).collect();
        let issue = move |stream| enqueue(stream, call, source, plan);
        return capture::record_call(stream, NAME.into(), &words, Box::new(issue));
    }
    let issued = check::will_be_done(stream, call)?;
    let task = IndirectCopy { source, plan, issued, begun: None };
    submit::submit(stream, call, Box::new(task)).map(drop)
}

const NAME: &str = "copy with addresses in memory";

/// The task of a copy whose addresses are stored in words of memory.
struct IndirectCopy {
    source: CopySource,
    plan: PlanCopy,
    /// The call that issued it, for checked mode.
    issued: Option<String>,
    begun: Option<Begun>,
}

struct Begun {
    copy: Copy,
    what: String,
    touches: Vec<Touch>,
}

impl IndirectCopy {
    fn begin(&self, stream: &'static Stream) -> Result<Option<Begun>, Failure> {
        let Some(copy) = (self.plan)(self.source.read()?, stream)? else { return Ok(None) };
        let (what, mut touches) = copy.touches();
        let words = self.source.words();
        touches.extend(words.iter().map(|word| Touch::read(nominal(word.data()), BYTES)));
        Ok(Some(Begun { copy, what, touches }))
    }
}

impl TaskBody<Stream> for Box<IndirectCopy> {
    fn poll(&mut self, stream: &'static Stream) -> Step {
        if self.begun.is_none() {
            match self.begin(stream) {
                Ok(Some(begun)) => self.begun = Some(begun),
                Ok(None) => return Step::Done(Ok(())),
                Err(failure) => return Step::Done(Err(failure.of_task(NAME))),
            }
        }
        let Some(begun) = &mut self.begun else { return Step::Park };
        let step = begun.copy.poll();
        if let Step::Done(_) = step
            && let (Some(issued), Some(begun)) = (self.issued.take(), self.begun.take())
        {
            check::was_done(stream, issued, begun.what, begun.touches);
        }
        step
    }

    fn touched(&self) -> [(*const u8, usize); 2] {
        match &self.begun {
            Some(begun) => TaskBody::<Stream>::touched(&begun.copy),
            None => [(std::ptr::null(), 0); 2],
        }
    }

    fn describe(&self) -> String {
        match &self.begun {
            Some(begun) => begun.what.clone(),
            None => NAME.into(),
        }
    }
}
