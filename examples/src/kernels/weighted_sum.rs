//! A weighted sum over all ranks, such as the average of models: the kernel of the walk-through in the book, and the function that launches it.

use hccl::dtype::ReduceKind;
use hccl::kernel::tiling::{CmdType, DataType, Mc2CcTilingConfig, Mc2InitTilingConfig};
use hccl::kernel::*;
use hccl::prelude::*;

/// Sizes of [`weighted_sum()`], and the weight of this rank.
#[derive(Tiling, Clone, Copy)]
#[repr(C)]
pub struct WeightedSumTiling {
    /// The offset of the next field, for the server.
    pub init: Mc2InitTiling,
    /// The group and the algorithm of the collective.
    pub all_reduce: Mc2CcTiling,
    /// The number of tiles.
    #[tiling(range = 1..=255)]
    pub tile_num: u32,
    /// The weight of this rank.
    pub weight: f32,
    /// The number of elements of a tile.
    pub tile_len: u64,
    /// The number of elements that a core takes at a time.
    pub piece_len: u64,
}

/// Computes `y = weight * x` for one tile. The cores take its pieces in turn.
#[kernel(inline)]
fn scale_tile(k: Kernel<WeightedSumTiling>, queues: &Queues, x: Input<f32>, y: Output<f32>) {
    let t = k.tiling();
    let first = k.block_index().cast::<u64>() * t.piece_len;
    let step = k.block_count().cast::<u64>() * t.piece_len;
    k.range_by(first..t.tile_len, step, |offset| {
        let count = t.piece_len.min(t.tile_len - offset);

        let piece = queues.input.alloc();
        k.copy_in(&piece, x.at(offset), count);
        queues.input.enqueue(piece);

        let piece = queues.input.dequeue();
        let scaled = queues.output.alloc();
        k.muls(&scaled, &piece, t.weight, count);
        queues.input.free(piece);
        queues.output.enqueue(scaled);

        let scaled = queues.output.dequeue();
        k.copy_out(y.at(offset), &scaled, count);
        queues.output.free(scaled);
    });
}

/// The queues in the local memory of a core.
struct Queues {
    input: Queue<f32>,
    output: Queue<f32>,
}

/// The first try, with a mistake: the cores do not wait for each other before the commit.
#[kernel(mix = "aiv_1_0")]
pub fn weighted_sum_at_first(k: Kernel<WeightedSumTiling>, x: Input<f32>, y: Output<f32>) {
    let t = k.tiling();
    k.on_aiv(|| {
        let input = k.queue(Position::VecIn, 2, t.piece_len);
        let output = k.queue(Position::VecOut, 2, t.piece_len);
        let queues = Queues { input, output };
        let hccl = k.hccl(0).init().configure(&t.all_reduce);
        let tiles = hccl.all_reduce(y, y, t.tile_len, Sum).repeat(t.tile_num).prepare();
        k.range(..t.tile_num, |tile| {
            let start = tile.cast::<u64>() * t.tile_len;
            scale_tile(k, &queues, x.at(start), y.at(start));
            hccl.commit(&tiles);
        });
        hccl.wait_all(&tiles);
        k.sync_all_aiv();
        hccl.finalise();
    });
}

/// `y = sum of weight * x over the ranks`. While the server sums one tile, the cores scale the next.
#[kernel(mix = "aiv_1_0")]
pub fn weighted_sum(k: Kernel<WeightedSumTiling>, x: Input<f32>, y: Output<f32>) {
    let t = k.tiling();
    k.on_aiv(|| {
        let input = k.queue(Position::VecIn, 2, t.piece_len);
        let output = k.queue(Position::VecOut, 2, t.piece_len);
        let queues = Queues { input, output };
        let hccl = k.hccl(0).init().configure(&t.all_reduce);
        let tiles = hccl.all_reduce(y, y, t.tile_len, Sum).repeat(t.tile_num).prepare();
        k.range(..t.tile_num, |tile| {
            let start = tile.cast::<u64>() * t.tile_len;
            scale_tile(k, &queues, x.at(start), y.at(start));
            k.comment("The server reads what all cores have written.");
            k.sync_all_aiv();
            hccl.commit(&tiles);
        });
        hccl.wait_all(&tiles);
        k.sync_all_aiv();
        hccl.finalise();
    });
}

/// Returns the tiling that the host passes to the kernel: 4 tiles of 262,144 elements, which the cores take in pieces of 4,096.
///
/// # Errors
///
/// A number that is out of its range, or a setting that the product does not have.
pub fn tiling(weight: f32, group: &str) -> hccl::Result<WeightedSumTiling> {
    let mut tiling =
        WeightedSumTiling { weight, tile_len: 262_144, piece_len: 4096, ..Tiling::zeroed() };
    tiling.set_tile_num(4)?;
    let all_reduce = Mc2CcTilingConfig::builder()
        .group_name(group)
        .op_type(CmdType::AllReduce)
        .reduce_op(ReduceKind::Sum)
        .source_type(DataType::F32)
        .build();
    let init = Mc2InitTilingConfig::builder().product(Product::A3).build();
    init.fill(&mut tiling, &[all_reduce])?;
    Ok(tiling)
}

/// The number of all elements.
pub const LENGTH: usize = 4 * 262_144;

/// Launches the kernel on four cores, with the input and the weight of this rank.
///
/// # Errors
///
/// A finding of the checks before the launch, or a failure of the run.
pub fn launch(
    rank: &Rank,
    kernel: &Recorded<WeightedSumTiling>,
    x: &[f32],
    weight: f32,
) -> hccl::Result<Vec<f32>> {
    let device = rank.device();
    let stream = device.stream()?;
    let mut comm = rank.communicator()?;
    let tiling = tiling(weight, comm.name())?;
    let x = device.upload(x, &stream)?;
    let mut y = device.zeros::<f32>(LENGTH, &stream)?;
    let mut loaded = kernel.load(device)?;
    comm.barrier(&stream)?.wait()?; // so that the ranks begin together in the timeline
    let launch = loaded.launch(4).tiling(&tiling).group(&mut comm);
    launch.input(&x).output(&mut y).submit(&stream)?.wait()?;
    y.to_vec(&stream).wait()
}
