//! One-sided writes of a kernel: `BatchWrite`, to the addresses in its items, and `AlltoAllvWrite`,
//! to windows.

use super::abroad::AbroadWindow;
use super::area::Area;
use super::context::{self, RankWindow};
use super::global::RegionAddress;
use super::work::{PreparedWork, WriteWindows};
use crate::memory;
use crate::profile::Product;
use crate::task::Touch;
use ascend_reduce::copy;
use ascend_reduce::{DataType, Store};
use ascend_timeline::Moved;
use std::ops::Range;

/// A single write, with addresses as programs use them.
struct WriteItem {
    from: u64,
    to: u64,
    bytes: u64,
    /// The destination rank, if the item names it.
    rank: Option<usize>,
}

/// Does a list of one-sided writes. The list is in global memory. The numbers of bytes that went to
/// other ranks are added to `moved`.
pub(super) fn run(
    area: &Area,
    mut items: RegionAddress,
    count: u64,
    mut moved: Option<&mut Vec<Moved>>,
) -> Result<(), String> {
    let product = area.hub.comm.product;
    let size = if product == Product::A2 { 32 } else { 64 };
    for index in 0..count {
        let mut bytes = [0u8; 64];
        let at = index.saturating_mul(size as u64).saturating_add(items.offset);
        items.region.read(at, &mut bytes[..size])?;
        let item = read(product, &bytes).map_err(|text| format!("item {index}: {text}"))?;
        // On A2, writes of a rank to itself are left out.
        if item.bytes > 0 && item.rank != Some(area.member.rank) {
            one(area, product, &item, moved.as_deref_mut())
                .map_err(|text| format!("item {index}: {text}"))?;
        }
    }
    Ok(())
}

fn read(product: Product, item: &[u8; 64]) -> Result<WriteItem, String> {
    let word = |at: usize| -> u64 {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&item[at..at + 4]);
        u64::from(u32::from_le_bytes(bytes))
    };
    let long = |at: usize| word(at) | word(at + 4) << 32;
    if product != Product::A2 {
        return Ok(WriteItem { from: long(32), to: long(40), bytes: word(28), rank: None });
    }
    let dtype = DataType::from_hccl(word(24) as u32)
        .ok_or_else(|| format!("{} is not a data type; use a number of HcclDataType", word(24)))?;
    let bytes = long(16).saturating_mul(dtype.size() as u64);
    Ok(WriteItem { from: long(0), to: long(8), bytes, rank: Some(word(28) as usize) })
}

fn one(
    area: &Area,
    product: Product,
    item: &WriteItem,
    moved: Option<&mut Vec<Moved>>,
) -> Result<(), String> {
    let WriteItem { from, to, bytes, rank } = *item;
    let own = area.member.rank;
    if product == Product::A2 {
        let rank = rank.unwrap_or(own);
        for (what, address, of, outputs) in
            [("source", from, own, &[false, true][..]), ("destination", to, rank, &[false][..])]
        {
            let within = |output: &bool| {
                context::window(area, of, *output).is_some_and(|window| {
                    let start = window.start() as u64;
                    let end = start + window.bytes() as u64;
                    address >= start && address.saturating_add(bytes) <= end
                })
            };
            if !outputs.iter().any(within) {
                return Err(format!(
                    "its {what}, {bytes} bytes at {address:#x}, is not in a window of rank {of}: on A2 batches go from windows to the \
                     input windows of other ranks (GetWindowsInAddr)"
                ));
            }
        }
    }
    let place = |what: &str, address: u64| {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        match memory::resolve(usize::try_from(address).unwrap_or(usize::MAX), bytes) {
            Ok(memory::Bytes { place: memory::MemoryPlace::Device(id), data }) => Ok((data, id)),
            Ok(_) => Err(format!(
                "its {what} {address:#x} is not device memory; use memory from aclrtMalloc"
            )),
            Err(text) => Err(format!("its {what}: {text}")),
        }
    };
    let (source, own) = place("source", from)?;
    let abroad = AbroadWindow::holding(&area.hub.comm, to, bytes);
    let rank = abroad.as_ref().map(|(window, _)| window.rank);
    let (data, device) = match abroad {
        Some((window, offset)) => (window.at(offset, bytes)?, None),
        None => place("destination", to).map(|(data, device)| (data, Some(device)))?,
    };
    let touches = |touch: fn(usize, usize) -> Touch, at: u64| {
        move || vec![touch(at as usize, bytes as usize)]
    };
    let what = || format!("a BatchWrite of {bytes} bytes");
    area.window_touched(own, what, touches(Touch::read, from));
    carry(data, source, bytes)?;
    if let Some(device) = device {
        area.window_touched(device, what, touches(Touch::write, to));
    }
    let to = device.map_or(rank, |device| context::rank_on(area, device));
    tell(area, to, bytes, moved);
    Ok(())
}

