//! The two pictures: the loss falling, and who computed and communicated when.

use super::svg::{Anchor, GREY, GRID, INK, Svg, Text, round_ticks};
use super::timeline::{Activity, Overlap, Span, Step};

const STEP_LOSS: &str = "#a9c7e8";
const EPOCH_LOSS: &str = "#1f5fa8";

const FORWARD: &str = "#2f6db3";
const BACKWARD: &str = "#7fb0e0";
const UPDATE: &str = "#a78bca";
const WAIT: &str = "#eceff3";
const HIDDEN: &str = "#3fa66b";
const EXPOSED: &str = "#e4572e";

/// The loss of every step, faint, and its mean over each epoch, on a logarithmic axis.
pub fn loss_picture(losses: &[f32], steps_per_epoch: usize, subtitle: &str) -> String {
    const WIDTH: f64 = 900.0;
    const HEIGHT: f64 = 500.0;
    const LEFT: f64 = 84.0;
    const RIGHT: f64 = 30.0;
    const TOP: f64 = 84.0;
    const BOTTOM: f64 = 64.0;

    let mut svg = Svg::new(WIDTH, HEIGHT);
    svg.text((LEFT, 36.0), Text::title(), "Training loss");
    svg.text((LEFT, 58.0), Text::small(Anchor::Start), subtitle);

    // A loss of zero has no logarithm.
    let losses: Vec<f64> = losses.iter().map(|&loss| f64::from(loss).max(1e-9)).collect();
    let epoch_means: Vec<f64> = losses
        .chunks(steps_per_epoch.max(1))
        .map(|epoch| epoch.iter().sum::<f64>() / epoch.len() as f64)
        .collect();
    let (low, high) = losses
        .iter()
        .fold((f64::INFINITY, 0.0f64), |(low, high), &loss| (low.min(loss), high.max(loss)));
    let (low, high) = if low.is_finite() { (low, high) } else { (0.1, 1.0) };
    let bottom = low.log10().floor();
    let top = (high.log10() + 0.05).max(bottom + 0.5);
    let last = epoch_means.len().max(1) as f64;

    let right = WIDTH - RIGHT;
    let floor = HEIGHT - BOTTOM;
    let x = |epoch: f64| LEFT + epoch / last * (right - LEFT);
    let y = |loss: f64| floor - (loss.log10() - bottom) / (top - bottom) * (floor - TOP);

    for decade in bottom as i32..=top.floor() as i32 {
        let value = 10f64.powi(decade);
        svg.line((LEFT, y(value)), (right, y(value)), GRID, "");
        let label =
            if (-4..=4).contains(&decade) { format!("{value}") } else { format!("1e{decade}") };
        svg.text((LEFT - 10.0, y(value) + 4.0), Text::small(Anchor::End), label);
        for part in 2..10 {
            let at = y(value * f64::from(part));
            if at > TOP {
                svg.line((LEFT - 4.0, at), (LEFT, at), GREY, "");
            }
        }
    }
    for tick in round_ticks(last, 8.0).into_iter().filter(|tick| tick.fract() == 0.0) {
        svg.line((x(tick), floor), (x(tick), floor + 5.0), GREY, "");
        svg.text((x(tick), floor + 21.0), Text::small(Anchor::Middle), tick);
    }
    svg.line((LEFT, TOP), (LEFT, floor), GREY, "");
    svg.line((LEFT, floor), (right, floor), GREY, "");
    svg.text(((LEFT + right) / 2.0, HEIGHT - 18.0), Text::small(Anchor::Middle), "epoch");
    svg.text(
        (24.0, (TOP + floor) / 2.0),
        Text { upright: true, ..Text::small(Anchor::Middle) },
        "cross-entropy, mean over the batch",
    );

    let step = |index: usize| (index as f64 + 0.5) / steps_per_epoch.max(1) as f64;
    let points: Vec<_> = losses.iter().enumerate().map(|(i, &l)| (x(step(i)), y(l))).collect();
    svg.curve(&points, STEP_LOSS, 1.2);
    let means = epoch_means.iter().enumerate();
    let points: Vec<_> = means.map(|(i, &loss)| (x(i as f64 + 0.5), y(loss))).collect();
    svg.curve(&points, EPOCH_LOSS, 2.6);

    for (row, (colour, width, name)) in
        [(STEP_LOSS, 1.2, "each step"), (EPOCH_LOSS, 2.6, "mean of an epoch")]
            .into_iter()
            .enumerate()
    {
        let at = TOP + 16.0 + 20.0 * row as f64;
        svg.curve(&[(right - 170.0, at - 4.0), (right - 140.0, at - 4.0)], colour, width);
        svg.text((right - 132.0, at), Text::small(Anchor::Start), name);
    }
    svg.finish()
}

