//! Who computed and who communicated when: recorded on every rank, then compared.
//!
//! Communication is *hidden* while its own rank computes, and *exposed* otherwise: while the rank waits
//! for it, or hands it over.

use std::fmt;
use std::time::Instant;

/// A stretch of time, in seconds since the beginning of the training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Its beginning.
    pub from: f64,
    /// Its end, not before its beginning.
    pub to: f64,
}

impl Span {
    /// How long it is, in seconds.
    pub fn seconds(&self) -> f64 {
        self.to - self.from
    }

    /// What it has in common with another, if anything.
    fn overlap(&self, other: &Self) -> Option<Self> {
        let common = Self { from: self.from.max(other.from), to: self.to.min(other.to) };
        (common.from < common.to).then_some(common)
    }
}

/// What the thread of a rank does. Layers count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// All layers, forwards, and the loss.
    Forward,
    /// The gradient of one layer.
    Backward(usize),
    /// Waiting for the sum of one layer's gradients.
    Wait(usize),
    /// The optimiser, on one layer.
    Update(usize),
}

impl Activity {
    /// Whether it is the rank's own work rather than waiting for others.
    pub fn is_compute(&self) -> bool {
        !matches!(self, Self::Wait(_))
    }
}

impl fmt::Display for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forward => write!(f, "forward"),
            Self::Backward(layer) => write!(f, "backward {layer}"),
            Self::Wait(layer) => write!(f, "wait for bucket {layer}"),
            Self::Update(layer) => write!(f, "update {layer}"),
        }
    }
}

/// One layer's gradients on their way: up to the device, summed over all ranks, and back.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The layer, from 1.
    pub layer: usize,
    /// How much one rank gives.
    pub bytes: usize,
    /// When.
    pub span: Span,
}

/// What one rank did in one step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// What its thread did, one after the other.
    pub activities: Vec<(Activity, Span)>,
    /// What its stream did.
    pub messages: Vec<Message>,
}

impl Step {
    /// The parts of a message that its own rank covers with computation, one after the other.
    pub fn hidden(&self, message: &Message) -> Vec<Span> {
        let compute = self.activities.iter().filter(|(activity, _)| activity.is_compute());
        compute.filter_map(|(_, span)| message.span.overlap(span)).collect()
    }

    /// From its first activity to the end of its last.
    pub fn span(&self) -> Option<Span> {
        let (_, first) = self.activities.first()?;
        let (_, last) = self.activities.last()?;
        Some(Span { from: first.from, to: last.to })
    }
}

/// How long the ranks communicated in all, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Overlap {
    /// While the same rank computed.
    pub hidden: f64,
    /// While it did not.
    pub exposed: f64,
}

impl Overlap {
    /// Of all steps of all ranks.
    pub fn of<'a>(steps: impl IntoIterator<Item = &'a Step>) -> Self {
        let mut total = Self::default();
        for step in steps {
            for message in &step.messages {
                let hidden: f64 = step.hidden(message).iter().map(Span::seconds).sum();
                total.hidden += hidden;
                total.exposed += message.span.seconds() - hidden;
            }
        }
        total
    }

    /// The hidden share, from 0 to 1; 0 if nothing was communicated.
    pub fn share(&self) -> f64 {
        let all = self.hidden + self.exposed;
        if all > 0.0 { self.hidden / all } else { 0.0 }
    }
}

/// Writes down what a rank does.
#[derive(Debug)]
pub struct Recorder {
    zero: Instant,
    steps: Vec<Step>,
}

impl Recorder {
    /// All ranks count from the same instant.
    pub fn new(zero: Instant) -> Self {
        Self { zero, steps: Vec::new() }
    }

    /// The next step begins.
    pub fn begin_step(&mut self) {
        self.steps.push(Step::default());
    }

    /// The time, in seconds.
    pub fn now(&self) -> f64 {
        self.zero.elapsed().as_secs_f64()
    }

    /// Does something and writes down how long it took.
    pub fn record<T>(&mut self, activity: Activity, work: impl FnOnce() -> T) -> T {
        let from = self.now();
        let result = work();
        let to = self.now();
        if let Some(step) = self.steps.last_mut() {
            step.activities.push((activity, Span { from, to }));
        }
        result
    }

    /// Writes down a message of this step.
    pub fn message(&mut self, message: Message) {
        if let Some(step) = self.steps.last_mut() {
            step.messages.push(message);
        }
    }

    /// What was written down.
    pub fn into_steps(self) -> Vec<Step> {
        self.steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(from: f64, to: f64) -> Span {
        Span { from, to }
    }

    #[test]
    fn communication_is_hidden_only_behind_the_ranks_own_computation() {
        let message = Message { layer: 2, bytes: 8, span: span(2.0, 9.0) };
        let step = Step {
            activities: vec![
                (Activity::Forward, span(0.0, 1.0)),
                (Activity::Backward(2), span(1.0, 3.0)),
                (Activity::Backward(1), span(4.0, 6.0)),
                (Activity::Wait(2), span(6.0, 8.5)),
                (Activity::Update(2), span(8.5, 10.0)),
            ],
            messages: vec![message.clone()],
        };
        let hidden = [span(2.0, 3.0), span(4.0, 6.0), span(8.5, 9.0)];
        assert_eq!(step.hidden(&message), hidden);
        let overlap = Overlap::of([&step]);
        assert_eq!(overlap, Overlap { hidden: 3.5, exposed: 3.5 });
        assert_eq!(overlap.share(), 0.5);
        assert_eq!(step.span(), Some(span(0.0, 10.0)));
    }

    #[test]
    fn no_communication_is_no_share() {
        assert_eq!(Overlap::of([]).share(), 0.0);
    }

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
    }
}
