//! Pictures that explain notifies and channels, and show how many of them a ring and a mesh use.

use super::drawing::*;
use ascend_operator::Operator;

/// The history of one bit: when it is set, which records are lost, and when each wait ends, if it
/// does.
#[derive(Debug, PartialEq)]
pub struct Bit {
    pub set: Vec<(f64, f64)>,
    pub lost: Vec<f64>,
    pub ends: Vec<Option<f64>>,
}

/// The time of a wait that finds the bit set.
const TAKES: f64 = 0.3;

/// Returns the history of a notify that is recorded and waited for at these times. Waits follow one
/// another.
pub fn bit(records: &[f64], waits: &[f64]) -> Bit {
    let mut bit = Bit { set: Vec::new(), lost: Vec::new(), ends: Vec::new() };
    let mut records = records.iter().copied().peekable();
    for &wait in waits {
        let mut since = None;
        while let Some(record) = records.next_if(|record| *record <= wait || since.is_none()) {
            match since {
                None => since = Some(record),
                Some(_) => bit.lost.push(record),
            }
        }
        bit.ends.push(since.map(|since| since.max(wait) + TAKES));
        bit.set.extend(since.map(|since| (since, since.max(wait) + TAKES)));
    }
    bit
}

pub const LATCHED: [(&[f64], &[f64]); 4] =
    [(&[5.0], &[1.6]), (&[1.6], &[5.0]), (&[1.6, 3.2], &[4.6, 6.4]), (&[1.0, 6.0], &[2.6, 7.6])];

pub fn notify() -> String {
    let titles = [
        "The wait comes first: its thread stands still until the record.",
        "The record comes first: the bit stays set, and the wait clears it and goes on at once.",
        "Two records before the wait count once: the second one finds the bit set. Somebody waits for ever.",
        "So the second record comes after the first wait: here a notify back says that it is over.",
    ];
    let mut d = Drawing::new(760, 496, "A notify is one bit: a record sets it, a wait clears it");
    d.text(
        14.0,
        24.0,
        "font-size=\"15\" font-weight=\"bold\"",
        "A notify is one bit: a record sets it, a wait clears it",
    );
    for (at, ((records, waits), title)) in LATCHED.iter().zip(titles).enumerate() {
        panel(&mut d, 44.0 + 112.0 * at as f64, title, records, waits, at == 3);
    }
    d.finish()
}

fn panel(d: &mut Drawing, top: f64, title: &str, records: &[f64], waits: &[f64], back: bool) {
    let x = |time: f64| 130.0 + time * 68.0;
    let (recorder, strip, waiter) = (top + 32.0, top + 54.0, top + 76.0);
    d.rect((10.0, top), (740.0, 96.0), BAND, "none");
    d.text(20.0, top + 16.0, "font-weight=\"bold\"", title);
    for (y, name) in [(recorder, "one thread"), (strip, "the bit"), (waiter, "another one")] {
        d.text(
            118.0,
            y + 4.0,
            &format!("text-anchor=\"end\" font-size=\"11\" fill=\"{GREY}\""),
            name,
        );
    }
    let bit = bit(records, waits);
    for y in [recorder, waiter] {
        d.line((x(0.0), y), (x(9.0), y), "#c4cbd3", 1.0);
    }
    d.rect((x(0.0), strip - 7.0), (x(9.0) - x(0.0), 14.0), "#ffffff", "#c4cbd3");
    for (from, to) in &bit.set {
        d.rect((x(*from), strip - 7.0), (x(*to) - x(*from), 14.0), ACROSS, ACROSS);
        if to - from > 0.5 {
            d.text(
                (x(*from) + x(*to)) / 2.0,
                strip + 4.0,
                "font-size=\"10\" text-anchor=\"middle\" fill=\"#ffffff\"",
                "set",
            );
        }
    }
    for record in records {
        let lost = bit.lost.contains(record);
        let colour = if lost { WRONG } else { ACROSS };
        d.arrow((x(*record), recorder), (x(*record), strip - 7.0), colour, "");
        d.record((x(*record), recorder), colour);
        d.text(
            x(*record) + 10.0,
            recorder - 4.0,
            &format!("font-size=\"11\" fill=\"{colour}\""),
            if lost { "record, lost" } else { "record" },
        );
    }
    for (wait, end) in waits.iter().zip(&bit.ends) {
        let over = end.unwrap_or(9.0);
        let colour = if end.is_some() { ACROSS } else { WRONG };
        if end.is_none() || over - wait > 0.5 {
            d.rect(
                (x(*wait), waiter - 6.0),
                (x(over) - x(*wait), 12.0),
                if end.is_some() { WAITS } else { "#f3cfcf" },
                "none",
            );
        }
        d.wait((x(*wait), waiter), colour);
        match end {
            Some(end) => d.arrow((x(*end), strip + 7.0), (x(*end), waiter), colour, ""),
            None => d.text(
                x(9.0) - 14.0,
                waiter + 4.0,
                &format!("font-weight=\"bold\" fill=\"{WRONG}\""),
                "?",
            ),
        }
        // The text is next to the ring if there is room.
        let (dx, anchor) = if over - wait > 0.5 { (10.0, "start") } else { (-8.0, "end") };
        let style = format!("font-size=\"11\" text-anchor=\"{anchor}\" fill=\"{colour}\"");
        d.text(x(*wait) + dx, waiter + 4.0, &style, "wait");
    }
    if back {
        let (from, to) = ((x(3.6), waiter), (x(4.8), recorder));
        d.arrow((from.0 + 5.0, from.1), (to.0 - 5.0, to.1), WITHIN, "");
        d.record(from, WITHIN);
        d.wait(to, WITHIN);
    }
}

