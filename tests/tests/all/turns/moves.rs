//! Finds by experiment which element moves to which place in which turn.
//!
//! A kernel runs with one turn, with two, and so on. The elements that are new in the outputs were
//! moved by the last turn. The numbers in the inputs show where they come from: on one rank each
//! element has its own number, and on the other ranks all elements are 0.

use std::collections::HashSet;

use hccl::dtype::ReduceKind;
use hccl::kernel::tiling::{CmdType, DataType, Mc2CcTilingConfig, Mc2InitTilingConfig};
use hccl::kernel::*;
use hccl::prelude::*;
use hccl_tests::runtime_with;

pub const RANKS: usize = 4;

/// One element that was moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Move {
    /// The turn that makes the move.
    pub turn: usize,
    /// The rank whose input had the element, and the place in that input.
    pub from: (usize, usize),
    /// The rank whose output gets the element, and the place in that output.
    pub to: (usize, usize),
}

/// An operation with the same counts on all ranks.
pub trait Collective: 'static {
    const COMMAND: CmdType;
    const SUMS: bool = false;

    fn prepare(
        hccl: &Hccl<Configured>,
        x: Input<i32>,
        y: Output<i32>,
        count: Value<u64>,
        stride: Value<u64>,
        turns: Value<u64>,
    ) -> Prepared<Committed>;
}

/// The kinds of collectives.
pub enum AllGather {}
pub enum ReduceScatter {}
pub enum AllReduce {}
pub enum AllToAll {}

type Number = Value<u64>;

impl Collective for AllGather {
    const COMMAND: CmdType = CmdType::AllGather;

    fn prepare(
        hccl: &Hccl<Configured>,
        x: Input<i32>,
        y: Output<i32>,
        count: Number,
        stride: Number,
        turns: Number,
    ) -> Prepared<Committed> {
        hccl.all_gather(x, y, count).stride(stride).repeat(turns).commit_all()
    }
}

impl Collective for ReduceScatter {
    const COMMAND: CmdType = CmdType::ReduceScatter;
    const SUMS: bool = true;

    fn prepare(
        hccl: &Hccl<Configured>,
        x: Input<i32>,
        y: Output<i32>,
        count: Number,
        stride: Number,
        turns: Number,
    ) -> Prepared<Committed> {
        hccl.reduce_scatter(x, y, count, Sum).stride(stride).repeat(turns).commit_all()
    }
}

impl Collective for AllReduce {
    const COMMAND: CmdType = CmdType::AllReduce;
    const SUMS: bool = true;

    fn prepare(
        hccl: &Hccl<Configured>,
        x: Input<i32>,
        y: Output<i32>,
        count: Number,
        _: Number,
        turns: Number,
    ) -> Prepared<Committed> {
        hccl.all_reduce(x, y, count, Sum).repeat(turns).commit_all()
    }
}

impl Collective for AllToAll {
    const COMMAND: CmdType = CmdType::AllToAll;

    fn prepare(
        hccl: &Hccl<Configured>,
        x: Input<i32>,
        y: Output<i32>,
        count: Number,
        stride: Number,
        turns: Number,
    ) -> Prepared<Committed> {
        hccl.all_to_all(x, y, count).stride(stride).repeat(turns).commit_all()
    }
}

/// A task of several turns, and one for the rest.
#[derive(Clone, Copy)]
pub struct Tiles {
    pub tile: u64,
    pub turns: u64,
    pub tail: u64,
    pub stride: u64,
}

#[derive(Tiling, Clone, Copy)]
#[repr(C)]
struct TilesTiling {
    init: Mc2InitTiling,
    operation: Mc2CcTiling,
    tile: u64,
    turns: u64,
    done: u64,
    tail: u64, // 0: there are only tiles
    stride: u64,
}

#[kernel(mix = "aiv_1_0")]
fn in_tiles<C: Collective>(k: Kernel<TilesTiling>, x: Input<i32>, y: Output<i32>) {
    let t = k.tiling();
    k.on_aiv(|| {
        let hccl = k.hccl(0).init().configure(&t.operation);
        let tiles = C::prepare(&hccl, x, y, t.tile, t.stride, t.turns);
        hccl.wait_all(&tiles);
        k.when(t.tail.gt(0), || {
            let tail = C::prepare(&hccl, x.at(t.done), y.at(t.done), t.tail, t.stride, 1.into());
            hccl.wait_all(&tail);
        });
        k.sync_all_aiv();
        hccl.finalise();
    });
}

/// Returns the moves of both tasks' turns, with inputs and outputs of `lengths` elements.
pub fn moved<C: Collective>(tiles: Tiles, lengths: [usize; 2]) -> Vec<Move> {
    let kernel = in_tiles::record::<C>().unwrap();
    look(&kernel, tiles.turns as usize + 1, lengths, C::COMMAND, C::SUMS, |_, turns| TilesTiling {
        tile: tiles.tile,
        turns: (turns as u64).min(tiles.turns),
        done: tiles.tile * tiles.turns,
        tail: if turns as u64 > tiles.turns { tiles.tail } else { 0 },
        stride: tiles.stride,
        ..Tiling::zeroed()
    })
}

