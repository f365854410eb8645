//! Checks rank tables of versions 1.0 and 1.2, which list servers with their devices. All numbers
//! are texts.

use std::collections::BTreeSet;

use super::entry::{TableRank, in_order};
use super::field::{Field, WrongTable};

const PORTS: std::ops::RangeInclusive<u64> = 1..=65_535;

/// Checks a table and returns its ranks. `superpods` is true for version 1.2.
pub(super) fn check(root: &Field<'_>, superpods: bool) -> Result<Vec<TableRank>, WrongTable> {
    root.field("status")?.one_of(&["completed"])?;
    let (count, list) = (root.field("server_count")?, root.field("server_list")?);
    let servers = list.list(usize::MAX)?;
    let said = count.number_in_text(1..=u64::MAX)?;
    if said != servers.len() as u64 {
        let found = servers.len();
        return Err(count.wrong(format!("is {said}, and server_list has {found}; make them equal")));
    }
    let (mut names, mut ranks, mut of_servers) = (BTreeSet::new(), Vec::new(), Vec::new());
    for (at, server) in servers.iter().enumerate() {
        let name = server.field("server_id")?;
        if !names.insert(name.name(1..=64)?) {
            return Err(name.twice());
        }
        if let Some(host) = server.optional("host_ip")? {
            host.ip()?;
        }
        let first = ranks.len();
        let mut devices = BTreeSet::new();
        for device in server.field("device")?.list(usize::MAX)? {
            let id = device.field("device_id")?;
            let number = id.number_in_text(0..=u32::MAX.into())?;
            if !devices.insert(number) {
                return Err(
                    id.wrong(format!("is {number}, as in another entry; give each its own"))
                );
            }
            match device.optional("device_ip")? {
                Some(ip) => ip.ip()?,
                None if servers.len() > 1 => {
                    return Err(device
                        .missing("device_ip", ", which tables of several servers need; add it"));
                }
                None => {}
            }
            for port in ["device_port", "host_port", "backup_device_port"] {
                device.optional(port)?.map_or(Ok(0), |port| port.number_in_text(PORTS))?;
            }
            if superpods {
                let id = device.optional("super_device_id")?;
                id.map_or(Ok(0), |id| id.number_in_text(0..=u32::MAX.into()))?;
                device.optional("backup_device_ip")?.map_or(Ok(()), |ip| ip.ip())?;
            }
            let rank = device.field("rank_id")?;
            let number_of_rank = rank.number_in_text(0..=u64::MAX)?;
            ranks.push((number_of_rank, rank, TableRank { server: at, device: number as u32 }));
        }
        of_servers.push(ranks[first..].iter().map(|(number, ..)| *number).collect());
    }
    if superpods && let Some(list) = root.optional("super_pod_list")? {
        pods(&list, &names)?;
    }
    let ranks = in_order(ranks)?;
    servers.iter().zip(of_servers).try_for_each(|(server, ranks)| together(server, ranks))?;
    Ok(ranks)
}

/// Checks that the ranks of a server are consecutive.
fn together(server: &Field<'_>, mut ranks: Vec<u64>) -> Result<(), WrongTable> {
    ranks.sort_unstable();
    match ranks.windows(2).find(|two| two[1] > two[0] + 1) {
        None => Ok(()),
        Some(two) => Err(server.wrong(format!(
            "has ranks {} and {}, but the ranks of a server must be consecutive",
            two[0], two[1]
        ))),
    }
}

/// Checks that each server is in one superpod.
fn pods(list: &Field<'_>, servers: &BTreeSet<&str>) -> Result<(), WrongTable> {
    let (mut pods, mut placed) = (BTreeSet::new(), BTreeSet::new());
    for pod in list.list(usize::MAX)? {
        let id = pod.field("super_pod_id")?;
        if !pods.insert(id.text()?) {
            return Err(id.twice());
        }
        for server in pod.field("server_list")?.list(usize::MAX)? {
            let id = server.field("server_id")?;
            let name = id.text()?;
            if !servers.contains(name) {
                return Err(id.wrong(format!(
                    "is {}, which is not in server_list; name a server of the list",
                    id.is()
                )));
            }
            if !placed.insert(name) {
                return Err(id.twice());
            }
        }
    }
    match servers.iter().find(|server| !placed.contains(*server)) {
        None => Ok(()),
        Some(server) => Err(list
            .wrong(format!("has no superpod for the server \"{server}\"; add the server to one"))),
    }
}
