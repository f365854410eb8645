//! Draws the falling loss.

use super::svg::{Anchor, GREY, GRID, Svg, Text, round_ticks};

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 500.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = WIDTH - 30.0;
const TOP: f64 = 84.0;
const FLOOR: f64 = HEIGHT - 64.0;

const STEP: &str = "#a9c7e8";
const STEP_WIDTH: f64 = 1.2;
const EPOCH: &str = "#1f5fa8";
const EPOCH_WIDTH: f64 = 2.6;
const DOT: f64 = 4.0;

const MARK: &str = "#b3261e";

/// An event before a step.
#[derive(Clone, Debug)]
pub struct Mark {
    /// The step, from 0.
    pub step: usize,
    /// The description of the event.
    pub text: String,
}

/// Draws the loss of every step, faint, and its mean over each epoch, on a logarithmic axis, with
/// marks for events.
pub fn loss_picture(
    losses: &[f32],
    steps_per_epoch: usize,
    subtitle: &str,
    marks: &[Mark],
) -> String {
    let mut svg = Svg::new(WIDTH, HEIGHT);
    svg.text((LEFT, 36.0), Text::title(), "Training loss");
    svg.text((LEFT, 58.0), Text::small(Anchor::Start), subtitle);

    // A loss of zero has no logarithm.
    let losses: Vec<f64> = losses.iter().map(|&loss| f64::from(loss).max(1e-9)).collect();
    let steps_per_epoch = steps_per_epoch.max(1);
    let epochs: Vec<f64> = losses
        .chunks(steps_per_epoch)
        .map(|epoch| epoch.iter().sum::<f64>() / epoch.len() as f64)
        .collect();

    let scale = Scale::around(&losses);
    scale.draw(&mut svg);
    let last = epochs.len().max(1) as f64;
    let x = |epoch: f64| LEFT + epoch / last * (RIGHT - LEFT);
    for tick in round_ticks(last, 8.0).into_iter().filter(|tick| tick.fract() == 0.0) {
        svg.line((x(tick), FLOOR), (x(tick), FLOOR + 5.0), GREY, "");
        svg.text((x(tick), FLOOR + 21.0), Text::small(Anchor::Middle), tick);
    }
    svg.line((LEFT, TOP), (LEFT, FLOOR), GREY, "");
    svg.line((LEFT, FLOOR), (RIGHT, FLOOR), GREY, "");
    svg.text(((LEFT + RIGHT) / 2.0, HEIGHT - 18.0), Text::small(Anchor::Middle), "epochs");
    svg.text(
        (24.0, (TOP + FLOOR) / 2.0),
        Text { upright: true, ..Text::small(Anchor::Middle) },
        "cross-entropy, mean over the batch",
    );

    for (row, mark) in marks.iter().enumerate() {
        let at = x(mark.step as f64 / steps_per_epoch as f64);
        svg.line((at, TOP), (at, FLOOR), MARK, "4 3");
        // The texts are above the falling curve, one below the other, since marks may be close.
        let y = TOP + 62.0 + 18.0 * row as f64;
        let (anchor, beside) = match at < LEFT + 0.66 * (RIGHT - LEFT) {
            true => (Anchor::Start, 6.0),
            false => (Anchor::End, -6.0),
        };
        svg.text((at + beside, y), Text { fill: MARK, ..Text::small(anchor) }, &mark.text);
    }

    // Each value is drawn in the middle of its span of time.
    let step = |index: usize| x((index as f64 + 0.5) / steps_per_epoch as f64);
    let points: Vec<_> =
        losses.iter().enumerate().map(|(i, &loss)| (step(i), scale.y(loss))).collect();
    svg.curve(&points, STEP, STEP_WIDTH);
    let points: Vec<_> =
        epochs.iter().enumerate().map(|(i, &loss)| (x(i as f64 + 0.5), scale.y(loss))).collect();
    svg.curve(&points, EPOCH, EPOCH_WIDTH);
    // Many points make a line; a few are drawn as dots.
    let dots = points.len() <= 10;
    if dots {
        points.iter().for_each(|&point| svg.dot(point, DOT, EPOCH));
    }
    legend(&mut svg, dots);
    svg.finish()
}

