//! The rows of the ranks and threads of a picture.

use super::look::{BAND, GREY, INK, colour, some};
use crate::Operator;
use crate::TaskId;
use ascend_timeline::draw::svg::Svg;
use std::collections::{BTreeMap, BTreeSet};

/// The left end of the rows.
pub(super) const LEFT: f64 = 132.0;
const ROW: f64 = 20.0;
/// The greatest number of rows of a picture. If there are more threads, a picture has only some of
/// the ranks, with some threads of each.
const MOST_ROWS: usize = 72;
const MOST_RANKS: usize = 8;
const MOST_THREADS: usize = 8;

/// The rows of a picture.
pub(super) struct Rows {
    groups: Vec<Group>,
    /// The middle of the row of each thread that is drawn, by rank and thread.
    middles: BTreeMap<(u32, u32), f64>,
    /// The note about ranks that are not drawn.
    pub(super) note: Option<String>,
    /// The lower end of the last row.
    pub(super) floor: f64,
}

struct Group {
    rank: u32,
    threads: Vec<u32>,
    more: usize,
    top: f64,
    height: f64,
}

impl Rows {
    /// Returns the rows, beginning at `top`. If there is not room for all threads, the threads of
    /// `wanted` tasks come first.
    pub(super) fn of(operator: &Operator, wanted: &[TaskId], top: f64) -> Rows {
        let all: usize = operator.ranks.iter().map(|rank| rank.threads.len()).sum();
        let (ranks, threads) =
            if all <= MOST_ROWS { (usize::MAX, usize::MAX) } else { (MOST_RANKS, MOST_THREADS) };
        let numbers = |count: usize| (0..count).map(|number| number as u32);
        let chosen = first(
            wanted.iter().map(|id| id.rank).chain(numbers(operator.ranks.len())),
            operator.ranks.len(),
            ranks,
        );
        let mut rows =
            Rows { groups: Vec::new(), middles: BTreeMap::new(), note: None, floor: top };
        for rank in chosen {
            let has = operator.ranks.get(rank as usize).map_or(0, |rank| rank.threads.len());
            let here = wanted.iter().filter(|id| id.rank == rank).map(|id| id.thread);
            let chosen = first(here.chain(numbers(has)), has, threads);
            let mut y = rows.floor + 4.0;
            for thread in &chosen {
                rows.middles.insert((rank, *thread), y + ROW / 2.0);
                y += ROW;
            }
            let more = has - chosen.len();
            y += if more > 0 { 16.0 } else { 0.0 };
            let (top, height) = (rows.floor, (y + 4.0 - rows.floor).max(ROW + 8.0));
            rows.groups.push(Group { rank, threads: chosen, more, top, height });
            rows.floor += height + 8.0;
        }
        let left = operator.ranks.len() - rows.groups.len();
        if left > 0 {
            rows.note = Some(format!("{left} more ranks are not drawn; the trace has them."));
        }
        rows
    }

    /// Returns the middle of a thread's row, if the row is drawn.
    pub(super) fn middle(&self, rank: u32, thread: u32) -> Option<f64> {
        self.middles.get(&(rank, thread)).copied()
    }

    /// Returns all threads that are drawn, from the top, each with the middle of its row.
    pub(super) fn threads(&self) -> impl Iterator<Item = (u32, u32, f64)> {
        self.groups.iter().flat_map(move |group| {
            let row = |thread: &u32| Some((group.rank, *thread, self.middle(group.rank, *thread)?));
            group.threads.iter().filter_map(row)
        })
    }

    /// Draws the background of the tasks: a band for each rank, which ends at `right`, and the
    /// names.
    pub(super) fn draw(&self, svg: &mut Svg, right: f64) {
        for group in &self.groups {
            let Group { rank, top, height, .. } = group;
            svg.push(format_args!(
                "<rect x=\"12\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{height:.1}\" rx=\"3\" fill=\"{BAND}\"/>\
                 <rect x=\"12\" y=\"{top:.1}\" width=\"5\" height=\"{height:.1}\" rx=\"2\" fill=\"{}\"/>",
                right - 12.0,
                colour(*rank)
            ));
            let bold = format!("font-weight=\"bold\" fill=\"{INK}\"");
            svg.text(24, format_args!("{:.1}", top + 18.0), &bold, &format!("rank {rank}"));
            let small = format!("font-size=\"11\" fill=\"{GREY}\" text-anchor=\"end\"");
            for thread in &group.threads {
                let name = if *thread == 0 { "main".into() } else { format!("thread {thread}") };
                if let Some(y) = self.middle(*rank, *thread) {
                    svg.text(LEFT - 8.0, format_args!("{:.1}", y + 4.0), &small, &name);
                }
            }
            if group.more > 0 {
                let y = top + height - 7.0;
                let text = format!("and {}", some(group.more, "more thread"));
                let small = format!("font-size=\"11\" fill=\"{GREY}\"");
                svg.text(LEFT, format_args!("{y:.1}"), &small, &text);
            }
        }
    }
}

/// Returns the first `most` different numbers below a limit, in increasing order.
fn first(numbers: impl Iterator<Item = u32>, below: usize, most: usize) -> Vec<u32> {
    let mut chosen = BTreeSet::new();
    for number in numbers.filter(|number| (*number as usize) < below) {
        if chosen.len() == most {
            break;
        }
        chosen.insert(number);
    }
    chosen.into_iter().collect()
}
