//! Recordings: the entries of one process or of several, and their text form.

use crate::entries::{Launch, PrimitiveSpan, TurnSpan};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// The version of the text form. It must change when the types below change, if they have been
/// released.
const FORM: u32 = 1;

/// The latest valid time, in nanoseconds. The sum of two valid times does not overflow.
const LAST: u64 = u64::MAX / 4;

/// The recordings of one process or of several. Each recording is in it once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Records {
    all: Vec<Record>,
}

/// One recording of one block of devices. Times of entries are nanoseconds since the start of the
/// recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The identity of the recording.
    pub source: Source,
    /// The number of entries that were dropped because the recording was full.
    pub left_out: u64,
    /// The finished launches of kernels.
    pub launches: Vec<Launch>,
    /// The finished turns of communication servers.
    pub turns: Vec<TurnSpan>,
    /// The finished primitives of operator threads.
    pub primitives: Vec<PrimitiveSpan>,
}

/// The identity of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Source {
    /// The process id.
    pub process: u32,
    /// The number of the block in that process.
    pub block: u32,
    /// The start of the recording, in nanoseconds of the monotonic clock. All processes of a
    /// machine share that clock.
    pub began: u64,
}

/// The error of a text that is not a valid record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordError(String);

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RecordError {}

/// The version of a text. It is read before the rest of the text.
#[derive(Deserialize)]
struct Form {
    ascend_timeline: u32,
}

/// The text form: first the version, then the records.
#[derive(Serialize)]
struct Written<'a> {
    ascend_timeline: u32,
    #[serde(flatten)]
    records: &'a Records,
}

impl Record {
    /// Returns an empty record.
    pub fn new(source: Source) -> Record {
        let (launches, turns, primitives) = Default::default();
        Record { source, left_out: 0, launches, turns, primitives }
    }

    /// Returns true if the record has no entries and no entry was dropped.
    pub fn is_empty(&self) -> bool {
        let Record { source: _, left_out, launches, turns, primitives } = self;
        *left_out == 0 && launches.is_empty() && turns.is_empty() && primitives.is_empty()
    }

    /// Returns the part between two times, in nanoseconds: the entries that lie entirely within
    /// them. Times in the result are relative to `from`.
    pub fn within(mut self, from: u64, to: u64) -> Record {
        let lies = |one: (u64, u64)| from <= one.0 && one.1 <= to;
        self.launches.retain(|launch| lies((launch.from, launch.to)));
        self.turns.retain(|turn| lies((turn.from, turn.to)));
        self.primitives.retain(|one| lies((one.from, one.to)));
        self.change_times(|time| time.saturating_sub(from));
        self.source.began = self.source.began.saturating_add(from);
        self
    }

    /// Returns the start and end of every entry.
    fn spans(&self) -> impl Iterator<Item = (u64, u64)> {
        let cores = self.launches.iter().flat_map(|launch| &launch.cores);
        let parts = cores.clone().flat_map(|core| core.parts.iter().chain(&core.products));
        let marks = cores.clone().flat_map(|core| &core.marks).map(|(at, _)| (*at, *at));
        let launches = self.launches.iter().map(|launch| (launch.from, launch.to));
        let turns = self.turns.iter().map(|turn| (turn.from, turn.to));
        let primitives = self.primitives.iter().map(|one| (one.from, one.to));
        let within = cores.map(|core| (core.from, core.to));
        let parts = parts.map(|part| (part.from, part.to));
        launches.chain(turns).chain(primitives).chain(within).chain(parts).chain(marks)
    }

    /// Replaces every time of an entry by `change` of that time.
    pub(crate) fn change_times(&mut self, change: impl Fn(u64) -> u64) {
        let both = |from: &mut u64, to: &mut u64| (*from, *to) = (change(*from), change(*to));
        for launch in &mut self.launches {
            both(&mut launch.from, &mut launch.to);
            for core in &mut launch.cores {
                both(&mut core.from, &mut core.to);
                let parts = core.parts.iter_mut().chain(&mut core.products);
                parts.for_each(|part| both(&mut part.from, &mut part.to));
                core.marks.iter_mut().for_each(|(at, _)| *at = change(*at));
            }
        }
        self.turns.iter_mut().for_each(|turn| both(&mut turn.from, &mut turn.to));
        self.primitives.iter_mut().for_each(|one| both(&mut one.from, &mut one.to));
    }

    /// Returns the reason if a time is invalid.
    fn damage(&self) -> Option<String> {
        let began = self.source.began;
        let wrong = self.spans().find(|(from, to)| from > to || *to > LAST);
        let (from, to) = wrong.or((began > LAST).then_some((began, LAST)))?;
        Some(format!("an entry has invalid times: from {from} to {to} nanoseconds"))
    }
}

