//! Lays the recorded entries out in rows: first those of each device, then those of the links.
//!
//! The spans of a row follow one another, and the parts of a span lie within it. Launches that
//! overlap in time on a device have separate rows, and so have communicators that overlap.

use crate::chart::{Chart, Row, RowGroup, RowKind, Says, Span, SpanKind};
use crate::entries::{
    Block, CoreKind, Doing, Launch, Moved, Part, PrimitiveSpan, ServersKey, TurnSpan,
};
use crate::merged::{Merged, Place};
use crate::record::Records;
use crate::threads;
use std::collections::{BTreeMap, BTreeSet};

/// The key of a row of the links: the lane of the communicator, whether the row shows one-sided
/// writes, the source rank and the destination rank.
type Link = (usize, bool, usize, usize);

impl Chart {
    /// Returns the chart of all records.
    pub(super) fn of(records: &Records) -> Chart {
        let kept = &Merged::of(records);
        let starts = kept.launches.iter().map(|launch| launch.from);
        let starts = starts.chain(kept.turns.iter().map(|turn| turn.from));
        let zero = starts.chain(kept.primitives.iter().map(|one| one.from)).min().unwrap_or(0);
        let ends = kept.launches.iter().map(|launch| launch.to);
        let ends = ends.chain(kept.turns.iter().map(|turn| turn.to));
        let end = ends.chain(kept.primitives.iter().map(|one| one.to)).max().unwrap_or(0);

        let of_launches = kept.launches.iter().map(|launch| launch.device);
        let of_turns = kept.turns.iter().map(|turn| turn.device);
        let of_threads = kept.primitives.iter().map(|one| one.device);
        let devices: BTreeSet<u32> = of_launches.chain(of_turns).chain(of_threads).collect();
        let ranks = threads::ranks(&kept.primitives, &kept.places);
        let met = meetings(&kept.turns);
        let lanes = lanes_of_servers(&kept.turns);
        let mut groups: Vec<RowGroup> = Vec::new();
        let mut named: BTreeMap<String, Vec<(usize, Option<Place>)>> = BTreeMap::new();
        for device in devices {
            let launches = kept.launches.iter().filter(|launch| launch.device == device).collect();
            let turns: Vec<&TurnSpan> =
                kept.turns.iter().filter(|turn| turn.device == device).collect();
            let primitives: Vec<&PrimitiveSpan> =
                kept.primitives.iter().filter(|one| one.device == device).collect();
            let of_threads = primitives.iter().filter_map(|one| one.rank);
            let place = kept.places.get(device as usize).copied();
            let name = name_of_device(&launches, &turns, of_threads, place);
            let mut rows = rows_of_launches(launches);
            rows.extend(rows_of_servers(&turns, &lanes, &met));
            rows.extend(threads::rows(&primitives, &ranks));
            named.entry(name.clone()).or_default().push((groups.len(), place));
            groups.push(RowGroup { name, rows });
        }
        tell_apart(&mut groups, named);
        let links = rows_of_links(&kept.turns, &lanes, &met);
        if !links.is_empty() {
            groups.push(RowGroup { name: "links".into(), rows: links });
        }
        for row in groups.iter_mut().flat_map(|group| &mut group.rows) {
            row.spans.iter_mut().for_each(|span| span.shift(zero));
            row.marks.iter_mut().for_each(|mark| mark.0 = mark.0.saturating_sub(zero));
            row.spans.sort_by_key(|span| (span.from, span.to));
        }
        let flows = threads::flows(&kept.primitives, zero);
        let (title, length) = (title(kept), end - zero);
        Chart { title, length, groups, flows, left_out: kept.left_out }
    }
}

/// Returns the title. It has the number of processes if there are several.
fn title(kept: &Merged) -> String {
    let what = title_of_one(kept);
    match kept.processes {
        0 | 1 => what,
        several => format!("{what} in {several} processes"),
    }
}

/// Adds the process and the block to each name that several groups share.
fn tell_apart(groups: &mut [RowGroup], named: BTreeMap<String, Vec<(usize, Option<Place>)>>) {
    for (name, several) in named.into_iter().filter(|(_, several)| several.len() > 1) {
        for (group, place) in several {
            let Some(Place { process, block, .. }) = place else { continue };
            groups[group].name = format!("{name} of block {block} in process {process}");
        }
    }
}

fn title_of_one(kept: &Merged) -> String {
    let names: BTreeSet<&str> = kept.launches.iter().map(|launch| launch.kernel.as_str()).collect();
    let devices: BTreeSet<u32> = kept.launches.iter().map(|launch| launch.device).collect();
    let count =
        |n: usize, one: &str, many: &str| format!("{n} {}", if n == 1 { one } else { many });
    if kept.launches.is_empty() && !kept.primitives.is_empty() {
        let devices: BTreeSet<u32> = kept.primitives.iter().map(|one| one.device).collect();
        let primitives = count(kept.primitives.len(), "primitive", "primitives");
        let devices = count(devices.len(), "device", "devices");
        return format!("Threads of operators: {primitives} on {devices}");
    }
    let what = match names.len() {
        0 => "no kernel".to_owned(),
        1..=3 => names.into_iter().collect::<Vec<_>>().join(", "),
        n => format!("{n} kernels"),
    };
    let launches = count(kept.launches.len(), "launch", "launches");
    format!("{what}: {launches} on {}", count(devices.len(), "device", "devices"))
}

