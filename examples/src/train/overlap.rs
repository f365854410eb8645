//! Evaluates the records of all ranks together: how long buckets were in flight, and at which cost.
//!
//! While a bucket is in flight on a rank, two questions have an answer at every instant:
//!
//! - Does the bucket *move*, or does it *wait* for the last rank? A sum begins when all ranks have
//!   arrived, and each rank records when it arrived. So the time between a rank's own arrival and
//!   the last arrival is waiting. The rest (the copy up, the sum, the copy back) is moving.
//! - Is the bucket *hidden*, because the thread of the same rank computes meanwhile, or *exposed*,
//!   because that thread waits or enqueues?

use std::ops::{AddAssign, Range};

use super::timeline::{Activity, Message, Span, Step};

/// The activity of a bucket in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The bucket moves: up to the device, into the sum, and back.
    Moving,
    /// The bucket waits, because another rank has not arrived yet.
    Waiting,
}

/// A part of a message in which both answers stay the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// The activity of the bucket.
    pub phase: Phase,
    /// Whether the rank of the message computes meanwhile.
    pub hidden: bool,
    /// The time of the piece.
    pub span: Span,
}

/// The rank that the other ranks waited for, and the time at which it arrived.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LastArrival {
    /// The rank.
    pub rank: usize,
    /// The time in seconds since the beginning of the training.
    pub time: f64,
}

/// The steps of all ranks, side by side.
#[derive(Debug)]
pub struct Timeline<'a> {
    ranks: Vec<&'a [Step]>,
    /// The last arrival of each message of each step.
    last_arrivals: Vec<Vec<LastArrival>>,
}

impl<'a> Timeline<'a> {
    /// Makes a timeline from the steps of every rank. All ranks have the same steps, with the same
    /// messages in each step.
    pub fn new(ranks: Vec<&'a [Step]>) -> Self {
        let Some(first) = ranks.first() else { return Self { ranks, last_arrivals: Vec::new() } };
        let last = |step: usize, message: usize| {
            let arrivals = ranks.iter().enumerate().filter_map(|(rank, steps)| {
                let time = steps.get(step)?.messages.get(message)?.arrived;
                Some(LastArrival { rank, time })
            });
            arrivals.max_by(|a, b| a.time.total_cmp(&b.time))
        };
        let messages = |step: usize| 0..first[step].messages.len();
        let last_arrivals = (0..first.len())
            .map(|step| messages(step).filter_map(|message| last(step, message)).collect())
            .collect();
        Self { ranks, last_arrivals }
    }

    /// Returns the steps of every rank.
    pub fn ranks(&self) -> &[&'a [Step]] {
        &self.ranks
    }

    /// Returns the number of steps.
    pub fn len(&self) -> usize {
        self.last_arrivals.len()
    }

    /// Returns whether there are no steps.
    pub fn is_empty(&self) -> bool {
        self.last_arrivals.is_empty()
    }

    /// Returns the messages of a rank in a step, each with the rank that it waited for.
    pub fn messages(
        &self,
        rank: usize,
        step: usize,
    ) -> impl Iterator<Item = (&'a Message, LastArrival)> {
        self.ranks[rank][step].messages.iter().zip(self.last_arrivals[step].iter().copied())
    }

    /// Returns a message in pieces, one after the other, without a gap.
    pub fn pieces(
        &self,
        rank: usize,
        step: usize,
        message: &Message,
        last: LastArrival,
    ) -> Vec<Piece> {
        pieces(message, last.time, &self.ranks[rank][step].activities)
    }

    /// Returns the sums over all steps of all ranks.
    pub fn overlap(&self) -> Overlap {
        let mut overlap = Overlap::default();
        for rank in 0..self.ranks.len() {
            for step in 0..self.len() {
                for (message, last) in self.messages(rank, step) {
                    for piece in self.pieces(rank, step, message, last) {
                        overlap += piece;
                    }
                }
            }
        }
        overlap
    }