fn legend(svg: &mut Svg, dots: bool) {
    let entries = [(STEP, STEP_WIDTH, "each step"), (EPOCH, EPOCH_WIDTH, "mean of an epoch")];
    for (row, (colour, width, name)) in entries.into_iter().enumerate() {
        let y = TOP + 16.0 + 20.0 * row as f64;
        svg.curve(&[(RIGHT - 180.0, y - 4.0), (RIGHT - 150.0, y - 4.0)], colour, width);
        svg.text((RIGHT - 142.0, y), Text::small(Anchor::Start), name);
        if dots && colour == EPOCH {
            svg.dot((RIGHT - 165.0, y - 4.0), DOT, colour);
        }
    }
}

/// The logarithmic axis, from the logarithm of its lowest value to that of its highest.
struct Scale {
    bottom: f64,
    top: f64,
}

impl Scale {
    fn around(losses: &[f64]) -> Self {
        let low = losses.iter().copied().fold(f64::INFINITY, f64::min);
        let high = losses.iter().copied().fold(0.0, f64::max);
        let (low, high) = if low.is_finite() { (low, high) } else { (0.1, 1.0) };
        let bottom = low.log10() - 0.1;
        Self { bottom, top: (high.log10() + 0.1).max(bottom + 0.5) }
    }

    fn y(&self, loss: f64) -> f64 {
        FLOOR - (loss.log10() - self.bottom) / (self.top - self.bottom) * (FLOOR - TOP)
    }

    /// Draws ticks from 1 to 9 in every decade. Powers of ten have a label. If there are few
    /// decades, 2 and 5 have a label, too.
    fn draw(&self, svg: &mut Svg) {
        let few = self.top - self.bottom < 2.0;
        for decade in self.bottom.floor() as i32..=self.top.floor() as i32 {
            for factor in 1..10 {
                let value = 10f64.powi(decade) * f64::from(factor);
                let y = self.y(value);
                if !(TOP..=FLOOR).contains(&y) {
                    continue;
                }
                svg.line((LEFT - 4.0, y), (LEFT, y), GREY, "");
                if factor == 1 || few && (factor == 2 || factor == 5) {
                    svg.line((LEFT, y), (RIGHT, y), GRID, "");
                    // As few digits as possible, for any sign of the exponent.
                    let label = format!("{factor}e{decade}").parse::<f64>().unwrap_or(value);
                    svg.text((LEFT - 10.0, y + 4.0), Text::small(Anchor::End), label);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_of_the_loss_is_drawn_within_the_frame() {
        for losses in [vec![2.3, 1.0, 0.1, 0.02], vec![0.0; 4], vec![1.0], vec![]] {
            let picture = loss_picture(&losses, 2, "", &[]);
            assert!(!picture.contains("NaN") && !picture.contains("inf"), "{picture}");
            let curve = picture.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
            let points: Vec<(f64, f64)> = curve
                .split_whitespace()
                .map(|point| point.split_once(',').unwrap())
                .map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap()))
                .collect();
            assert_eq!(points.len(), losses.len());
            for (x, y) in points {
                assert!((LEFT..=RIGHT).contains(&x) && (TOP..=FLOOR).contains(&y), "{x}, {y}");
            }
        }
    }

    #[test]
    fn a_single_epoch_is_a_dot() {
        let dots = |losses: &[f32]| loss_picture(losses, 3, "", &[]).matches("<circle").count();
        // One dot is in the picture, the other in its legend.
        assert_eq!(dots(&[2.0, 1.0, 0.5]), 2);
        assert_eq!(dots(&[1.0; 300]), 0);
    }

    #[test]
    fn a_mark_is_a_line_at_its_step_with_its_text() {
        let mark = Mark { step: 2, text: "a rank has died".into() };
        let picture = loss_picture(&[2.0, 1.0, 0.5, 0.2], 2, "", &[mark]);
        let at = (LEFT + RIGHT) / 2.0;
        assert!(picture.contains(&format!("x1=\"{at:.2}\" y1=\"{TOP:.2}\"")), "{picture}");
        assert!(picture.contains(">a rank has died<"));
    }

    #[test]
    fn a_narrow_range_has_labels_too() {
        let picture = loss_picture(&[2.0, 0.3], 2, "", &[]);
        for label in [">2<", ">1<", ">0.5<"] {
            assert!(picture.contains(label), "{label} in {picture}");
        }
    }
}
