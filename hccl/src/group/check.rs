//! The rules of groups, checked when all operations are recorded.

use super::entry::{Entry, GROUP, GroupOperation};
use crate::api::item::Item;
use crate::batch::{Used, check_overlap};
use crate::error::product::Product;
use crate::error::{Error, Result};

/// The largest number of messages in a group on the Ascend 950.
const MOST_MESSAGES: usize = 2048;

pub(super) fn check(entries: &mut [Entry<'_>]) -> Result<()> {
    let Some((first, others)) = entries.split_first() else { return Ok(()) };
    for other in others {
        if !other.member.device.runtime().is(first.member.device.runtime()) {
            return Err(Error::WrongRuntime { operation: GROUP, what: "a communicator" });
        }
    }
    check_streams(entries)?;
    let operations = || entries.iter().flat_map(|entry| &entry.operations);
    let all = operations().count();
    let messages = operations().filter(|recorded| recorded.operation.message().is_some()).count();
    if messages != 0 && messages != all {
        let collectives = all - messages;
        return Err(refused(format!(
            "messages ({messages}) and collectives ({collectives}) are in one group: issue one group for \
             each kind"
        )));
    }
    if entries[0].member.product == Some(Product::Ascend950) {
        if messages == 0 {
            return Err(refused(
                "the Ascend 950 groups messages only: issue collectives one by one, each rank on a thread of its own".into(),
            ));
        }
        if messages > MOST_MESSAGES {
            return Err(refused(format!(
                "the group has {messages} messages, but the Ascend 950 takes at most {MOST_MESSAGES}: \
                 issue several groups"
            )));
        }
    }
    for entry in entries {
        entry.check().map_err(|error| entry.member.explain(GROUP, entry.sequence(), error))?;
    }
    Ok(())
}

fn refused(problem: String) -> Error {
    Error::Invalid { operation: GROUP, problem: problem.into() }
}

/// Checks that each stream has only one communicator. For a stream, a group is one operation, which
/// belongs to one communicator.
fn check_streams(entries: &[Entry<'_>]) -> Result<()> {
    let mut streams: Vec<_> =
        entries.iter().map(|entry| std::ptr::from_ref(entry.stream.slot())).collect();
    streams.sort_unstable();
    if streams.windows(2).all(|pair| pair[0] != pair[1]) {
        return Ok(());
    }
    Err(refused(
        "two communicators are recorded for one stream: give each a stream of its own".into(),
    ))
}

impl Entry<'_> {
    fn check(&mut self) -> Result<()> {
        let items = self.operations.iter().filter_map(|recorded| recorded.operation.item());
        let items: Vec<Item> = items.collect();
        if !items.is_empty() {
            self.member.peers.check(&items)?;
        }
        let mut used: Vec<Used> = Vec::new();
        for (at, GroupOperation { operation, .. }) in self.operations.iter().enumerate() {
            used.extend(operation.buffers().map(|(buffer, written)| {
                let start = buffer.pointer().addr();
                Used { start, end: start.saturating_add(buffer.bytes()), written, at }
            }));
        }
        Ok(check_overlap(&mut used)?)
    }
}