    /// Returns `count` steps in a row among `steps` whose duration is the median of all rows of
    /// that length. Returns all of `steps` if these are fewer.
    pub fn typical(&self, steps: Range<usize>, count: usize) -> Range<usize> {
        let mut windows: Vec<Range<usize>> =
            steps.clone().map(|from| from..from + count).filter(|w| w.end <= steps.end).collect();
        windows.sort_by(|a, b| self.duration(a).total_cmp(&self.duration(b)));
        windows.get(windows.len() / 2).cloned().unwrap_or(steps)
    }

    /// Returns the span of some steps, from the first rank's beginning to the last rank's end, or
    /// `None` if no rank has an activity in them.
    pub fn span(&self, steps: &Range<usize>) -> Option<Span> {
        let all = self.ranks.iter().flat_map(|rank| &rank[steps.clone()]).filter_map(Step::span);
        all.reduce(|a, b| Span { from: a.from.min(b.from), to: a.to.max(b.to) })
    }

    fn duration(&self, steps: &Range<usize>) -> f64 {
        self.span(steps).map_or(0.0, |span| span.seconds())
    }
}

fn pieces(message: &Message, last: f64, activities: &[(Activity, Span)]) -> Vec<Piece> {
    let Span { from, to } = message.span;
    // The clocks of two ranks agree only up to the time that reading them takes.
    let waiting = Span { from: message.arrived, to: last.clamp(message.arrived, to) };
    let compute = || activities.iter().filter(|(a, _)| a.is_compute()).map(|(_, span)| span);

    // Between two neighbouring cuts nothing changes.
    let mut cuts = vec![from, waiting.from, waiting.to, to];
    cuts.extend(compute().flat_map(|span| [span.from, span.to]).filter(|&t| from < t && t < to));
    cuts.sort_by(f64::total_cmp);

    let mut pieces: Vec<Piece> = Vec::new();
    for (from, to) in cuts.iter().copied().zip(cuts.iter().copied().skip(1)) {
        if from == to {
            continue;
        }
        let middle = (from + to) / 2.0;
        let phase = if waiting.contains(middle) { Phase::Waiting } else { Phase::Moving };
        let hidden = compute().any(|span| span.contains(middle));
        match pieces.last_mut() {
            Some(last) if (last.phase, last.hidden) == (phase, hidden) => last.span.to = to,
            _ => pieces.push(Piece { phase, hidden, span: Span { from, to } }),
        }
    }
    pieces
}

/// Time in flight, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Time {
    /// The time while the same rank computed.
    pub hidden: f64,
    /// The time while the same rank did not compute.
    pub exposed: f64,
}

impl Time {
    /// Returns the whole time, hidden or not.
    pub fn seconds(&self) -> f64 {
        self.hidden + self.exposed
    }

    /// Returns the hidden share in per cent, or 0 if there was no time.
    pub fn hidden_percent(&self) -> f64 {
        if self.seconds() > 0.0 { 100.0 * self.hidden / self.seconds() } else { 0.0 }
    }
}

/// The time for which buckets were in flight, summed over ranks and steps.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Overlap {
    /// The time while buckets moved.
    pub moving: Time,
    /// The time while buckets waited for the last rank.
    pub waiting: Time,
}