/// Returns the name of a device: "rank 2" if the device has rank 2 in all its entries, else the
/// number of the device.
fn name_of_device(
    launches: &Vec<&Launch>,
    turns: &[&TurnSpan],
    of_threads: impl Iterator<Item = usize>,
    place: Option<Place>,
) -> String {
    let of_launches = launches.iter().flat_map(|launch| &launch.ranks).copied();
    let of_turns = turns.iter().map(|turn| turn.rank);
    let ranks: BTreeSet<usize> = of_launches.chain(of_turns).chain(of_threads).collect();
    match (ranks.len(), ranks.first()) {
        (1, Some(rank)) => format!("rank {rank}"),
        _ => format!("device {}", place.map_or(0, |place| place.device)),
    }
}

/// Returns, for each turn in which ranks meet, the time when the last rank arrived.
fn meetings(turns: &[TurnSpan]) -> BTreeMap<(ServersKey, u64), u64> {
    let mut met = BTreeMap::new();
    for turn in turns.iter().filter(|turn| turn.meets) {
        let last = met.entry((turn.servers, turn.number)).or_insert(turn.from);
        *last = turn.from.max(*last);
    }
    met
}

/// Lanes for spans: spans that overlap in time are in different lanes. Each element is the end of
/// the last span of a lane.
#[derive(Default)]
struct Lanes(Vec<u64>);

impl Lanes {
    /// Puts a span into the first free lane and returns that lane. The caller must add spans in the
    /// order of their starts.
    fn place(&mut self, from: u64, to: u64) -> usize {
        let lane = self.0.iter().position(|until| *until <= from).unwrap_or(self.0.len());
        match self.0.get_mut(lane) {
            Some(until) => *until = to,
            None => self.0.push(to),
        }
        lane
    }
}

/// Returns the suffix for the names of the rows of a lane.
fn beside(lane: usize) -> String {
    if lane == 0 { String::new() } else { format!(" ({})", lane + 1) }
}

/// Returns the lane of each communicator. A communicator occupies its lane from its first turn on
/// any device to its last.
fn lanes_of_servers(turns: &[TurnSpan]) -> BTreeMap<ServersKey, usize> {
    let mut times: BTreeMap<ServersKey, (u64, u64)> = BTreeMap::new();
    for turn in turns {
        let (from, to) = times.entry(turn.servers).or_insert((turn.from, turn.to));
        (*from, *to) = (turn.from.min(*from), turn.to.max(*to));
    }
    let mut times: Vec<_> = times.into_iter().collect();
    times.sort_by_key(|(_, time)| *time);
    let mut lanes = Lanes::default();
    times.into_iter().map(|(servers, (from, to))| (servers, lanes.place(from, to))).collect()
}

fn rows_of_launches(mut launches: Vec<&Launch>) -> Vec<Row> {
    launches.sort_by_key(|launch| (launch.from, launch.to));
    let mut lanes = Lanes::default();
    let mut rows: BTreeMap<(usize, RowKind, u32), Row> = BTreeMap::new();
    for launch in launches {
        let lane = lanes.place(launch.from, launch.to);
        let beside = beside(lane);
        let mut says = vec![("blocks", Says::Number(launch.blocks.into()))];
        says.extend(launch.failure.iter().map(|text| ("failure", Says::Text(text.clone()))));
        let look = if launch.failure.is_some() { SpanKind::Failed } else { SpanKind::Kernel };
        let (name, from, to) = (launch.kernel.clone(), launch.from, launch.to);
        let span = Span { name, look, from, to, says, parts: Vec::new() };
        let new = |kind, name| Row::new(name, kind);
        rows.entry((lane, RowKind::Kernel, 0))
            .or_insert_with(|| new(RowKind::Kernel, format!("kernel{beside}")))
            .spans
            .push(span);
        for core in &launch.cores {
            let (kind, name) = match core.kind {
                CoreKind::Cube => (RowKind::Cube, "AIC"),
                CoreKind::Vector => (RowKind::Vector, "AIV"),
            };
            let row = rows
                .entry((lane, kind, core.core_index))
                .or_insert_with(|| new(kind, format!("{name} {}{beside}", core.core_index)));
            row.spans.push(block(core, launch));
            row.marks.extend(core.marks.iter().cloned());
        }
    }
    rows.into_values().collect()
}

