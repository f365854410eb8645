//! Checks rank tables of version 2.0, which list ranks, each with the layers of the network that it
//! is in.

use std::collections::{BTreeMap, BTreeSet};

use super::entry::{TableRank, in_order};
use super::field::{Field, WrongTable};

const MOST_RANKS: u64 = 65_536;

pub(super) fn check(root: &Field<'_>) -> Result<Vec<TableRank>, WrongTable> {
    let (count, list) = (root.field("rank_count")?, root.field("rank_list")?);
    let said = count.number(1..=MOST_RANKS)?;
    let entries = list.list(MOST_RANKS as usize)?;
    if said != entries.len() as u64 {
        let found = entries.len();
        return Err(count.wrong(format!("is {said}, and rank_list has {found}; make them equal")));
    }
    // The ranks with the same instance of layer 0 are in one server.
    let mut servers: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut ranks, mut devices) = (Vec::new(), BTreeSet::new());
    for entry in &entries {
        let rank = entry.field("rank_id")?;
        entry.field("local_id")?.number(0..=64)?;
        let id = entry.field("device_id")?;
        let device = id.number(0..=64)? as u32;
        for port in ["device_port", "host_port"] {
            entry.optional(port)?.map_or(Ok(0), |port| port.number(1..=65_535))?;
        }
        let server = layers(&entry.field("level_list")?)?;
        let next = servers.len();
        let server = *servers.entry(server).or_insert(next);
        if !devices.insert((server, device)) {
            return Err(id.wrong(format!(
                "is {device}, as in another rank of the server; give each rank its own device"
            )));
        }
        ranks.push((rank.number(0..=u64::MAX)?, rank, TableRank { server, device }));
    }
    in_order(ranks)
}

/// Checks the layers of a rank, and returns the instance of the first layer.
fn layers<'a>(list: &Field<'a>) -> Result<&'a str, WrongTable> {
    let (mut first, mut last) = (None, None);
    for level in list.list(8)? {
        let layer = level.field("net_layer")?;
        let number = layer.number(0..=7)?;
        let follows = last.map_or(number == 0, |last| number > last);
        if !follows {
            return Err(layer.wrong(format!("is {number}, but the layers must ascend from 0")));
        }
        last = Some(number);
        let instance = level.field("net_instance_id")?.name(1..=1024)?;
        first = first.or(Some(instance));
        let types: &[&str] =
            if number == 0 { &["TOPO_FILE_DESC"] } else { &["CLOS", "TOPO_FILE_DESC"] };
        level.field("net_type")?.one_of(types)?;
        for address in level.field("rank_addr_list")?.list(24)? {
            let kind = address.field("addr_type")?.one_of(&["EID", "IPV4", "IPV6"])?;
            let at = address.field("addr")?;
            at.name(1..=256)?;
            match kind {
                "IPV4" => at.ipv4()?,
                "IPV6" => at.ipv6()?,
                _ => {}
            }
            for port in address.field("ports")?.list(16)? {
                port.die_and_port()?;
            }
        }
    }
    Ok(first.unwrap_or_default())
}
