//! The timeline of one rank. [`overlap`](super::overlap) compares the records of all ranks.

use std::fmt;
use std::time::Instant;

/// A stretch of time, in seconds since the beginning of the training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// The beginning of the span.
    pub from: f64,
    /// The end of the span, not before its beginning.
    pub to: f64,
}

impl Span {
    /// Returns the length of the span, in seconds.
    pub fn seconds(&self) -> f64 {
        self.to - self.from
    }

    /// Returns whether an instant is within the span.
    pub fn contains(&self, time: f64) -> bool {
        self.from <= time && time <= self.to
    }
}

/// An activity of the thread of a rank. Layers count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// The forward pass of all layers, and the loss.
    Forward,
    /// The gradient of one layer.
    Backward(usize),
    /// The calls that enqueue one layer's bucket.
    Enqueue(usize),
    /// Waiting for the sum of one layer's gradients.
    Wait(usize),
    /// The optimiser, on one layer.
    Update(usize),
}

impl Activity {
    /// Returns whether a rank without other ranks would do this, too.
    pub fn is_compute(&self) -> bool {
        matches!(self, Self::Forward | Self::Backward(_) | Self::Update(_))
    }
}

impl fmt::Display for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forward => write!(f, "forward"),
            Self::Backward(layer) => write!(f, "backward {layer}"),
            Self::Enqueue(layer) => write!(f, "enqueue bucket {layer}"),
            Self::Wait(layer) => write!(f, "wait for bucket {layer}"),
            Self::Update(layer) => write!(f, "update {layer}"),
        }
    }
}

/// The gradients of one layer in flight on the stream of a rank: copied to the device, summed over
/// all ranks, and copied back. The times are those of the device's clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The layer, from 1.
    pub layer: usize,
    /// The number of bytes that one rank gives.
    pub bytes: usize,
    /// The span from the beginning of the copy up to the end of the copy back.
    pub span: Span,
    /// The time at which the stream came to the all-reduce, which begins when all ranks have come
    /// to it. The time is within the span.
    pub arrived: f64,
}

/// The record of one rank in one step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// The activities of the rank's thread, one after the other.
    pub activities: Vec<(Activity, Span)>,
    /// The messages of the rank's stream, one after the other; the same buckets in the same order
    /// on every rank.
    pub messages: Vec<Message>,
}

impl Step {
    /// Returns the span from the first activity to the end of the last one, or `None` if the step
    /// has no activities.
    pub fn span(&self) -> Option<Span> {
        let (_, first) = self.activities.first()?;
        let (_, last) = self.activities.last()?;
        Some(Span { from: first.from, to: last.to })
    }
}

/// Returns all times of some steps, in a fixed order.
pub fn times_of(steps: &[Step]) -> Vec<f64> {
    let of_step = |step: &Step| {
        let activities = step.activities.iter().flat_map(|(_, span)| [span.from, span.to]);
        let messages = step.messages.iter();
        let messages = messages.flat_map(|it| [it.span.from, it.span.to, it.arrived]);
        activities.chain(messages).collect::<Vec<f64>>()
    };
    steps.iter().flat_map(of_step).collect()
}

/// Returns the same steps with other times, in the order of [`times_of`].
pub fn with_times(steps: &[Step], times: &[f64]) -> Vec<Step> {
    let mut times = times.iter().copied();
    let mut next = || times.next().unwrap_or_default();
    let mut steps = steps.to_vec();
    for step in &mut steps {
        for (_, span) in &mut step.activities {
            *span = Span { from: next(), to: next() };
        }
        for message in &mut step.messages {
            message.span = Span { from: next(), to: next() };
            message.arrived = next();
        }
    }
    steps
}

/// A recorder of the activities of a rank.
#[derive(Debug)]
pub struct Recorder {
    zero: Instant,
    steps: Vec<Step>,
}

impl Recorder {
    /// Makes a recorder. `zero` is the instant from which all ranks count.
    pub fn new(zero: Instant) -> Self {
        Self { zero, steps: Vec::new() }
    }

    /// Begins the next step.
    pub fn begin_step(&mut self) {
        self.steps.push(Step::default());
    }

    /// Returns the time since `zero`, in seconds.
    pub fn now(&self) -> f64 {
        self.zero.elapsed().as_secs_f64()
    }

    /// Calls `work`, and records its span of time.
    pub fn record<T>(&mut self, activity: Activity, work: impl FnOnce() -> T) -> T {
        let from = self.now();
        let result = work();
        self.note(activity, Span { from, to: self.now() });
        result
    }

    /// Records an activity in a span of time.
    pub fn note(&mut self, activity: Activity, span: Span) {
        if let Some(step) = self.steps.last_mut() {
            step.activities.push((activity, span));
        }
    }

    /// Records a message of this step.
    pub fn message(&mut self, message: Message) {
        if let Some(step) = self.steps.last_mut() {
            step.messages.push(message);
        }
    }

    /// Returns the recorded steps.
    pub fn into_steps(self) -> Vec<Step> {
        self.steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorder_keeps_steps_apart_and_time_in_order() {
        let mut recorder = Recorder::new(Instant::now());
        for _ in 0..2 {
            recorder.begin_step();
            assert_eq!(recorder.record(Activity::Forward, || 7), 7);
            recorder.record(Activity::Update(1), || ());
        }
        let steps = recorder.into_steps();
        assert_eq!(steps.len(), 2);
        let spans: Vec<_> = steps.iter().flat_map(|s| &s.activities).map(|(_, s)| *s).collect();
        assert!(spans.iter().all(|span| span.from <= span.to));
        assert!(spans.windows(2).all(|pair| pair[0].to <= pair[1].from));
        let step = Span { from: spans[2].from, to: spans[3].to };
        assert_eq!(steps[1].span(), Some(step));
    }

    #[test]
    fn steps_come_back_from_their_times() {
        let span = |from| Span { from, to: from + 1.0 };
        let message = Message { layer: 2, bytes: 8, span: span(5.0), arrived: 5.5 };
        let steps = [
            Step { activities: vec![(Activity::Forward, span(1.0))], messages: vec![] },
            Step {
                activities: vec![(Activity::Wait(2), span(3.0)), (Activity::Update(2), span(4.0))],
                messages: vec![message],
            },
        ];
        let times = times_of(&steps);
        assert_eq!(times, [1.0, 2.0, 3.0, 4.0, 4.0, 5.0, 5.0, 6.0, 5.5]);
        let zeros = with_times(&steps, &[0.0; 9]);
        assert_eq!(with_times(&zeros, &times), steps);
    }
}
