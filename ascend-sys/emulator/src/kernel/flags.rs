//! The synchronisation of the cores of a kernel: counted flags, and barriers of all cores.

use ascend_program::Core;
use ascend_program::step::Mode;
use std::collections::BTreeMap;

/// The largest count that a flag of one core can have.
const MOST: u32 = 15;

/// The flags and barriers of one launch.
pub(super) struct Flags {
    /// The numbers of cube cores and of vector cores.
    cores: [u32; 2],
    /// The number of vector cores of a block.
    ratio: u32,
    /// The number of times that each core has raised a flag, by flag, mode and kind of core.
    raised: BTreeMap<(u16, u8, u8), Vec<u32>>,
    /// The number of times that each core has waited for a flag, by flag and kind of core.
    awaited: BTreeMap<(u16, u8), Vec<u32>>,
    /// The number of times that each core has reached a barrier: first barriers of vector cores,
    /// then barriers of all cores. In each list, cube cores come before vector cores.
    barriers: [Vec<u32>; 2],
}

fn kind(core: Core) -> usize {
    match core {
        Core::Aic => 0,
        Core::Aiv => 1,
    }
}

impl Flags {
    pub(super) fn new(cubes: u32, vectors: u32, ratio: u32) -> Flags {
        let all = vec![0; (cubes + vectors) as usize];
        Flags {
            cores: [cubes, vectors],
            ratio: ratio.max(1),
            raised: BTreeMap::new(),
            awaited: BTreeMap::new(),
            barriers: [all.clone(), all],
        }
    }

    /// Raises a flag on behalf of a core.
    pub(super) fn raise(
        &mut self,
        core: Core,
        index: u32,
        mode: Mode,
        flag: u16,
    ) -> Result<(), String> {
        let cores = self.cores[kind(core)] as usize;
        let counts = self
            .raised
            .entry((flag, mode as u8, kind(core) as u8))
            .or_insert_with(|| vec![0; cores]);
        counts[index as usize] += 1;
        let waited = self.waited(core, index, flag);
        let raised = self.raised[&(flag, mode as u8, kind(core) as u8)][index as usize];
        if mode == Mode::Kind && raised.saturating_sub(waited) > MOST {
            return Err(format!(
                "flag {flag} is raised {} times more often than it was waited for; a core counts \
                 at most {MOST}: wait for it more often",
                raised - waited
            ));
        }
        Ok(())
    }

    fn waited(&self, core: Core, index: u32, flag: u16) -> u32 {
        let counts = self.awaited.get(&(flag, kind(core) as u8));
        counts.map_or(0, |counts| counts[index as usize])
    }

    fn least(&self, flag: u16, mode: Mode, of: Core, cores: std::ops::Range<u32>) -> u32 {
        let Some(counts) = self.raised.get(&(flag, mode as u8, kind(of) as u8)) else { return 0 };
        cores.filter_map(|index| counts.get(index as usize).copied()).min().unwrap_or(0)
    }

    /// Returns the number of times that a flag was raised for a core.
    fn released(&self, core: Core, index: u32, flag: u16) -> u32 {
        let own = self.least(flag, Mode::Kind, core, 0..self.cores[kind(core)]);
        let block = |index: u32| index * self.ratio..(index + 1) * self.ratio;
        let others = match core {
            Core::Aic => self.least(flag, Mode::Block, Core::Aiv, block(index)),
            Core::Aiv => {
                let group = index / self.ratio;
                self.least(flag, Mode::Pair, Core::Aiv, block(group))
                    + self.least(flag, Mode::Block, Core::Aic, group..group + 1)
            }
        };
        own + others
    }

    /// Returns whether a core that waits for a flag may continue. If so, the count of the flag goes
    /// down by one.
    pub(super) fn await_one(&mut self, core: Core, index: u32, flag: u16) -> bool {
        if self.released(core, index, flag) <= self.waited(core, index, flag) {
            return false;
        }
        let cores = self.cores[kind(core)] as usize;
        let counts = self.awaited.entry((flag, kind(core) as u8)).or_insert_with(|| vec![0; cores]);
        counts[index as usize] += 1;
        true
    }