impl Records {
    /// Returns the text form, for [`from_text`](Records::from_text) in another process. The text is
    /// one line.
    pub fn to_text(&self) -> String {
        let written = Written { ascend_timeline: FORM, records: self };
        // Serialisation cannot fail: a record has no map, so it has no key that is not a string.
        serde_json::to_string(&written).unwrap_or_default()
    }

    /// Reads texts, one in each line, and joins their records. Empty lines are skipped.
    ///
    /// # Errors
    ///
    /// Fails if the text is empty, or if a line is not a recorded timeline, is damaged, or has
    /// another version.
    pub fn from_text(text: &str) -> Result<Records, RecordError> {
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        if lines.is_empty() {
            return Err(RecordError(
                "this is not a recorded timeline: the text is empty; record a timeline first"
                    .into(),
            ));
        }
        lines.into_iter().map(Records::from_line).collect::<Result<Vec<_>, _>>().map(Records::join)
    }

    fn from_line(text: &str) -> Result<Records, RecordError> {
        match serde_json::from_str(text) {
            Ok(Form { ascend_timeline: FORM }) => {}
            Ok(Form { ascend_timeline: other }) => {
                return Err(RecordError(format!(
                    "this timeline has version {other} of the text form, but version {FORM} is \
                     expected: record it again with the emulator of this version"
                )));
            }
            Err(why) => {
                return Err(RecordError(format!(
                    "this is not a recorded timeline: {why}; pass the text that a recording has \
                     written"
                )));
            }
        }
        let damaged =
            |why| RecordError(format!("a recorded timeline is damaged: {why}; record it again"));
        let records: Records =
            serde_json::from_str(text).map_err(|why| damaged(why.to_string()))?;
        match records.all.iter().find_map(Record::damage) {
            Some(why) => Err(damaged(why)),
            None => Ok(Records::join([records])),
        }
    }

    /// Joins records. A recording that occurs in several of them is kept once.
    pub fn join(several: impl IntoIterator<Item = Records>) -> Records {
        several.into_iter().flat_map(|records| records.all).collect()
    }

    /// Returns the recordings.
    pub fn iter(&self) -> impl Iterator<Item = &Record> {
        self.all.iter()
    }

    /// Returns the number of processes.
    pub fn processes(&self) -> usize {
        self.all.iter().map(|record| record.source.process).collect::<BTreeSet<_>>().len()
    }
}

