//! Draws the ranks' computation and communication over time.

use std::ops::Range;

use super::overlap::{Phase, Piece, Timeline};
use super::svg::{Anchor, GREY, GRID, INK, Svg, Text, round_ticks};
use super::timeline::{Activity, Message, Span};

const WIDTH: f64 = 920.0;
const MARGIN: f64 = 24.0;
const LEFT: f64 = 156.0;
const RIGHT: f64 = WIDTH - 24.0;
const LANE: f64 = 26.0;
/// The height of a rank: two lanes and the space below them.
const RANK: f64 = 2.0 * LANE + 22.0;

const FORWARD: &str = "#2f6db3";
const BACKWARD: &str = "#7fb0e0";
const UPDATE: &str = "#a78bca";
const ENQUEUE: &str = "#6b7785";
const WAIT: &str = "#eceff3";

const MOVING_HIDDEN: &str = "#2e9460";
const MOVING_EXPOSED: &str = "#d8481f";
const WAITING_HIDDEN: &str = "#bfe2cd";
const WAITING_EXPOSED: &str = "#fbd6b4";

/// Draws some steps of every rank: the activities of its thread above, the messages of its stream
/// below.
pub fn timeline_picture(
    timeline: &Timeline,
    steps: Range<usize>,
    title: &str,
    subtitles: &[String],
) -> String {
    let legend_top = 54.0 + 20.0 * subtitles.len() as f64;
    let with_waiting = timeline.ranks().len() > 1;
    let top = legend_top + if with_waiting { 122.0 } else { 96.0 };
    let floor = top + RANK * timeline.ranks().len() as f64;
    let mut svg = Svg::new(WIDTH, floor + 60.0);
    svg.text((MARGIN, 36.0), Text::title(), title);
    for (row, subtitle) in subtitles.iter().enumerate() {
        svg.text((MARGIN, 58.0 + 20.0 * row as f64), Text::small(Anchor::Start), subtitle);
    }
    legend(&mut svg, legend_top, with_waiting);

    let whole = timeline.span(&steps).unwrap_or(Span { from: 0.0, to: 0.0 });
    let axis = Axis { zero: whole.from, length: whole.seconds().max(1e-6) };
    axis.draw(&mut svg, top, floor);

    for rank in 0..timeline.ranks().len() {
        let compute = top + RANK * rank as f64;
        let communication = compute + LANE;
        let name = Text { bold: true, fill: INK, ..Text::small(Anchor::Start) };
        svg.text((MARGIN, compute + LANE + 2.0), name, format!("rank {rank}"));
        let lane = Text { size: 12.0, ..Text::small(Anchor::End) };
        svg.text((LEFT - 10.0, compute + 16.0), lane, "thread");
        svg.text((LEFT - 10.0, communication + 16.0), lane, "gradients");
        for step in steps.clone() {
            let activities = &timeline.ranks()[rank][step].activities;
            if let Some((_, first)) = activities.first() {
                let x = axis.x(first.from);
                svg.line((x, compute - 6.0), (x, communication + LANE), GREY, "2 3");
            }
            let bars = activities.iter().map(|(what, span)| axis.bar(*span, activity_fill(*what)));
            merged(bars).iter().for_each(|bar| bar.draw(&mut svg, compute));

            for (message, last) in timeline.messages(rank, step) {
                let pieces = timeline.pieces(rank, step, message, last);
                let bars = pieces.iter().map(|piece| axis.bar(piece.span, piece_fill(piece)));
                draw_message(&mut svg, communication, &merged(bars), message);
            }
        }
    }
    svg.line((LEFT, floor), (RIGHT, floor), GREY, "");
    svg.finish()
}

