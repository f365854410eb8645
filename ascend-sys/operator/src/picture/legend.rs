//! The legend of a picture, which explains its signs.

use super::look::{self, ACROSS, GREY, INK, WRONG};
use ascend_timeline::draw::svg::Svg;

/// A sign of a picture.
#[derive(Clone, Copy)]
pub(super) enum Sample {
    /// A transfer.
    Box,
    /// A reduction.
    Sum,
    Record,
    Wait,
    /// An arrow in a colour and width.
    Arrow(&'static str, &'static str),
    /// A task that a finding is about.
    Marked,
    /// A wait that does not end.
    Stuck,
    /// The record that would have ended a wait.
    Dashed,
    Question,
    /// A bar of this colour, which stands for a span of time.
    Bar(&'static str),
}

/// Signs and texts, in lines.
pub(super) struct Legend {
    entries: Vec<(f64, f64, Sample, &'static str)>,
    /// The lower end of the legend.
    pub(super) floor: f64,
}

const LINE: f64 = 20.0;
const SIZE: f64 = 11.0;

impl Legend {
    /// Lays the entries out from `top` downwards, with lines that end at `right`.
    pub(super) fn of(
        entries: impl Iterator<Item = (Sample, &'static str)>,
        top: f64,
        right: f64,
    ) -> Legend {
        let mut legend = Legend { entries: Vec::new(), floor: top + LINE };
        let mut x = 14.0;
        for (sample, text) in entries {
            let width = sample.width() + 6.0 + look::width(text, SIZE) + 16.0;
            if x + width > right && x > 14.0 {
                x = 14.0;
                legend.floor += LINE;
            }
            legend.entries.push((x, legend.floor - LINE / 2.0, sample, text));
            x += width;
        }
        legend
    }

    pub(super) fn draw(&self, svg: &mut Svg) {
        for (x, y, sample, text) in &self.entries {
            sample.draw(svg, *x, *y);
            let style = format!("font-size=\"{SIZE}\" fill=\"{GREY}\"");
            let x = x + sample.width() + 6.0;
            svg.text(format!("{x:.1}"), format!("{:.1}", y + 4.0), &style, text);
        }
    }
}

impl Sample {
    const fn width(self) -> f64 {
        match self {
            Sample::Box => 32.0,
            Sample::Sum => 42.0,
            Sample::Record | Sample::Wait | Sample::Stuck => 10.0,
            Sample::Arrow(..) | Sample::Dashed => 26.0,
            Sample::Question => 30.0,
            Sample::Marked | Sample::Bar(_) => 16.0,
        }
    }

    fn draw(self, svg: &mut Svg, x: f64, y: f64) {
        let middle = (x + 5.0, y);
        match self {
            Sample::Box => boxed(svg, (x, y), 32.0, "0→1"),
            Sample::Sum => boxed(svg, (x, y), 42.0, "0→1 +"),
            Sample::Record => look::record(svg, middle, ACROSS, ""),
            Sample::Wait => look::wait(svg, middle, ACROSS, false),
            Sample::Marked => look::halo(svg, (x, y - 8.0), (16.0, 16.0)),
            Sample::Stuck => look::wait(svg, middle, WRONG, true),
            Sample::Arrow(colour, width) => {
                let style = format!("stroke-width=\"{width}\"");
                look::arrow(svg, (x, y), (x + 26.0, y), colour, style, "");
            }
            Sample::Dashed => {
                let style = "stroke-width=\"1.6\" stroke-dasharray=\"5 3\"";
                look::arrow(svg, (x, y), (x + 26.0, y), WRONG, style, "");
            }
            Sample::Question => {
                look::question(svg, (x + 21.0, y), "");
                look::wait(svg, (x + 25.0, y), WRONG, true);
            }
            Sample::Bar(colour) => svg.push(format_args!(
                "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"16\" height=\"12\" fill=\"{colour}\" stroke=\"{GREY}\" stroke-width=\"0.5\"/>",
                y - 6.0
            )),
        }
    }
}

fn boxed(svg: &mut Svg, (x, y): (f64, f64), width: f64, text: &str) {
    let edge = format!("stroke=\"{GREY}\" stroke-width=\"0.6\"");
    let colours = (look::colour(0), look::colour(1));
    look::transfer_box(svg, (x, y - 7.0), (width, 14.0), colours, &edge);
    let style = format!("font-size=\"10\" text-anchor=\"middle\" fill=\"{INK}\"");
    svg.text(format!("{:.1}", x + width / 2.0), format!("{:.1}", y + 3.6), &style, text);
}