/// A few steps of every rank: above what its thread did, below what its stream did.
///
/// `window` holds the same steps of every rank.
pub fn timeline_picture(window: &[&[Step]], overlap: Overlap, subtitle: &str) -> String {
    const WIDTH: f64 = 1240.0;
    const LEFT: f64 = 150.0;
    const RIGHT: f64 = 30.0;
    const TOP: f64 = 128.0;
    const LANE: f64 = 26.0;
    const RANK: f64 = 2.0 * LANE + 22.0;

    let floor = TOP + RANK * window.len() as f64;
    let mut svg = Svg::new(WIDTH, floor + 58.0);
    let title =
        format!("{:.0} % of the communication hidden behind computation", overlap.share() * 100.0);
    svg.text((24.0, 36.0), Text::title(), title);
    svg.text((24.0, 58.0), Text::small(Anchor::Start), subtitle);
    legend(&mut svg, 24.0, 78.0);

    let spans = || window.iter().flat_map(|steps| steps.iter()).filter_map(Step::span);
    let zero = spans().map(|span| span.from).fold(f64::INFINITY, f64::min);
    let end = spans().map(|span| span.to).fold(0.0, f64::max);
    let length = if zero < end { end - zero } else { 1.0 };
    let right = WIDTH - RIGHT;
    let x = |time: f64| LEFT + (time - zero) / length * (right - LEFT);
    let bar = |svg: &mut Svg, span: Span, lane: f64, fill: &str| {
        let (from, to) = (x(span.from).max(LEFT), x(span.to).min(right));
        if from < to {
            svg.rect((from, lane), (to - from, LANE - 3.0), fill);
        }
    };

    let milliseconds = length * 1e3;
    for tick in round_ticks(milliseconds, 10.0) {
        let at = LEFT + tick / milliseconds * (right - LEFT);
        svg.line((at, TOP - 8.0), (at, floor), GRID, "");
        svg.text((at, floor + 18.0), Text::small(Anchor::Middle), rounded(tick));
    }
    let middle = (LEFT + right) / 2.0;
    svg.text((middle, floor + 42.0), Text::small(Anchor::Middle), "milliseconds");

    for (rank, steps) in window.iter().enumerate() {
        let compute = TOP + RANK * rank as f64;
        let communication = compute + LANE;
        let name = Text { bold: true, fill: INK, ..Text::small(Anchor::Start) };
        svg.text((24.0, compute + LANE + 2.0), name, format!("rank {rank}"));
        let lane = Text { size: 11.0, ..Text::small(Anchor::End) };
        svg.text((LEFT - 10.0, compute + 15.0), lane, "compute");
        svg.text((LEFT - 10.0, communication + 15.0), lane, "comm.");
        for step in *steps {
            for (activity, span) in &step.activities {
                bar(&mut svg, *span, compute, colour(*activity));
                if *activity == Activity::Forward {
                    svg.line(
                        (x(span.from), compute - 5.0),
                        (x(span.from), communication + LANE),
                        GREY,
                        "2 3",
                    );
                }
            }
            for message in &step.messages {
                bar(&mut svg, message.span, communication, EXPOSED);
                for hidden in step.hidden(message) {
                    bar(&mut svg, hidden, communication, HIDDEN);
                }
                // Where one bucket ends and the next begins.
                let at = x(message.span.to);
                svg.line((at, communication), (at, communication + LANE - 3.0), "#ffffff", "");
                let (from, to) = (x(message.span.from), x(message.span.to).min(right));
                if to - from > 18.0 {
                    let label = Text {
                        size: 11.0,
                        fill: "#ffffff",
                        bold: true,
                        ..Text::small(Anchor::Middle)
                    };
                    svg.text(((from + to) / 2.0, communication + 15.5), label, message.layer);
                }
            }
        }
    }
    svg.line((LEFT, floor), (right, floor), GREY, "");
    svg.finish()
}

fn colour(activity: Activity) -> &'static str {
    match activity {
        Activity::Forward => FORWARD,
        Activity::Backward(_) => BACKWARD,
        Activity::Wait(_) => WAIT,
        Activity::Update(_) => UPDATE,
    }
}

fn legend(svg: &mut Svg, left: f64, top: f64) {
    let entries = [
        (FORWARD, "forward", 84.0),
        (BACKWARD, "backward", 94.0),
        (UPDATE, "optimiser", 98.0),
        (WAIT, "waiting", 90.0),
        (HIDDEN, "communication, hidden", 178.0),
        (EXPOSED, "communication, exposed (the number is the bucket's layer)", 0.0),
    ];
    let mut x = left;
    for (fill, name, width) in entries {
        svg.rect((x, top), (14.0, 14.0), fill);
        svg.text((x + 20.0, top + 11.5), Text::small(Anchor::Start), name);
        x += width;
    }
}

/// Without the digits that only floating point adds.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::timeline::Message;

    #[test]
    fn every_point_of_the_loss_is_drawn_within_the_frame() {
        for losses in [vec![2.3, 1.0, 0.1, 0.02], vec![0.0; 4], vec![1.0], vec![]] {
            let picture = loss_picture(&losses, 2, "");
            assert!(!picture.contains("NaN") && !picture.contains("inf"), "{picture}");
            let curve = picture.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
            let points: Vec<(f64, f64)> = curve
                .split_whitespace()
                .map(|point| point.split_once(',').unwrap())
                .map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap()))
                .collect();
            assert_eq!(points.len(), losses.len());
            for (x, y) in points {
                assert!((84.0..=870.0).contains(&x) && (84.0..=436.0).contains(&y), "{x}, {y}");
            }
        }
    }

    #[test]
    fn hidden_and_exposed_communication_have_their_widths() {
        let span = |from, to| Span { from, to };
        let step = Step {
            activities: vec![
                (Activity::Forward, span(0.0, 0.002)),
                (Activity::Wait(1), span(0.002, 0.010)),
            ],
            messages: vec![Message { layer: 1, bytes: 4, span: span(0.001, 0.005) }],
        };
        let window = [step];
        let picture = timeline_picture(&[&window], Overlap::of(&window), "");
        assert!(picture.contains("25 % of the communication hidden"));
        // Ten milliseconds are 1060 pixels wide: four are drawn as exposed, one over it as hidden.
        let width = |colour: &str| {
            let bars =
                picture.lines().filter(|l| l.contains(colour) && !l.contains("width=\"14.00\""));
            let widths =
                bars.map(|l| l.split("width=\"").nth(1).unwrap().split('"').next().unwrap());
            widths.map(|width| width.parse::<f64>().unwrap()).sum::<f64>()
        };
        assert_eq!(width(EXPOSED), 424.0);
        assert_eq!(width(HIDDEN), 106.0);
    }
}
