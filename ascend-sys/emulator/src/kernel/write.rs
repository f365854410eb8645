//! One-sided writes of a kernel (`BatchWrite`): copies to wherever the items say.

use super::area::Area;
use super::context;
use super::global::Spot;
use crate::copy;
use crate::memory;
use crate::profile::Product;
use crate::reduce::{DataType, Store};
use crate::timeline::Moved;

/// Does what a list of one-sided writes says, which lies in global memory. `moved` gets what went to other ranks.
pub(super) fn run(
    area: &Area,
    mut items: Spot,
    count: u64,
    mut moved: Option<&mut Vec<Moved>>,
) -> Result<(), String> {
    let product = area.hub.comm.product;
    let size = if product == Product::A2 { 32 } else { 64 };
    for index in 0..count {
        let mut item = [0u8; 64];
        let item = &mut item[..size];
        let at = index.saturating_mul(size as u64).saturating_add(items.offset);
        items.region.read(at, item)?;
        let word = |at: usize| -> u64 {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(&item[at..at + 4]);
            u64::from(u32::from_le_bytes(bytes))
        };
        let long = |at: usize| word(at) | word(at + 4) << 32;
        let (from, to, bytes) = match product {
            Product::A2 => {
                let dtype = DataType::from_hccl(word(24) as u32)
                    .ok_or_else(|| format!("item {index}: {} is no data type", word(24)))?;
                (long(0), long(8), long(16).saturating_mul(dtype.size() as u64))
            }
            _ => (long(32), long(40), word(28)),
        };
        let place = |what: &str, address: u64| {
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            match memory::resolve(usize::try_from(address).unwrap_or(usize::MAX), bytes) {
                Ok(memory::Bytes { place: memory::Place::Device(id), data }) => Ok((data, id)),
                Ok(_) => Err(format!("item {index}: its {what} {address:#x} is no device memory")),
                Err(text) => Err(format!("item {index}: its {what}: {text}")),
            }
        };
        if bytes > 0 {
            let ((from, _), (to, device)) = (place("source", from)?, place("destination", to)?);
            // SAFETY: both lie in live allocations with as many bytes.
            unsafe { copy::copy(to, from, bytes as usize, Store::Plain) };
            let own = area.member.rank;
            if let Some(moved) = &mut moved
                && let Some(to) = context::rank_on(area, device).filter(|rank| *rank != own)
            {
                match moved.iter_mut().find(|other| other.to == to) {
                    Some(other) => other.bytes += bytes,
                    None => moved.push(Moved { from: own, to, bytes }),
                }
            }
        }
    }
    Ok(())
}