fn block(core: &Block, launch: &Launch) -> Span {
    let mut products = core.products.iter().peekable();
    let mut parts: Vec<Span> = core.parts.iter().map(part).collect();
    for part in parts.iter_mut().filter(|part| part.look == SpanKind::Runs) {
        while let Some(product) = products.next_if(|product| product.to <= part.to) {
            if product.from >= part.from {
                part.parts.push(self::part(product));
            }
        }
    }
    Span {
        name: format!("block {}", core.block),
        look: SpanKind::Block,
        from: core.from,
        to: core.to,
        says: vec![
            ("kernel", Says::Text(launch.kernel.clone())),
            ("core", Says::Number(core.index.into())),
        ],
        parts,
    }
}

fn part(part: &Part) -> Span {
    let (name, look, says) = match &part.what {
        Doing::Runs { first, last, interpreted } => {
            let lines = [("from", first), ("to", last)];
            let mut says: Vec<_> =
                lines.into_iter().map(|(key, line)| (key, Says::Text(line.clone()))).collect();
            says.push(("interpreted_us", Says::Time(*interpreted)));
            ("runs".to_owned(), SpanKind::Runs, says)
        }
        Doing::Waits { what, place } => {
            (format!("waits: {what}"), SpanKind::Waits, vec![("at", Says::Text(place.clone()))])
        }
        Doing::Multiplies { sizes: [rows, columns, depth] } => {
            let name = format!("product {rows}x{columns}x{depth}");
            let says = [("rows", *rows), ("columns", *columns), ("depth", *depth)];
            let says = says.into_iter().map(|(key, n)| (key, Says::Number(n))).collect();
            (name, SpanKind::Multiplies, says)
        }
    };
    Span { name, look, from: part.from, to: part.to, says, parts: Vec::new() }
}

fn rows_of_servers(
    turns: &[&TurnSpan],
    lanes: &BTreeMap<ServersKey, usize>,
    met: &BTreeMap<(ServersKey, u64), u64>,
) -> Vec<Row> {
    let mut rows: BTreeMap<usize, Row> = BTreeMap::new();
    for turn in turns {
        let lane = lanes.get(&turn.servers).copied().unwrap_or(0);
        let row = rows.entry(lane).or_insert_with(|| {
            let name = format!("server{}", beside(lane));
            Row::new(name, RowKind::Server)
        });
        let mut span = Span {
            name: turn.name.clone(),
            look: if turn.meets { SpanKind::Turn } else { SpanKind::Moves },
            from: turn.from,
            to: turn.to,
            says: vec![
                ("operation", Says::Text(turn.operation.clone())),
                ("communicator", Says::Text(turn.group.clone())),
                ("prepared", Says::Text(turn.place.clone())),
                ("bytes", Says::Number(sum_of(turn.moved.iter().map(|moved| moved.bytes)))),
            ],
            parts: Vec::new(),
        };
        if turn.meets {
            let met = turn.met(met);
            let part = |name: &str, look, from, to| Span {
                name: name.into(),
                look,
                from,
                to,
                says: Vec::new(),
                parts: Vec::new(),
            };
            span.parts.push(part("waits for the other ranks", SpanKind::Meets, turn.from, met));
            span.parts.push(part("moves", SpanKind::Moves, met, turn.to));
        }
        row.spans.push(span);
    }
    rows.into_values().collect()
}

/// Returns the sum of the numbers. The sum saturates.
fn sum_of(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

fn rows_of_links(
    turns: &[TurnSpan],
    lanes: &BTreeMap<ServersKey, usize>,
    met: &BTreeMap<(ServersKey, u64), u64>,
) -> Vec<Row> {
    let mut rows: BTreeMap<Link, Row> = BTreeMap::new();
    for turn in turns {
        let lane = lanes.get(&turn.servers).copied().unwrap_or(0);
        let one_sided = turn.operation.ends_with("Write");
        for Moved { from, to, bytes } in &turn.moved {
            let row = rows.entry((lane, one_sided, *from, *to)).or_insert_with(|| {
                let writes = if one_sided { " writes" } else { "" };
                let name = format!("{from} → {to}{writes}{}", beside(lane));
                Row::new(name, RowKind::Link)
            });
            row.spans.push(Span {
                name: turn.name.clone(),
                look: SpanKind::Carries,
                from: turn.met(met),
                to: turn.to,
                says: vec![
                    ("bytes", Says::Number(*bytes)),
                    ("operation", Says::Text(turn.operation.clone())),
                    ("communicator", Says::Text(turn.group.clone())),
                ],
                parts: Vec::new(),
            });
        }
    }
    rows.into_values().collect()
}

impl TurnSpan {
    /// Returns the time when data began to move, in nanoseconds.
    fn met(&self, met: &BTreeMap<(ServersKey, u64), u64>) -> u64 {
        let last = if self.meets { met.get(&(self.servers, self.number)) } else { None };
        last.map_or(self.from, |last| (*last).clamp(self.from, self.to))
    }
}