impl FromIterator<Record> for Records {
    /// Collects recordings and keeps each of them once.
    fn from_iter<I: IntoIterator<Item = Record>>(several: I) -> Records {
        let mut known = BTreeSet::new();
        let all = several.into_iter().filter(|record| known.insert(record.source)).collect();
        Records { all }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entries::*;
    use seeded_inputs::change;

    /// Returns records with every kind of entry.
    fn sample(process: u32, began: u64) -> Records {
        let part = |what, from, to| Part { what, from, to };
        let runs = Doing::Runs { first: "a:1".into(), last: "a:9".into(), interpreted: 3 };
        let waits = Doing::Waits { what: "flag 8".into(), place: "a:9".into() };
        let core = Block {
            kind: CoreKind::Vector,
            index: 0,
            core_index: 0,
            block: 0,
            from: 1,
            to: 9,
            parts: vec![part(runs, 1, 5), part(waits, 5, 9)],
            products: vec![part(Doing::Multiplies { sizes: [1, 2, 3] }, 2, 3)],
            marks: vec![(4, "commits".into())],
        };
        let launch = Launch {
            device: 0,
            kernel: "sum".into(),
            blocks: 1,
            ranks: vec![0],
            from: 1,
            to: 10,
            failure: Some("\"why\"".into()),
            cores: vec![core],
        };
        let turn = TurnSpan {
            device: 0,
            servers: ServersKey::Job(5),
            group: "world".into(),
            rank: 0,
            number: 1,
            meets: true,
            name: "tiles 1 of 1".into(),
            operation: "AllGather".into(),
            place: "a:3".into(),
            from: 2,
            to: 8,
            moved: vec![Moved { from: 1, to: 0, bytes: 64 }, Moved { from: 2, to: 0, bytes: 64 }],
        };
        let notify = NotifyKey { process: 1, owner: 7, on_channel: true, index: 0 };
        let primitive = |thread, work, from, to| PrimitiveSpan {
            device: 0,
            rank: Some(0),
            group: "world".into(),
            thread,
            name: "main thread".into(),
            call: "HcommChannelNotifyRecordOnThread".into(),
            work,
            from,
            to,
            failure: None,
        };
        let whose = String::new();
        let primitives = vec![
            primitive(3, PrimitiveWork::Records { notify, whose: whose.clone() }, 2, 3),
            primitive(4, PrimitiveWork::Waits { notify, whose, recorder: Some(1) }, 1, 4),
            primitive(3, PrimitiveWork::Moves { from: 0, to: 1, bytes: 8, reduces: true }, 4, 6),
        ];
        let source = Source { process, block: 0, began };
        let launches = vec![launch];
        [Record { source, left_out: 2, launches, turns: vec![turn], primitives }]
            .into_iter()
            .collect()
    }

    #[test]
    fn what_is_written_is_read_again() {
        let joined = Records::join([sample(1, 1000), sample(2, 5)]);
        let text = joined.to_text();
        assert!(!text.contains('\n'));
        assert_eq!(Records::from_text(&text), Ok(joined.clone()));
        // Two runs of a program that append to one file leave two lines.
        let lines = format!("{}\n{}\n", sample(1, 1000).to_text(), sample(2, 5).to_text());
        assert_eq!(Records::from_text(&lines), Ok(joined));
    }

    #[test]
    fn a_recording_counts_once_however_records_are_joined() {
        let [one, two, three] = [sample(1, 1000), sample(2, 1400), sample(3, 900)];
        let both = Records::join([one.clone(), two.clone()]);
        let overlapping = Records::join([two.clone(), three.clone()]);
        let all = Records::join([one.clone(), two.clone(), three.clone()]);
        assert_eq!((all.iter().count(), all.processes()), (3, 3));
        for several in [
            vec![both.clone(), overlapping.clone()],
            vec![one.clone(), overlapping],
            vec![one.clone(), both.clone(), three.clone(), one],
            vec![both.clone(), three, both],
        ] {
            assert_eq!(Records::join(several), all);
        }
        assert_eq!(Records::join([]), Records::default());
    }

    #[test]
    fn a_part_has_the_entries_that_lie_in_it_whole() {
        let all = sample(1, 1000);
        let record = all.iter().next().unwrap();
        let part = record.clone().within(2, 9);
        // The launch and the wait begin before time 2, so they are left out.
        let counts = (part.launches.len(), part.turns.len(), part.primitives.len());
        assert_eq!((counts, part.source.began), ((0, 1, 2), 1002));
        assert_eq!((part.turns[0].from, part.turns[0].to), (0, 6));
        assert!(!part.is_empty());
        assert_eq!(record.clone().within(1, 10).launches[0].cores[0].marks[0].0, 3);
    }

    #[test]
    fn a_text_that_is_no_record_is_refused() {
        let text = sample(1, 1).to_text();
        let other = text.replacen("\"ascend_timeline\":1", "\"ascend_timeline\":9", 1);
        let late = text.replacen("\"to\":10,", "\"to\":9000000000000000000,", 1);
        let turned = text.replacen("\"to\":10,", "\"to\":0,", 1);
        let beyond = text.replacen("\"began\":1", "\"began\":9000000000000000000", 1);
        for (text, said) in [
            ("", "not a recorded timeline"),
            ("{\"traceEvents\":[]}", "not a recorded timeline"),
            (&text[..text.len() / 2], "not a recorded timeline"),
            ("{\"ascend_timeline\":1}", "damaged: missing field `all`"),
            (&other, "version 9 of the text form, but version 1 is expected"),
            (&late, "damaged: an entry has invalid times: from 1 to 9000000000000000000"),
            (&turned, "damaged: an entry has invalid times: from 1 to 0"),
            (&beyond, "damaged: an entry has invalid times: from 9000000000000000000"),
        ] {
            let error = Records::from_text(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn a_changed_text_is_refused_or_drawn() {
        let seeds = [sample(1, 1000).to_text().into_bytes()];
        let mut random = fastrand::Rng::with_seed(1);
        let mut drawn = 0;
        for _ in 0..4000 {
            let mut text = seeds[0].clone();
            // Most changes break the syntax. A text with a changed digit is often still valid.
            let digits: Vec<usize> =
                (0..text.len()).filter(|at| text[*at].is_ascii_digit()).collect();
            match random.bool() {
                true => change(&mut text, &seeds, &mut random),
                false => text[digits[random.usize(..digits.len())]] = random.u8(b'0'..=b'9'),
            }
            if let Ok(record) = Records::from_text(&String::from_utf8_lossy(&text)) {
                let both = Records::join([record, sample(2, 2000)]);
                assert!(crate::picture(&both).ends_with("</svg>\n"));
                let trace: serde_json::Value = serde_json::from_str(&crate::trace(&both)).unwrap();
                assert!(trace["traceEvents"].is_array());
                drawn += 1;
            }
        }
        assert!(drawn > 500, "{drawn}");
    }
}
