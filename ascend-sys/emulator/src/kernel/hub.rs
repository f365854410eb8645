//! Where the servers of all ranks of a communicator meet.
//!
//! Turns are collectives of a communicator of their own, so that they may come in any order with those of the host. What a
//! collective compares is its own arguments; that all ranks have prepared the same task, with the same strides and as many
//! turns, is compared here, before its first turn.

use super::work::{PreparedWork, WorkKind};
use crate::collective::comm_error::{Cause, CommError, Origin};
use crate::collective::sides::Sides;
use crate::collective::validate::name_of;
use crate::fabric::Comm;
use ascend_sync::lock_std as lock;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The servers of one communicator.
pub(crate) struct Hub {
    /// No other hub has it.
    pub(super) number: u64,
    pub(crate) comm: Arc<Comm>,
    /// The context of each rank; 0 where it has none.
    pub(super) contexts: Box<[AtomicUsize]>,
    /// By the number of the task: what each rank has prepared.
    said: Mutex<BTreeMap<u64, Vec<Option<Said>>>>,
}

#[derive(Clone, PartialEq)]
struct Said {
    columns: Vec<String>,
    place: String,
}

impl Hub {
    pub(crate) fn new(comm: Comm) -> Hub {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let contexts = (0..comm.ranks()).map(|_| AtomicUsize::new(0)).collect();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Hub { number, comm: Arc::new(comm), contexts, said: Mutex::default() }
    }

    /// A rank has come to a task. The error is the text of a disagreement, which has ended the communicator.
    pub(super) fn say(&self, rank: usize, number: u64, work: &PreparedWork) -> Result<(), ()> {
        let mine = Said { columns: columns(work), place: work.place.clone() };
        let mut all = lock(&self.said);
        let ranks = self.comm.ranks();
        let said = all.entry(number).or_insert_with(|| vec![None; ranks]);
        let differs = said.iter().flatten().any(|other| other.columns != mine.columns);
        if let Some(place) = said.get_mut(rank) {
            *place = Some(mine);
        }
        if differs {
            let mut sides = Sides::default();
            for (rank, said) in said.iter().enumerate() {
                let Some(Said { columns, place }) = said else {
                    sides.silent(rank);
                    continue;
                };
                let prepared = [format!("prepared in {place}")];
                sides.says(rank, columns.iter().cloned().chain(prepared).collect());
            }
            let account = sides.under("the kernels of the ranks have prepared different tasks");
            drop(all);
            self.comm.fail(CommError::new(Origin::Call, Cause::Mismatch, account));
            return Err(());
        }
        if said.iter().all(Option::is_some) {
            all.remove(&number);
        }
        Ok(())
    }
}

/// Each argument that must agree.
fn columns(work: &PreparedWork) -> Vec<String> {
    let mut columns = vec![work.kind.name().to_owned()];
    if work.kind == WorkKind::AlltoAllvWrite {
        // Each rank writes where it wants.
        return columns;
    }
    if work.kind != WorkKind::AlltoAllV {
        columns.push(format!("count {}", work.count));
    }
    columns.push(name_of(work.dtype).into());
    if let WorkKind::AllReduce(op) | WorkKind::ReduceScatter(op) = work.kind {
        columns.push(format!("{op:?}").to_uppercase());
    }
    if !matches!(work.kind, WorkKind::AlltoAllV | WorkKind::AllReduce(_)) {
        columns.push(format!("stride {}", work.stride));
    }
    columns.push(format!("repeat {}", work.repeat));
    columns.extend(work.steps.map(|steps| format!("steps of {steps}")));
    columns
}