/// Blocks of different lengths: `counts[i][j]` elements go from rank `i` to rank `j`, in each turn.
/// The blocks follow each other, each with room for all its turns.
#[derive(Clone, Copy)]
pub struct Blocks {
    pub counts: [[u64; RANKS]; RANKS],
    pub turns: u64,
}

#[derive(Tiling, Clone, Copy)]
#[repr(C)]
struct BlocksTiling {
    init: Mc2InitTiling,
    operation: Mc2CcTiling,
    send_counts: [u64; RANKS],
    send_displs: [u64; RANKS],
    recv_counts: [u64; RANKS],
    recv_displs: [u64; RANKS],
    turns: u64,
}

#[kernel(mix = "aiv_1_0")]
fn in_blocks(k: Kernel<BlocksTiling>, x: Input<i32>, y: Output<i32>) {
    let t = k.tiling();
    k.on_aiv(|| {
        let hccl = k.hccl(0).init().configure(&t.operation);
        let (send, recv) = ((&t.send_counts, &t.send_displs), (&t.recv_counts, &t.recv_displs));
        let task = hccl.all_to_all_v(x, send, y, recv).repeat(t.turns).commit_all();
        hccl.wait_all(&task);
        k.sync_all_aiv();
        hccl.finalise();
    });
}

/// Returns the moves of each turn of the blocks.
pub fn moved_blocks(blocks: Blocks) -> Vec<Move> {
    let packed = |counts: [u64; RANKS]| {
        let mut at = 0;
        counts.map(|count| {
            at += count * blocks.turns;
            at - count * blocks.turns
        })
    };
    let sends = |rank: usize| blocks.counts[rank];
    let receives = |rank: usize| blocks.counts.map(|row| row[rank]);
    let most = |of: &dyn Fn(usize) -> [u64; RANKS]| {
        (0..RANKS).map(|rank| of(rank).iter().sum::<u64>() * blocks.turns).max().unwrap() as usize
    };
    let lengths = [most(&sends), most(&receives)];
    let kernel = in_blocks::record().unwrap();
    look(&kernel, blocks.turns as usize, lengths, CmdType::AllToAllV, false, |rank, turns| {
        BlocksTiling {
            send_counts: sends(rank),
            send_displs: packed(sends(rank)),
            recv_counts: receives(rank),
            recv_displs: packed(receives(rank)),
            turns: turns as u64,
            ..Tiling::zeroed()
        }
    })
}

/// Runs a kernel with more and more turns, reads the outputs, and returns the moves.
fn look<T: Tiling + symbol::TilingArgument + Copy>(
    kernel: &Recorded<T>,
    turns: usize,
    lengths: [usize; 2],
    command: CmdType,
    sums: bool,
    tiling: impl Fn(usize, usize) -> T + Sync,
) -> Vec<Move> {
    let runtime = runtime_with(RANKS);
    let each = |rank: Rank| {
        let (device, index) = (rank.device(), rank.index() as usize);
        let stream = device.stream()?;
        let mut comm = rank.communicator()?;
        let mut loaded = kernel.load(device)?;
        let config = Mc2CcTilingConfig::builder().group_name(comm.name()).op_type(command);
        let config = config.source_type(DataType::I32);
        let member = match sums {
            true => config.reduce_op(ReduceKind::Sum).build(),
            false => config.build(),
        };
        let init = Mc2InitTilingConfig::builder().product(Product::A3).build();
        let mut known = HashSet::new();
        let mut moves = Vec::new();
        for source in 0..RANKS {
            // Other ranks have 0, and so do unwritten elements.
            let numbers = (0..lengths[0]).map(|n| if source == index { n as i32 + 1 } else { 0 });
            let x = device.upload(&numbers.collect::<Vec<_>>(), &stream)?;
            for turn in 0..turns {
                let mut y = device.zeros::<i32>(lengths[1], &stream)?;
                let mut tiling = tiling(index, turn + 1);
                init.fill(&mut tiling, std::slice::from_ref(&member))?;
                let launch = loaded.launch(1).tiling(&tiling).group(&mut comm);
                launch.input(&x).output(&mut y).submit(&stream)?.wait()?;
                for (place, number) in y.to_vec(&stream).wait()?.into_iter().enumerate() {
                    let Some(read) = (number as usize).checked_sub(1) else { continue };
                    let (from, to) = ((source, read), (index, place));
                    if known.insert((from, to)) {
                        moves.push(Move { turn, from, to });
                    }
                }
            }
        }
        Ok::<_, hccl::Error>(moves)
    };
    runtime.run_ranks(RANKS as u32, each).unwrap().concat()
}
