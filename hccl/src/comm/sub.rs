//! Parts of a communicator: communicators of some of its ranks.

use std::sync::Arc;

use ascend_sys::{HcclComm, HcclCommConfig};

use super::handle::{KeptComm, Origin};
use super::{CommConfig, Communicator, Member};
use crate::api::call;
use crate::device::{Device, Stream};
use crate::error::{Error, OpContext, Result};
use crate::memory::DeviceBuffer;
use crate::order::work::Work;
use crate::pending::Pending;

/// The first identifier that splits use. Subsets use smaller identifiers.
const SPLITS: u64 = 1 << 32;

const SUBSET: &str = "subset";
const SPLIT: &str = "split";

impl Communicator {
    /// Makes a communicator of some ranks of this communicator. The position of a rank in `ranks`
    /// is its rank in the new communicator.
    ///
    /// All members must call this with the same `ranks` and the same `id`. The `id` distinguishes
    /// the subset from other subsets of this communicator. A rank that is not a member gets `None`,
    /// and need not call this. The members wait for one another only in the first operation of the
    /// new communicator.
    ///
    /// Returns a future at once: see [`Pending`].
    ///
    /// The name of the new communicator is the name of this communicator, `_sub_` and the `id`,
    /// unless [`subset_with`](Self::subset_with) gives a name. CANN: `HcclCreateSubCommConfig`.
    ///
    /// # Errors
    ///
    /// * [`Error::Empty`] if `ranks` is empty.
    /// * [`Error::NoSuchRank`] for a rank that this communicator does not have.
    /// * [`Error::Invalid`] if a rank is named twice, if `id` is `u32::MAX`, which CANN reserves,
    ///   or if this communicator is itself a part of a communicator, which CANN does not divide.
    /// * [`Error::Aborted`] if this communicator was aborted.
    /// * Otherwise the error of CANN, for example if the name is in use on the device.
    ///
    /// ```
    /// use hccl::prelude::*;
    ///
    /// # fn main() -> hccl::Result<()> {
    /// let runtime = Runtime::emulator(4)?;
    /// let told = runtime.run_ranks(4, |rank| -> hccl::Result<_> {
    ///     let stream = rank.device().stream()?;
    ///     let mut world = rank.communicator()?;
    ///     // The outer ranks, the last one first.
    ///     let Some(mut outer) = world.subset(&[3, 0], 1).wait()? else { return Ok(None) };
    ///     let mut x = rank.device().upload(&[10 + outer.rank()], &stream)?;
    ///     outer.broadcast(&mut x, 0, &stream)?;
    ///     Ok(Some((world.rank(), outer.rank(), x.to_vec(&stream).wait()?)))
    /// })?;
    /// assert_eq!(told, [Some((0, 1, vec![10])), None, None, Some((3, 0, vec![10]))]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn subset(&mut self, ranks: &[u32], id: u32) -> Pending<Option<Communicator>> {
        self.subset_with(ranks, id, CommConfig::default())
    }

    /// Makes a communicator as [`subset`](Self::subset) does, with settings. All members must give
    /// the same settings. A setting that CANN would reject or ignore is an [`Error::Config`].
    pub fn subset_with(
        &mut self,
        ranks: &[u32],
        id: u32,
        config: CommConfig,
    ) -> Pending<Option<Communicator>> {
        match self.check_subset(ranks, id, &config) {
            Ok(Some(part)) => Pending::begin(SUBSET, self.device(), move || part.make().map(Some)),
            Ok(None) => Pending::ready(Ok(None)),
            Err(error) => Pending::ready(Err(error)),
        }
    }

    /// Checks the arguments. Returns the plan of the part, or `None` if this rank is not a member.
    fn check_subset(
        &self,
        ranks: &[u32],
        id: u32,
        config: &CommConfig,
    ) -> Result<Option<PartPlan>> {
        let invalid =
            |problem: String| Err(Error::Invalid { operation: SUBSET, problem: problem.into() });
        if ranks.is_empty() {
            return Err(Error::Empty { operation: SUBSET, what: "the list of ranks" });
        }
        if id == u32::MAX {
            return invalid(format!("CANN reserves the id {id}: use another id"));
        }
        let world_size = self.world_size();
        let mut named = vec![false; world_size as usize];
        for &rank in ranks {
            match named.get_mut(rank as usize) {
                None => return Err(Error::NoSuchRank { what: "a member", rank, world_size }),
                Some(true) => return invalid(format!("rank {rank} is named twice: name it once")),
                Some(named) => *named = true,
            }
        }
        self.member.check_dividable(SUBSET)?;
        let Some(own) = ranks.iter().position(|&rank| rank == self.rank()) else { return Ok(None) };
        let members = Members { ranks: ranks.to_vec(), own: own as u32, id: id.into() };
        PartPlan::of(&self.member, SUBSET, config, members, &format!("subset {id}")).map(Some)
    }

    /// Divides the ranks into communicators. The ranks with the same `color` form a communicator,
    /// in the order of their `key`s. Ranks with equal keys keep their order. A rank whose color is
    /// `None` gets no communicator.
    ///
    /// All ranks must call it. They exchange their colors and keys in an
    /// [`all_gather`](Self::all_gather) on a new stream, so a split takes the number of a
    /// collective. Returns a future at once: see [`Pending`]. CANN: `HcclCreateSubCommConfig`.
    ///
    /// A new communicator is named `NAME_splitS_C`, unless [`split_with`](Self::split_with) gives a
    /// name. `NAME` is the name of this communicator, `S` the number of the split from 1, and `C`
    /// the position of the color among all colors from 0. If this name is longer than 127 bytes,
    /// CANN makes a name instead.
    ///
    /// # Errors
    ///
    /// The errors of `all_gather` and of a wait for it. [`Error::Invalid`] if this communicator is
    /// itself a part of a communicator, which CANN does not divide. Otherwise the error of CANN.
    ///
    /// ```
    /// use hccl::prelude::*;
    ///
    /// # fn main() -> hccl::Result<()> {
    /// // Rows and columns of a grid of 2 times 3.
    /// let runtime = Runtime::emulator(6)?;
    /// let told = runtime.run_ranks(6, |rank| -> hccl::Result<_> {
    ///     let stream = rank.device().stream()?;
    ///     let mut world = rank.communicator()?;
    ///     let (row, column) = (world.rank() / 3, world.rank() % 3);
    ///     let mut rows = world.split(Some(row), column).wait()?.expect("every rank has a row");
    ///     let mut columns = world.split(Some(column), row).wait()?.expect("every rank has a column");
    ///     let mut x = rank.device().upload(&[world.rank()], &stream)?;
    ///     let mut y = rank.device().upload(&[world.rank()], &stream)?;
    ///     rows.broadcast(&mut x, 0, &stream)?;
    ///     columns.broadcast(&mut y, 0, &stream)?;
    ///     Ok((x.to_vec(&stream).wait()?[0], y.to_vec(&stream).wait()?[0]))
    /// })?;
    /// assert_eq!(told, [(0, 0), (0, 1), (0, 2), (3, 0), (3, 1), (3, 2)]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn split(&mut self, color: Option<u32>, key: u32) -> Pending<Option<Communicator>> {
        self.split_with(color, key, CommConfig::default())
    }

    /// Divides the ranks as [`split`](Self::split) does, with settings. All ranks of a color must
    /// give the same settings. A setting that CANN would reject or ignore is an [`Error::Config`].
    pub fn split_with(
        &mut self,
        color: Option<u32>,
        key: u32,
        config: CommConfig,
    ) -> Pending<Option<Communicator>> {
        match self.begin_split(color, key, config) {
            Ok(split) => Pending::begin(SPLIT, self.device(), move || split.make()),
            Err(error) => Pending::ready(Err(error.called(SPLIT))),
        }
    }

    /// Begins the exchange of colors and keys among the ranks. Does not wait for the end of the
    /// exchange.
    fn begin_split(&mut self, color: Option<u32>, key: u32, config: CommConfig) -> Result<Split> {
        self.member.check_dividable(SPLIT)?;
        // The plan is made first, so that a mistake in the settings is reported before anything is
        // issued.
        let number = self.member.splits + 1;
        let title = match color {
            Some(color) => format!("split {number} color {color}"),
            None => String::new(),
        };
        let part = PartPlan::of(&self.member, SPLIT, &config, Members::default(), &title)?;
        let stream = self.device().stream()?;
        let own = [color.map_or(-1, i64::from), key.into()];
        let own = self.device().upload(&own, &stream)?;
        let all = self.device().alloc(2 * self.world_size() as usize)?;
        let (all, work) = self.all_gather(&own, all, &stream)?;
        self.member.splits = number;
        let rank = self.rank();
        Ok(Split { part, color, number, rank, config, stream, all, work })
    }
}