/// Draws the bars of a bucket, an edge between it and the next bucket, and its layer in the widest
/// bar if there is room.
fn draw_message(svg: &mut Svg, lane: f64, bars: &[Bar], message: &Message) {
    let (Some(first), Some(last)) = (bars.first(), bars.last()) else { return };
    bars.iter().for_each(|bar| bar.draw(svg, lane));
    let (from, to) = (first.from, last.to);
    if to - from > 4.0 {
        svg.line((to, lane), (to, lane + LANE - 3.0), "#ffffff", "");
    }
    let widest = bars.iter().max_by(|a, b| a.width().total_cmp(&b.width()));
    if let Some(bar) = widest.filter(|bar| bar.width() > 14.0) {
        let dark = [MOVING_HIDDEN, MOVING_EXPOSED].contains(&bar.fill);
        let fill = if dark { "#ffffff" } else { INK };
        let label = Text { fill, bold: true, ..Text::small(Anchor::Middle) };
        svg.text(((bar.from + bar.to) / 2.0, lane + 16.0), label, message.layer);
    }
}

/// The time axis, from left to right, in seconds.
struct Axis {
    zero: f64,
    length: f64,
}

impl Axis {
    fn x(&self, time: f64) -> f64 {
        (LEFT + (time - self.zero) / self.length * (RIGHT - LEFT)).clamp(LEFT, RIGHT)
    }

    fn bar(&self, span: Span, fill: &'static str) -> Bar {
        Bar { from: self.x(span.from), to: self.x(span.to), fill }
    }

    fn draw(&self, svg: &mut Svg, top: f64, floor: f64) {
        for tick in round_ticks(self.length * 1e3, 10.0) {
            let x = self.x(self.zero + tick / 1e3);
            svg.line((x, top - 8.0), (x, floor), GRID, "");
            // This removes the digits that only floating point adds.
            let label = (tick * 1e6).round() / 1e6;
            svg.text((x, floor + 18.0), Text::small(Anchor::Middle), label);
        }
        let middle = ((LEFT + RIGHT) / 2.0, floor + 44.0);
        svg.text(middle, Text::small(Anchor::Middle), "milliseconds");
    }
}

/// A stretch of a lane, in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bar {
    from: f64,
    to: f64,
    fill: &'static str,
}

impl Bar {
    fn width(&self) -> f64 {
        self.to - self.from
    }

    fn is_sliver(&self) -> bool {
        self.width() < 1.0
    }

    fn draw(&self, svg: &mut Svg, lane: f64) {
        svg.rect((self.from, lane), (self.width().max(1.0), LANE - 3.0), self.fill);
    }
}

/// Merges bars that the eye cannot distinguish. It joins neighbours of one colour, and adds a bar
/// that is thinner than a pixel to its neighbour.
fn merged(bars: impl Iterator<Item = Bar>) -> Vec<Bar> {
    let mut merged: Vec<Bar> = Vec::new();
    for bar in bars {
        match merged.last_mut() {
            Some(last) if bar.from - last.to < 1.0 => {
                if last.fill == bar.fill || bar.is_sliver() {
                    last.to = bar.to;
                } else if last.is_sliver() {
                    *last = Bar { from: last.from, ..bar };
                } else {
                    // The bars must touch, so that no background shows between the two.
                    let from = last.to;
                    merged.push(Bar { from, ..bar });
                }
            }
            _ => merged.push(bar),
        }
    }
    merged
}

fn activity_fill(activity: Activity) -> &'static str {
    match activity {
        Activity::Forward => FORWARD,
        Activity::Backward(_) => BACKWARD,
        Activity::Enqueue(_) => ENQUEUE,
        Activity::Wait(_) => WAIT,
        Activity::Update(_) => UPDATE,
    }
}

fn piece_fill(piece: &Piece) -> &'static str {
    match (piece.phase, piece.hidden) {
        (Phase::Moving, true) => MOVING_HIDDEN,
        (Phase::Moving, false) => MOVING_EXPOSED,
        (Phase::Waiting, true) => WAITING_HIDDEN,
        (Phase::Waiting, false) => WAITING_EXPOSED,
    }
}

