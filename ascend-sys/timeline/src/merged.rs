//! Merges all recordings: puts them on one clock, and numbers their devices and threads together.

use crate::entries::{Launch, PrimitiveSpan, TurnSpan};
use crate::record::{Record, Records, Source};
use std::collections::{BTreeSet, HashMap};

/// A device of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// The number of the device in its block.
    pub(crate) device: u32,
    pub(crate) process: u32,
    pub(crate) block: u32,
}

/// The entries of all recordings. The device of an entry is an index into `places`. Threads of
/// different processes have different numbers.
pub(crate) struct Merged {
    pub(crate) places: Vec<Place>,
    pub(crate) processes: usize,
    pub(crate) left_out: u64,
    pub(crate) launches: Vec<Launch>,
    pub(crate) turns: Vec<TurnSpan>,
    pub(crate) primitives: Vec<PrimitiveSpan>,
}

impl Place {
    fn new(Source { process, block, .. }: Source, device: u32) -> Place {
        Place { device, process, block }
    }
}

/// Returns the device field of every entry.
fn devices(record: &mut Record) -> impl Iterator<Item = &mut u32> {
    let launches = record.launches.iter_mut().map(|launch| &mut launch.device);
    let turns = record.turns.iter_mut().map(|turn| &mut turn.device);
    let primitives = record.primitives.iter_mut().map(|one| &mut one.device);
    launches.chain(turns).chain(primitives)
}

impl Merged {
    pub(crate) fn of(records: &Records) -> Merged {
        let mut all: Vec<Record> = records.iter().cloned().collect();
        let places = all.iter_mut().flat_map(|record| {
            let source = record.source;
            devices(record).map(move |device| Place::new(source, *device))
        });
        let places: BTreeSet<Place> = places.collect();
        let places: Vec<Place> = places.into_iter().collect();
        let began = all.iter().map(|record| record.source.began).min().unwrap_or(0);
        let mut threads = HashMap::new();
        let processes = records.processes();
        let (launches, turns, primitives) = Default::default();
        let mut merged = Merged { places, processes, left_out: 0, launches, turns, primitives };
        for mut record in all {
            let source = record.source;
            record.change_times(|time| time.saturating_add(source.began - began));
            for device in devices(&mut record) {
                let place = merged.places.binary_search(&Place::new(source, *device));
                // The search always finds the place: `places` has the devices of all records.
                *device = place.unwrap_or(0) as u32;
            }
            for one in &mut record.primitives {
                let next = threads.len() as u64;
                one.thread = *threads.entry((source.process, one.thread)).or_insert(next);
            }
            merged.left_out = merged.left_out.saturating_add(record.left_out);
            merged.launches.append(&mut record.launches);
            merged.turns.append(&mut record.turns);
            merged.primitives.append(&mut record.primitives);
        }
        merged
    }
}