/// The members of a part: their ranks in the whole, the position of this rank among them, and the
/// identifier of the part.
#[derive(Default)]
struct Members {
    ranks: Vec<u32>,
    own: u32,
    id: u64,
}

/// The plan of a part of a communicator. The part is not made yet.
struct PartPlan {
    operation: &'static str,
    /// A guard that keeps the whole communicator.
    kept: KeptComm,
    device: Device,
    alive: Option<Arc<()>>,
    exec_seconds: u32,
    /// CANN's name for the whole communicator.
    whole: Box<str>,
    title: String,
    config: HcclCommConfig,
    members: Members,
}

impl PartPlan {
    fn of(
        whole: &Member,
        operation: &'static str,
        config: &CommConfig,
        members: Members,
        title: &str,
    ) -> Result<Self> {
        let device = whole.device.clone();
        let title = || format!("{}/{title}", whole.label.communicator);
        Ok(PartPlan {
            title: config.name().map_or_else(title, str::to_owned),
            whole: whole.name.clone(),
            operation,
            kept: KeptComm::new(&whole.handle, &whole.device),
            alive: whole.alive.clone(),
            exec_seconds: config.exec_seconds().unwrap_or(whole.exec_seconds),
            config: config.to_raw(device.runtime().product())?,
            device,
            members,
        })
    }