fn legend(svg: &mut Svg, top: f64, with_waiting: bool) {
    let thread = [
        (FORWARD, "forward"),
        (BACKWARD, "backward"),
        (UPDATE, "optimiser"),
        (ENQUEUE, "enqueuing"),
        (WAIT, "waiting for a sum"),
    ];
    let moving = [(MOVING_HIDDEN, "moving, hidden"), (MOVING_EXPOSED, "moving, exposed")];
    let waiting = [
        (WAITING_HIDDEN, "waiting for the last rank, hidden"),
        (WAITING_EXPOSED, "waiting for the last rank, exposed"),
    ];
    let rows = [("thread", &thread[..]), ("gradients", &moving[..]), ("", &waiting[..])];
    let rows = if with_waiting { &rows[..] } else { &rows[..2] };
    for (row, (lane, entries)) in rows.iter().enumerate() {
        let y = top + 26.0 * row as f64;
        let name = Text { bold: true, fill: INK, ..Text::small(Anchor::Start) };
        svg.text((MARGIN, y + 11.5), name, *lane);
        let mut x = MARGIN + 78.0;
        for (fill, name) in *entries {
            svg.rect((x, y), (14.0, 14.0), fill);
            svg.text((x + 20.0, y + 11.5), Text::small(Anchor::Start), name);
            // The width of a letter in DejaVu Sans, the widest of the fonts.
            x += 36.0 + 7.8 * name.len() as f64;
        }
    }
    let note = "The number is the layer. Hidden: while the thread of the same rank computes. Dotted: a step begins.";
    let y = top + 26.0 * rows.len() as f64 + 11.0;
    svg.text((MARGIN + 78.0, y), Text::small(Anchor::Start), note);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::timeline::Step;

    fn span(from: f64, to: f64) -> Span {
        Span { from, to }
    }

    #[test]
    fn every_part_of_a_bucket_has_its_width() {
        let step = |arrived| Step {
            activities: vec![
                (Activity::Forward, span(0.0, 0.002)),
                (Activity::Wait(1), span(0.002, 0.010)),
            ],
            messages: vec![Message { layer: 1, bytes: 4, span: span(0.001, 0.006), arrived }],
        };
        let (early, late) = ([step(0.0015)], [step(0.003)]);
        let timeline = Timeline::new(vec![&early, &late]);
        let picture = timeline_picture(&timeline, 0..1, "", &[]);
        // The whole is 10 milliseconds and 740 pixels wide.
        let milliseconds = |colour: &str| {
            let lines = picture.lines().filter(|line| line.contains(colour));
            let bars = lines.filter(|line| !line.contains("width=\"14.00\""));
            let widths =
                bars.map(|l| l.split("width=\"").nth(1).unwrap().split('"').next().unwrap());
            widths.map(|width| width.parse::<f64>().unwrap()).sum::<f64>() / 74.0
        };
        assert_eq!(milliseconds(MOVING_HIDDEN), 0.5 + 1.0);
        assert_eq!(milliseconds(WAITING_HIDDEN), 0.5);
        assert_eq!(milliseconds(WAITING_EXPOSED), 1.0);
        assert_eq!(milliseconds(MOVING_EXPOSED), 3.0 + 4.0);
        assert_eq!(milliseconds(FORWARD), 4.0);
    }

    #[test]
    fn slivers_are_joined_with_their_neighbours() {
        let bar = |from, to, fill| Bar { from, to, fill };
        let bars = [
            bar(0.0, 0.4, "a"),
            bar(0.4, 5.0, "b"),
            bar(5.2, 8.0, "b"),
            bar(8.0, 8.5, "c"),
            bar(8.6, 12.0, "d"),
            bar(20.0, 20.1, "e"),
        ];
        let expected = [bar(0.0, 8.5, "b"), bar(8.5, 12.0, "d"), bar(20.0, 20.1, "e")];
        assert_eq!(merged(bars.into_iter()), expected);
    }
}