    /// Notes that a core has reached a barrier. Returns the barrier's number.
    pub(super) fn arrive(&mut self, core: Core, index: u32, vector: bool) -> u32 {
        let at = self.at(core, index);
        let counts = &mut self.barriers[usize::from(!vector)];
        counts[at] += 1;
        counts[at]
    }

    fn at(&self, core: Core, index: u32) -> usize {
        match core {
            Core::Aic => index as usize,
            Core::Aiv => (self.cores[0] + index) as usize,
        }
    }

    /// Returns whether all cores, or all vector cores if `vector` is true, have reached the barrier
    /// with this number.
    pub(super) fn is_open(&self, vector: bool, number: u32) -> bool {
        let first = if vector { self.cores[0] as usize } else { 0 };
        self.barriers[usize::from(!vector)][first..].iter().all(|count| *count >= number)
    }

    /// Returns the names of the cores that have not reached the barrier.
    pub(super) fn missing(&self, vector: bool, number: u32) -> Vec<String> {
        let cubes = self.cores[0] as usize;
        let first = if vector { cubes } else { 0 };
        let counts = self.barriers[usize::from(!vector)].iter().enumerate().skip(first);
        let late = counts.filter(|(_, count)| **count < number);
        late.map(
            |(at, _)| {
                if at < cubes { format!("AIC {at}") } else { format!("AIV {}", at - cubes) }
            },
        )
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_of_a_kind_releases_when_all_of_the_kind_have_raised_it() {
        let mut flags = Flags::new(2, 4, 2);
        flags.raise(Core::Aic, 0, Mode::Kind, 8).unwrap();
        assert!(!flags.await_one(Core::Aic, 0, 8));
        flags.raise(Core::Aic, 1, Mode::Kind, 8).unwrap();
        assert!(flags.await_one(Core::Aic, 0, 8) && flags.await_one(Core::Aic, 1, 8));
        assert!(!flags.await_one(Core::Aic, 0, 8) && !flags.await_one(Core::Aiv, 0, 8));
    }

    #[test]
    fn flags_of_a_block_stay_in_it() {
        let mut flags = Flags::new(2, 4, 2);
        flags.raise(Core::Aic, 1, Mode::Block, 9).unwrap();
        assert!(!flags.await_one(Core::Aiv, 1, 9));
        assert!(flags.await_one(Core::Aiv, 2, 9) && flags.await_one(Core::Aiv, 3, 9));
        flags.raise(Core::Aiv, 0, Mode::Block, 10).unwrap();
        assert!(!flags.await_one(Core::Aic, 0, 10));
        flags.raise(Core::Aiv, 1, Mode::Block, 10).unwrap();
        assert!(flags.await_one(Core::Aic, 0, 10) && !flags.await_one(Core::Aic, 1, 10));
        flags.raise(Core::Aiv, 2, Mode::Pair, 8).unwrap();
        flags.raise(Core::Aiv, 3, Mode::Pair, 8).unwrap();
        assert!(flags.await_one(Core::Aiv, 2, 8) && !flags.await_one(Core::Aiv, 0, 8));
    }

    #[test]
    fn flags_count_to_fifteen() {
        let mut flags = Flags::new(0, 1, 1);
        (0..15).for_each(|_| flags.raise(Core::Aiv, 0, Mode::Kind, 8).unwrap());
        assert!(flags.raise(Core::Aiv, 0, Mode::Kind, 8).unwrap_err().contains("15"));
    }

    #[test]
    fn a_barrier_opens_when_all_have_come() {
        let mut flags = Flags::new(1, 2, 2);
        let number = flags.arrive(Core::Aiv, 0, true);
        assert!(!flags.is_open(true, number));
        assert_eq!(flags.missing(true, number), ["AIV 1"]);
        flags.arrive(Core::Aiv, 1, true);
        assert!(flags.is_open(true, number) && !flags.is_open(false, 1));
        flags.arrive(Core::Aic, 0, false);
        assert_eq!(flags.missing(false, 1), ["AIV 0", "AIV 1"]);
    }
}