pub fn channel() -> String {
    let mut d = Drawing::new(860, 500, "A channel joins two ranks");
    d.text(14.0, 24.0, "font-size=\"15\" font-weight=\"bold\"", "A channel joins two ranks: memory of each that the other reaches, and notifies at both ends");
    ends(&mut d);
    let read = Mode {
        title: "The peer reads",
        before: Some("fill buffer"),
        work: "read",
        colours: (RANKS[0], RANKS[1]),
        after: None,
    };
    let write = Mode {
        title: "The peer writes",
        before: None,
        work: "write",
        colours: (RANKS[1], RANKS[0]),
        after: Some("use buffer"),
    };
    mode(&mut d, 10.0, &read);
    mode(&mut d, 435.0, &write);
    d.finish()
}

/// Draws the two ranks and the channel between them.
fn ends(d: &mut Drawing) {
    for (rank, x) in [(0, 10.0), (1, 580.0)] {
        d.rect((x, 44.0), (270.0, 188.0), BAND, "#c4cbd3");
        d.rect((x, 44.0), (270.0, 6.0), RANKS[rank], "none");
        d.text(x + 12.0, 70.0, "font-weight=\"bold\" font-size=\"13\"", &format!("rank {rank}"));
        for (at, name) in ["input", "output"].iter().enumerate() {
            let y = 84.0 + 36.0 * at as f64;
            let left = if rank == 0 { x + 12.0 } else { x + 168.0 };
            d.rect((left, y), (90.0, 28.0), "#ffffff", "#c4cbd3");
            d.text(left + 45.0, y + 18.0, "text-anchor=\"middle\"", name);
        }
        let left = if rank == 0 { x + 12.0 } else { x + 64.0 };
        d.rect((left, 172.0), (194.0, 46.0), RANKS[rank], "#8a95a3");
        d.text(left + 97.0, 192.0, "text-anchor=\"middle\"", "communication buffer");
        d.text(
            left + 97.0,
            208.0,
            &format!("text-anchor=\"middle\" font-size=\"11\" fill=\"{INK}\""),
            "the peer reaches it",
        );
        // The end of the channel.
        let left = if rank == 0 { 196.0 } else { 594.0 };
        d.rect((left, 84.0), (70.0, 64.0), "#ffffff", ACROSS);
        for (at, name) in ["ready", "left"].iter().enumerate() {
            let y = 104.0 + 26.0 * at as f64;
            d.wait((left + 14.0, y), ACROSS);
            d.text(left + 26.0, y + 4.0, "font-size=\"11\"", name);
        }
    }
    d.rect((266.0, 108.0), (328.0, 16.0), "#f0dcc0", "none");
    d.text(430.0, 120.5, "text-anchor=\"middle\" font-weight=\"bold\" font-size=\"11\"", "channel");
    d.arrow((572.0, 92.0), (288.0, 92.0), ACROSS, "");
    d.note(430.0, 86.0, "rank 1 records, rank 0 waits");
    d.arrow((288.0, 142.0), (572.0, 142.0), ACROSS, "");
    d.note(430.0, 158.0, "rank 0 records, rank 1 waits");
    d.arrow((576.0, 188.0), (210.0, 188.0), RANKS[1], "");
    d.note(430.0, 182.0, "rank 1 reads and writes");
    d.arrow((284.0, 206.0), (650.0, 206.0), RANKS[0], "");
    d.note(430.0, 222.0, "rank 0 reads and writes");
}

