//! Rank tables: files in JSON that give the server and the device of each rank. CANN has versions
//! 1.0 (A2, A3), 1.2 (A3) and 2.0 (Ascend 950).
//!
//! The whole table is checked before any rank joins by it. An error names the field, its value and
//! the valid values. Two conditions are not checked, because the format does not specify them. Keys
//! that the emulator does not use may have any value, and the keys that version 1.2 adds may be
//! absent.

mod entry;
mod field;
// This module has no unsafe code, and its tests take minutes in Miri.
#[cfg(all(test, not(loom), not(miri)))]
mod tests;
mod unique;
mod v1;
mod v2;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use ascend_sys::HcclResult;
use entry::TableRank;
use field::{Field, WrongTable};
use serde_json::Value;
use unique::Unique;

use crate::machine::MAX_DEVICES;
use crate::message::{Failure, refuse};
use crate::profile::Product;

/// The size of the longest path, in bytes, with its NUL.
const MOST_PATH: usize = 4096;
/// The size of the largest file, in bytes.
const MOST_BYTES: u64 = 1 << 30;

/// A rank table that has been checked.
pub(crate) struct RankTable {
    /// The contents in a standard form, which is the same text for all ranks.
    pub(crate) contents: String,
    /// The ranks, in order.
    ranks: Vec<TableRank>,
    servers: usize,
}

impl RankTable {
    /// Reads and checks a table for this product.
    pub(crate) fn read(path: &Path, product: Product) -> Result<RankTable, Failure> {
        let length = path.as_os_str().len();
        if length >= MOST_PATH {
            return refuse!(
                HCCL_E_PARA,
                "EI0004: the path of the rank table has {length} bytes, and {} are the most; pass \
                 a shorter path",
                MOST_PATH - 1
            );
        }
        let text = contents(path).map_err(|why| unreadable(path, &why))?;
        RankTable::parse(&text, path, product)
    }

    /// Parses and checks a table. The path is used only in errors.
    pub(crate) fn parse(text: &str, path: &Path, product: Product) -> Result<RankTable, Failure> {
        let Unique(value) = serde_json::from_str(text).map_err(|error| {
            let what = if error.is_data() { "" } else { "it is not JSON: " };
            unreadable(path, &format!("{what}{error}"))
        })?;
        RankTable::check(&value, product)
            .map_err(|wrong| Failure::new(HcclResult::HCCL_E_PARA, wrong.in_file(path)))
    }

    fn check(value: &Value, product: Product) -> Result<RankTable, WrongTable> {
        let root = Field::root(value);
        if root.optional("group_list")?.is_some() {
            return Err(root.wrong("has a `group_list`, the older form; write version 1.0"));
        }
        let version = root.field("version")?;
        let products: &[Product] = match version.text()? {
            "1.0" => &[Product::A2, Product::A3],
            "1.2" => &[Product::A3],
            "2.0" => &[Product::Ascend950],
            _ => return Err(version.must_be("1.0, 1.2 or 2.0")),
        };
        if !products.contains(&product) {
            let text = version.text()?;
            return Err(version.wrong(format!(
                "is \"{text}\", which is not for {product}; write 1.0 for A2, 1.0 or 1.2 for A3, \
                 2.0 for Ascend 950"
            )));
        }
        let ranks = match version.text()? {
            "2.0" => v2::check(&root)?,
            version => v1::check(&root, version == "1.2")?,
        };
        if ranks.len() > MAX_DEVICES as usize {
            let count = ranks.len();
            return Err(root.wrong(format!(
                "has {count} ranks, and the emulator has {MAX_DEVICES} devices at most; list \
                 fewer ranks"
            )));
        }
        let servers = ranks.iter().map(|rank| rank.server + 1).max().unwrap_or_default();
        Ok(RankTable { contents: value.to_string(), ranks, servers })
    }

    pub(crate) fn ranks(&self) -> u32 {
        self.ranks.len() as u32
    }

    /// Returns an error if a rank may not join from the device with this number.
    pub(crate) fn may_join(&self, rank: u32, index: u32) -> Result<(), Failure> {
        let Some(entry) = self.ranks.get(rank as usize) else {
            let ranks = self.ranks();
            return refuse!(
                HCCL_E_PARA,
                "EI0014: rank {rank} is not in the rank table; pass a rank below {ranks}"
            );
        };
        // In a table of several servers, each server is a machine of its own, with its own device
        // numbers. All these ranks are on one machine here, so their device numbers are not
        // checked.
        if self.servers == 1 && entry.device != index {
            return refuse!(
                HCCL_E_PARA,
                "EI0014: rank {rank} is on device {} in the rank table, and the current device is {index}; call aclrtSetDevice({}) before",
                entry.device,
                entry.device
            );
        }
        Ok(())
    }
}

fn contents(path: &Path) -> Result<String, String> {
    // Opening a pipe would wait for a writer.
    let about = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !about.is_file() {
        return Err("it is not a regular file; pass the path of one".to_owned());
    }
    if about.len() > MOST_BYTES {
        return Err(too_long(about.len()));
    }
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut text = String::new();
    // The file may have grown since its length was read.
    let read = file.take(MOST_BYTES + 1).read_to_string(&mut text);
    match read.map_err(|error| error.to_string())? as u64 {
        0..=MOST_BYTES => Ok(text),
        bytes => Err(too_long(bytes)),
    }
}

fn too_long(bytes: u64) -> String {
    format!(
        "it has {bytes} bytes, and {MOST_BYTES} are the most; check that the path is that of a \
         rank table"
    )
}

fn unreadable(path: &Path, why: &str) -> Failure {
    let text = format!("EI0004: the rank table {} cannot be read: {why}", path.display());
    Failure::new(HcclResult::HCCL_E_INTERNAL, text)
}