/// Copies `bytes` bytes between live allocations. Returns an error if the two ranges overlap
/// without being the same.
fn carry(to: *mut u8, from: *const u8, bytes: u64) -> Result<(), String> {
    let range = |start: usize| start..start.saturating_add(bytes as usize);
    let (a, b): (Range<usize>, Range<usize>) = (range(to.addr()), range(from.addr()));
    if a.start < b.end && b.start < a.end && a != b {
        return Err(format!(
            "{bytes} bytes would be written over their own source; use ranges that do not overlap"
        ));
    }
    // SAFETY: the callers have resolved both ranges in live allocations. The ranges are the same,
    // or they do not overlap.
    unsafe { copy::copy(to, from, bytes as usize, Store::Plain) };
    Ok(())
}

/// Adds the number of bytes that went to another rank to `moved`.
fn tell(area: &Area, to: Option<usize>, bytes: u64, moved: Option<&mut Vec<Moved>>) {
    let from = area.member.rank;
    let (Some(moved), Some(to)) = (moved, to.filter(|rank| *rank != from)) else { return };
    match moved.iter_mut().find(|other| other.to == to) {
        Some(other) => other.bytes += bytes,
        None => moved.push(Moved { from, to, bytes }),
    }
}

/// Writes the blocks of a rank into the input windows of all ranks.
pub(super) fn blocks(
    area: &Area,
    work: &PreparedWork,
    windows: &WriteWindows,
    mut moved: Option<&mut Vec<Moved>>,
) -> Result<(), String> {
    let (own, ranks) = (area.member.rank, area.member.comm.ranks());
    let reads = |from: *const u8, bytes: usize| {
        let touches = || vec![Touch::read(memory::nominal(from), bytes)];
        area.window_touched(area.member.device, || work.describe(), touches);
    };
    let list = |spot: &RegionAddress| -> Result<Vec<u64>, String> {
        let mut bytes = vec![0; 8 * ranks];
        reads(spot.clone().at(0, bytes.len() as u64)?, bytes.len());
        spot.region.clone().read(spot.offset, &mut bytes)?;
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte));
        Ok(bytes.chunks_exact(8).map(number).collect())
    };
    let (offsets, sizes) = (list(&windows.offsets)?, list(&windows.sizes)?);
    for (to, (offset, size)) in offsets.into_iter().zip(sizes).enumerate() {
        let bytes = if to == own { windows.own } else { size };
        if bytes == 0 {
            continue;
        }
        let from = work.send.clone().at(offset, bytes)?;
        reads(from, bytes as usize);
        let Some(window) = context::window(area, to, false) else {
            return Err(format!(
                "rank {to} has no context, so it has no window; let it keep its communicator \
                 until all kernels that use the window have ended"
            ));
        };
        let (at, length) = (windows.at, window.bytes());
        if at.checked_add(bytes).is_none_or(|end| end > length as u64) {
            return Err(format!(
                "{bytes} bytes for rank {to} at the offset {at} exceed its window of {length} \
                 bytes; write fewer, or raise HCCL_BUFFSIZE (hcclBufferSize)"
            ));
        }
        let data = match &window {
            RankWindow::Own { start, .. } => {
                memory::resolve(start + at as usize, bytes as usize)?.data
            }
            RankWindow::Abroad(window) => window.at(at as usize, bytes)?,
        };
        carry(data, from, bytes)?;
        if let RankWindow::Own { start, device, .. } = window {
            let what = || work.describe();
            area.window_touched(device, what, || {
                vec![Touch::write(start + at as usize, bytes as usize)]
            });
        }
        tell(area, Some(to), bytes, moved.as_deref_mut());
    }
    Ok(())
}