impl AddAssign<Piece> for Overlap {
    fn add_assign(&mut self, piece: Piece) {
        let time = match piece.phase {
            Phase::Moving => &mut self.moving,
            Phase::Waiting => &mut self.waiting,
        };
        let part = if piece.hidden { &mut time.hidden } else { &mut time.exposed };
        *part += piece.span.seconds();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(from: f64, to: f64) -> Span {
        Span { from, to }
    }

    fn message(from: f64, arrived: f64, to: f64) -> Message {
        Message { layer: 1, bytes: 8, span: span(from, to), arrived }
    }

    fn piece(phase: Phase, hidden: bool, from: f64, to: f64) -> Piece {
        Piece { phase, hidden, span: span(from, to) }
    }

    /// Makes a step from `from` to `to`. Its message is in flight during the whole step and arrives
    /// at `arrived`.
    fn step(from: f64, arrived: f64, to: f64) -> Step {
        Step {
            activities: vec![(Activity::Wait(1), span(from, to))],
            messages: vec![message(from, arrived, to)],
        }
    }

    #[test]
    fn a_message_falls_into_pieces_by_what_it_does_and_what_its_rank_does() {
        let activities = [
            (Activity::Forward, span(0.0, 1.0)),
            (Activity::Backward(2), span(1.0, 3.0)),
            (Activity::Enqueue(2), span(3.0, 4.0)),
            (Activity::Backward(1), span(4.0, 6.0)),
            (Activity::Wait(2), span(6.0, 8.5)),
            (Activity::Update(2), span(8.5, 10.0)),
        ];
        use Phase::{Moving, Waiting};
        assert_eq!(
            pieces(&message(2.0, 2.5, 9.0), 7.0, &activities),
            [
                piece(Moving, true, 2.0, 2.5),
                piece(Waiting, true, 2.5, 3.0),
                piece(Waiting, false, 3.0, 4.0),
                piece(Waiting, true, 4.0, 6.0),
                piece(Waiting, false, 6.0, 7.0),
                piece(Moving, false, 7.0, 8.5),
                piece(Moving, true, 8.5, 9.0),
            ]
        );
    }

    #[test]
    fn the_last_rank_waits_for_nobody_and_a_clock_that_is_off_adds_no_time() {
        use Phase::{Moving, Waiting};
        assert_eq!(pieces(&message(1.0, 2.0, 3.0), 2.0, &[]), [piece(Moving, false, 1.0, 3.0)]);
        // Another rank cannot have arrived after the end, even if its clock says so.
        let expected = [piece(Moving, false, 1.0, 2.0), piece(Waiting, false, 2.0, 3.0)];
        assert_eq!(pieces(&message(1.0, 2.0, 3.0), 3.5, &[]), expected);
    }

    #[test]
    fn everyone_waits_for_the_last_of_all_ranks() {
        let (early, late) = ([step(0.0, 1.0, 8.0)], [step(3.0, 6.0, 8.0)]);
        let timeline = Timeline::new(vec![&early, &late]);
        let last = |rank| timeline.messages(rank, 0).next().unwrap().1;
        assert_eq!(last(0), LastArrival { rank: 1, time: 6.0 });
        assert_eq!(last(0), last(1));
        let overlap = timeline.overlap();
        assert_eq!(overlap.waiting, Time { hidden: 0.0, exposed: 5.0 });
        assert_eq!(overlap.moving, Time { hidden: 0.0, exposed: 8.0 });
    }

    #[test]
    fn one_rank_never_waits() {
        let alone = [step(0.0, 1.0, 2.0)];
        assert_eq!(Timeline::new(vec![&alone]).overlap().waiting, Time::default());
        assert_eq!(Timeline::new(vec![]).overlap(), Overlap::default());
    }

    #[test]
    fn typical_steps_have_the_median_duration() {
        let mut steps = Vec::new();
        let mut now = 0.0;
        for duration in [1.0, 9.0, 2.0, 3.0, 20.0] {
            steps.push(step(now, now, now + duration));
            now += duration;
        }
        let timeline = Timeline::new(vec![&steps]);
        assert_eq!(timeline.typical(0..5, 1), 3..4);
        // The durations of the pairs of steps are 10, 11, 5 and 23.
        assert_eq!(timeline.typical(0..5, 2), 1..3);
        assert_eq!(timeline.typical(1..4, 1), 3..4);
        assert_eq!(timeline.typical(2..4, 3), 2..4);
        assert_eq!(timeline.span(&(1..3)), Some(span(1.0, 12.0)));
    }

    #[test]
    fn nothing_has_no_hidden_share() {
        assert_eq!(Time::default().hidden_percent(), 0.0);
        assert_eq!(Time { hidden: 1.0, exposed: 3.0 }.hidden_percent(), 25.0);
    }
}