struct Mode {
    title: &'static str,
    before: Option<&'static str>,
    work: &'static str,
    colours: (&'static str, &'static str),
    after: Option<&'static str>,
}

/// Draws the steps of one use of rank 0's buffer by rank 1, and the owner of the buffer over time.
fn mode(d: &mut Drawing, x: f64, mode: &Mode) {
    let (owner, peer, whose) = (308.0, 366.0, 432.0);
    d.rect((x, 248.0), (415.0, 242.0), BAND, "none");
    d.text(x + 10.0, 268.0, "font-weight=\"bold\"", mode.title);
    let at = |column: u32| x + 92.0 + 54.0 * f64::from(column);
    for (y, name) in [(owner, "rank 0"), (peer, "rank 1")] {
        d.text(x + 10.0, y + 4.0, "", name);
        d.line((x + 60.0, y), (x + 405.0, y), "#c4cbd3", 1.0);
    }
    let shift = u32::from(mode.before.is_some());
    let (expose, enter, leave, reclaim) = (shift, 1 + shift, 3 + shift, 4 + shift);
    d.arrow((at(expose) + 6.0, owner), (at(enter) - 4.0, peer - 5.0), ACROSS, "");
    d.arrow((at(leave) + 6.0, peer), (at(reclaim) - 4.0, owner + 5.0), ACROSS, "");
    d.note((at(expose) + at(enter)) / 2.0 + 30.0, (owner + peer) / 2.0 + 4.0, "ready");
    d.note((at(leave) + at(reclaim)) / 2.0 - 24.0, (owner + peer) / 2.0 + 4.0, "left");
    for (column, text) in [(0, mode.before), (5, mode.after)] {
        if let Some(text) = text {
            d.rect((at(column) - 32.0, owner - 10.0), (70.0, 20.0), RANKS[0], "#8a95a3");
            d.text(at(column) + 3.0, owner + 4.0, "font-size=\"11\" text-anchor=\"middle\"", text);
        }
    }
    d.record((at(expose), owner), ACROSS);
    d.note(at(expose) + 2.0, owner - 16.0, "expose");
    d.wait((at(enter), peer), ACROSS);
    d.note(at(enter), peer + 24.0, "enter");
    d.rect((at(2 + shift) - 24.0, peer - 10.0), (48.0, 20.0), mode.colours.1, "#8a95a3");
    d.rect((at(2 + shift) - 24.0, peer - 10.0), (10.0, 20.0), mode.colours.0, "#8a95a3");
    d.text(at(2 + shift) + 5.0, peer + 4.0, "font-size=\"11\" text-anchor=\"middle\"", mode.work);
    d.record((at(leave), peer), ACROSS);
    d.note(at(leave), peer + 24.0, "leave");
    d.wait((at(reclaim), owner), ACROSS);
    d.note(at(reclaim), owner - 16.0, "reclaim");
    // The owner of the buffer over time.
    let spans = [
        (x + 60.0, at(expose), 0, "rank 0"),
        (at(enter), at(leave), 1, "rank 1"),
        (at(reclaim), x + 405.0, 0, "rank 0"),
    ];
    d.rect((x + 60.0, whose), (345.0, 18.0), "#ffffff", "#c4cbd3");
    for (from, to, rank, name) in spans {
        d.rect((from, whose), (to - from, 18.0), RANKS[rank], "none");
        let name = if to - from > 42.0 { name } else { "" };
        d.text((from + to) / 2.0, whose + 13.0, "font-size=\"11\" text-anchor=\"middle\"", name);
    }
    d.note(x + 232.0, whose + 38.0, "who may touch the buffer of rank 0");
}

