//! How the ranks of a [rank table](super::rank_table) find each other: those gather that bring tables of the same contents.
//!
//! Nothing in a table is an address of this machine, so nothing of it is used as one. A device is in one such communicator at a
//! time. When a table's communicator is over, its ranks can gather anew.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::gathering::{Applicant, Entered, Gathering, Shared};
use super::rank_table::RankTable;
use super::registry;
use crate::machine;
use crate::message::{Failure, refuse};
use ascend_sync::lock_std as lock;

/// What CANN calls a communicator of a rank table.
pub(crate) const WORLD: &str = "hccl_world_group";

/// By block of devices and contents: the gatherings that are not over.
static CLUSTERS: Mutex<BTreeMap<(u32, String), Vec<Shared>>> = Mutex::new(BTreeMap::new());

/// Brings a rank to the others of its table, and waits for nobody.
pub(crate) fn enter(
    table: RankTable,
    applicant: &Applicant,
    function: &'static str,
) -> Result<Entered, Failure> {
    let mut clusters = lock(&CLUSTERS);
    let is_taken = clusters.values().flatten().any(|of| lock(of).is_joined_on(applicant.device));
    if is_taken || registry::has_cluster(applicant.device) {
        return refuse!(
            HCCL_E_UNAVAIL,
            "EI0003: device {} is in a communicator of a rank table already; a device is in one at a time",
            machine::named(applicant.device)
        );
    }
    clusters.retain(|_, gatherings| {
        gatherings.retain(|gathering| {
            let gathering = lock(gathering);
            !gathering.is_over() && !gathering.applicants.is_empty()
        });
        !gatherings.is_empty()
    });
    let gatherings = clusters.entry((applicant.settings.block, table.contents)).or_default();
    let open = gatherings.iter().find(|of| lock(of).is_open()).cloned();
    let gathering = open.unwrap_or_else(|| {
        let new = Arc::new(Mutex::new(Gathering::of_a_table()));
        gatherings.push(Arc::clone(&new));
        new
    });
    // With the lock held, so that no other thread brings the device meanwhile. Nobody waits in here.
    let entered = Entered::begin(gathering, WORLD.to_owned(), applicant, function);
    drop(clusters);
    entered
}
