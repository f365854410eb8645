//! What has to be read and written once all ranks are there: whole for a small operation, by chunks for a large one.

use std::sync::OnceLock;

use super::request::{Operation, Request};
use crate::reduce::{ReduceOp, Store, reduce_chunk};

/// Results of one chunk, over all ranks: about 20 microseconds of work even where memory is slow.
const CHUNK_BYTES: usize = 64 * 1024;
/// Below this, taking a chunk costs too much of doing it.
const LEAST_BYTES: usize = 4 * 1024;
/// Chunks are cut at cache lines, so that no two threads write one.
const LINE: usize = 64;
/// Up to so many ranks, the lists of pointers need no allocation.
const FEW: usize = 32;

/// How a large operation is cut up. The same on all ranks: it depends on the request and the number of ranks alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) chunks: u32,
    /// Bytes of a chunk in each buffer; the last may have fewer.
    bytes: u32,
}

impl Plan {
    pub(crate) fn new(request: &Request, ranks: usize) -> Self {
        let outputs = match request.operation {
            Operation::AllReduce(_) => ranks,
            Operation::Broadcast(_) | Operation::Barrier => ranks.saturating_sub(1).max(1),
        };
        let total = request.bytes();
        let most = (CHUNK_BYTES / outputs).max(LEAST_BYTES);
        let bytes = total.div_ceil(ranks).clamp(LEAST_BYTES, most).next_multiple_of(LINE);
        // The largest count of the largest elements makes 2^27 chunks of the smallest size.
        Self { chunks: total.div_ceil(bytes) as u32, bytes: bytes as u32 }
    }

    /// Does one chunk. `buffers` are those of each rank (send and receive; for a broadcast the same twice), `store` how to write.
    ///
    /// # Safety
    ///
    /// Each buffer holds the request's elements; a rank's send and receive buffer are the same or apart; nobody else
    /// works on this chunk.
    pub(crate) unsafe fn run(
        &self,
        request: &Request,
        chunk: u32,
        ranks: usize,
        store: Store,
        buffers: impl Fn(usize) -> (*const u8, *mut u8),
    ) {
        let start = chunk as usize * self.bytes as usize;
        let bytes = (self.bytes as usize).min(request.bytes() - start);
        let count = bytes / request.dtype.size();
        let at = |rank| {
            let (send, recv) = buffers(rank);
            // Within the buffers; computed without the promise, so that it needs no `unsafe`.
            (send.wrapping_add(start), recv.wrapping_add(start))
        };
        let mut few_inputs = [std::ptr::null(); FEW];
        let mut few_outputs = [std::ptr::null_mut(); FEW];
        let (mut many_inputs, mut many_outputs);
        let (inputs, outputs) = if ranks <= FEW {
            (&mut few_inputs[..ranks], &mut few_outputs[..ranks])
        } else {
            many_inputs = vec![std::ptr::null(); ranks];
            many_outputs = vec![std::ptr::null_mut(); ranks];
            (&mut many_inputs[..], &mut many_outputs[..])
        };
        for (rank, (input, output)) in inputs.iter_mut().zip(outputs.iter_mut()).enumerate() {
            (*input, *output) = at(rank);
        }
        let (inputs, outputs, op): (&[*const u8], &[*mut u8], _) = match request.operation {
            Operation::AllReduce(op) => (inputs, outputs, op),
            Operation::Broadcast(root) => {
                // The root keeps what it has: the others come first.
                let root = root as usize;
                inputs[0] = inputs[root];
                outputs.swap(root, ranks - 1);
                (&inputs[..1], &outputs[..ranks - 1], ReduceOp::Sum)
            }
            Operation::Barrier => return,
        };
        // SAFETY: the caller's promise, for the part of the buffers that this chunk is.
        unsafe { reduce_chunk(request.dtype, op, inputs, outputs, count, store) };
    }
}

/// Does a small operation for one rank: from the payloads of all into `recv`.
///
/// # Safety
///
/// Each payload and `recv` hold the request's elements.
#[inline]
pub(crate) unsafe fn run_small(
    request: &Request,
    rank: usize,
    ranks: usize,
    recv: *mut u8,
    payload: impl Fn(usize) -> *const u8,
) {
    let count = request.count as usize;
    match request.operation {
        Operation::AllReduce(op) => {
            let mut few = [std::ptr::null(); FEW];
            let mut many;
            let inputs = if ranks <= FEW {
                &mut few[..ranks]
            } else {
                many = vec![std::ptr::null(); ranks];
                &mut many[..]
            };
            for (rank, input) in inputs.iter_mut().enumerate() {
                *input = payload(rank);
            }
            // SAFETY: the caller's promise.
            unsafe { reduce_chunk(request.dtype, op, inputs, &[recv], count, Store::Plain) };
        }
        Operation::Broadcast(root) if root as usize != rank => {
            // SAFETY: the caller's promise.
            unsafe {
                crate::copy::copy(recv, payload(root as usize), request.bytes(), Store::Plain)
            };
        }
        Operation::Broadcast(_) | Operation::Barrier => {}
    }
}

/// How to write when so many bytes are read and written altogether.
pub(crate) fn store_for(working_set: usize) -> Store {
    if working_set > last_level_cache() { Store::Streaming } else { Store::Plain }
}

/// Bytes of the largest cache.
fn last_level_cache() -> usize {
    const FALLBACK: usize = 16 << 20;
    static SIZE: OnceLock<usize> = OnceLock::new();
    *SIZE.get_or_init(|| {
        let size = |index: u32| {
            let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
            let text = std::fs::read_to_string(path).ok()?;
            let text = text.trim();
            let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
            let unit = match unit {
                "K" => 1 << 10,
                "M" => 1 << 20,
                _ => return None,
            };
            digits.parse::<usize>().ok()?.checked_mul(unit)
        };
        (0..8).filter_map(size).max().unwrap_or(FALLBACK)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reduce::DataType;

    #[test]
    fn chunks_cover_every_element_once() {
        for dtype in DataType::ALL {
            for ranks in [1, 2, 3, 8, 33, 500] {
                for count in [1, 63, 4095, 4096, 65_537, 1_000_003] {
                    let operation = Operation::AllReduce(ReduceOp::Sum);
                    let request = Request { operation, dtype, count };
                    let plan = Plan::new(&request, ranks);
                    let bytes = plan.bytes as usize;
                    assert!(bytes.is_multiple_of(LINE) && bytes.is_multiple_of(dtype.size()));
                    let total = request.bytes();
                    assert!(bytes * plan.chunks as usize >= total);
                    assert!(bytes * (plan.chunks as usize - 1) < total);
                }
            }
        }
    }

    #[test]
    fn a_cache_has_a_size() {
        assert!((1 << 18..1 << 32).contains(&last_level_cache()));
    }
}