/// Returns the numbers of threads, channels and notifies of channels of rank 0.
fn takes(operator: &Operator) -> (usize, usize, u32) {
    let rank = &operator.ranks[0];
    (
        rank.threads.len(),
        rank.channels.len(),
        rank.channels.iter().map(|(_, notifies)| notifies).sum(),
    )
}

pub fn resources(operators: [(&str, &Operator); 2]) -> String {
    let mut d = Drawing::new(760, 400, "What ring and mesh of four ranks take");
    d.text(
        14.0,
        24.0,
        "font-size=\"15\" font-weight=\"bold\"",
        "What ring and mesh of four ranks take",
    );
    for ((name, operator), left) in operators.into_iter().zip([10.0, 385.0]) {
        topology(&mut d, left, name, operator);
    }
    d.finish()
}

fn topology(d: &mut Drawing, left: f64, name: &str, operator: &Operator) {
    const BOX: (f64, f64) = (84.0, 76.0);
    d.rect((left, 40.0), (365.0, 350.0), BAND, "none");
    d.text(left + 12.0, 60.0, "font-weight=\"bold\"", name);
    // The corners go clockwise, so that neighbouring ranks are next to each other.
    let corners = [(48.0, 80.0), (232.0, 80.0), (232.0, 240.0), (48.0, 240.0)];
    let corners = corners.map(|(x, y)| (left + x, y));
    let middle = |rank: usize| (corners[rank].0 + BOX.0 / 2.0, corners[rank].1 + BOX.1 / 2.0);
    let channels = |rank: usize| {
        operator.ranks[rank].channels.iter().map(|(peer, notifies)| (*peer as usize, *notifies))
    };
    for rank in 0..4 {
        for (peer, _) in channels(rank).filter(|(peer, _)| *peer > rank) {
            d.line(middle(rank), middle(peer), "#f0dcc0", 9.0);
        }
    }
    for (rank, (x, y)) in corners.into_iter().enumerate() {
        d.rect((x, y), BOX, "#ffffff", "#8a95a3");
        d.rect((x, y), (BOX.0, 6.0), RANKS[rank], "none");
        d.text(x + 8.0, y + 21.0, "font-weight=\"bold\"", &format!("rank {rank}"));
        for (at, _) in operator.ranks[rank].threads.iter().enumerate() {
            let y = y + 32.0 + 14.0 * at as f64;
            d.line((x + 8.0, y), (x + BOX.0 - 12.0, y), RANKS[rank], 5.0);
            d.push(format_args!(
                "<path d=\"M{:.1} {:.1} l6 4.5 l-6 4.5 z\" fill=\"{}\"/>",
                x + BOX.0 - 13.0,
                y - 4.5,
                RANKS[rank]
            ));
        }
        for (peer, notifies) in channels(rank) {
            let (from, to) = (middle(rank), middle(peer));
            let length = (to.0 - from.0).hypot(to.1 - from.1);
            let (dx, dy) = ((to.0 - from.0) / length, (to.1 - from.1) / length);
            // The signs are just outside the box, side by side along the channel.
            let edge =
                (BOX.0 / 2.0 / dx.abs().max(1e-9)).min(BOX.1 / 2.0 / dy.abs().max(1e-9)) + 8.0;
            for number in 0..notifies {
                let along = edge + 12.0 * f64::from(number);
                d.wait((from.0 + dx * along, from.1 + dy * along), ACROSS);
            }
        }
    }
    let (threads, channels, notifies) = takes(operator);
    d.text(
        left + 182.0,
        344.0,
        "text-anchor=\"middle\" font-weight=\"bold\"",
        &format!("each rank: {threads} threads, {notifies} notifies, {channels} channels"),
    );
    d.note(left + 182.0, 364.0, "a bar is a thread, a line a channel, a ring a notify:");
    d.note(left + 182.0, 379.0, "two at each end of a channel, for “ready” and “left”");
}