    /// Makes the communicator.
    fn make(self) -> Result<Communicator> {
        let PartPlan { operation, kept, device, alive, exec_seconds, .. } = self;
        let handle = &kept.handle;
        let PartPlan { title, mut config, members, .. } = self;
        let Members { mut ranks, own, id } = members;
        // Destroys what can be destroyed, because a dropped communicator may still have the name.
        device.reap();
        let _bound = device.bind()?;
        let context = || handle.label().context(operation, 0);
        let Some(mut parent) = handle.calling() else {
            return Err(Error::Aborted { context: Some(Box::new(context())) });
        };
        let mut raw: HcclComm = std::ptr::null_mut();
        let (count, table) = (ranks.len() as u32, device.table());
        // SAFETY: `kept` keeps the parent alive. The list has `count` ranks. All pointers are live
        // for the call, which keeps none of them.
        unsafe {
            call!(
                table,
                HcclCreateSubCommConfig,
                &mut parent,
                count,
                ranks.as_mut_ptr(),
                id,
                own,
                &mut config,
                &mut raw
            )
        }
        .map_err(|error| {
            error.in_operation(|| {
                let known = handle.label().failed(operation, 0);
                let attempt = || table.peers_of_attempt().map(Arc::new);
                OpContext { peers: known.peers.clone().or_else(attempt), ..known }
            })
        })?;
        if raw.is_null() {
            let problem =
                "the function of CANN reported success, but returned a null pointer: try \
                           another release of the backend"
                    .into();
            return Err(Error::Invalid { operation: "HcclCreateSubCommConfig", problem });
        }
        let origin = Origin::Part(handle.clone());
        // SAFETY: CANN has just made it for this device, and no other code has the handle.
        let mut part = unsafe {
            let place = (own, count);
            Communicator::from_parts(operation, raw, &device, place, Some(title), origin)
        }?;
        if let Some(alive) = alive {
            part.set_alive(alive);
        }
        part.member.exec_seconds = exec_seconds;
        Ok(part)
    }
}

/// A split that has begun.
struct Split {
    part: PartPlan,
    color: Option<u32>,
    /// The number of the split among the splits of the communicator.
    number: u64,
    /// The number of this rank in the whole.
    rank: u32,
    config: CommConfig,
    stream: Stream,
    /// The color and the key of each rank, when `work` is complete.
    all: DeviceBuffer<i64>,
    work: Work,
}

impl Split {
    /// Makes the part of this rank, or returns `None` if the rank has no color. Blocks until all
    /// ranks have sent their color and key.
    fn make(self) -> Result<Option<Communicator>> {
        let Split { mut part, color, number: split, rank: own, mut config, stream, all, work } =
            self;
        work.wait().map_err(|error| error.called(SPLIT))?;
        let all = all.to_vec(&stream).wait()?;
        let Some(color) = color else { return Ok(None) };
        let said =
            || (0u32..).zip(all.chunks_exact(2)).map(|(rank, said)| (said[0], said[1], rank));
        let color = i64::from(color);
        let mut members: Vec<_> = said().filter(|(other, ..)| *other == color).collect();
        members.sort_unstable();
        let ranks: Vec<u32> = members.into_iter().map(|(.., rank)| rank).collect();
        let mut lower: Vec<i64> =
            said().map(|(other, ..)| other).filter(|other| (0..color).contains(other)).collect();
        lower.sort_unstable();
        lower.dedup();
        let label = part.kept.handle.label();
        let number = lower.len() as u64;
        config.name_if_none(|| format!("{}_split{split}_{number}", part.whole));
        let id = SPLITS + split * u64::from(label.world_size) + number;
        let own = ranks.iter().position(|&rank| rank == own).unwrap_or_default() as u32;
        part.config = config.to_raw(part.device.runtime().product())?;
        part.members = Members { ranks, own, id };
        part.make().map(Some)
    }
}

impl Member {
    fn check_dividable(&self, operation: &'static str) -> Result<()> {
        if !self.handle.is_part() {
            return Ok(());
        }
        let problem = "CANN does not divide a part of a communicator: divide the whole \
                       communicator"
            .into();
        Err(Error::Invalid { operation, problem })
    }
}
