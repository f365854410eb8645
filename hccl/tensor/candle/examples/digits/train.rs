//! A network learns to read digits: with a replica on each rank, and with its layers divided.

use std::error::Error;
use std::time::Instant;

use candle_core::{DType, Device, Tensor, Var};
use candle_nn::{Activation, Module, Optimizer, SGD, Sequential, VarBuilder, VarMap, linear, seq};
use hccl::prelude::*;
use hccl_candle::{ColumnLinear, DataParallel, Group, RowLinear};
use hccl_tensor_digits::data::{Digits, Split};
use hccl_tensor_digits::{Curve, EPOCHS, RATE, WIDTHS, batches, shard, weights};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const NAMES: [&str; 3] = ["first", "second", "third"];

/// Makes the network as for one device.
fn network(vb: VarBuilder) -> candle_core::Result<Sequential> {
    Ok(seq()
        .add(linear(WIDTHS[0], WIDTHS[1], vb.pp(NAMES[0]))?)
        .add(Activation::Relu)
        .add(linear(WIDTHS[1], WIDTHS[2], vb.pp(NAMES[1]))?)
        .add(Activation::Relu)
        .add(linear(WIDTHS[2], WIDTHS[3], vb.pp(NAMES[2]))?))
}

/// Makes the same network, but divides its first two layers over the ranks.
fn divided_network(vb: VarBuilder, group: &Group) -> candle_core::Result<Sequential> {
    Ok(seq()
        .add(ColumnLinear::load(WIDTHS[0], WIDTHS[1], vb.pp(NAMES[0]), group)?)
        .add(Activation::Relu)
        .add(RowLinear::load(WIDTHS[1], WIDTHS[2], vb.pp(NAMES[1]), group)?)
        .add(Activation::Relu)
        .add(linear(WIDTHS[2], WIDTHS[3], vb.pp(NAMES[2]))?))
}

/// Makes the first parameters. They are the same in every run, so that runs can be compared. `part`
/// returns the part of a rank.
fn parameters(part: impl Fn(usize, Tensor) -> candle_core::Result<Tensor>) -> Result<VarMap> {
    let map = VarMap::new();
    for (layer, name) in NAMES.iter().enumerate() {
        let shape = (WIDTHS[layer + 1], WIDTHS[layer]);
        let weight = part(layer, Tensor::from_vec(weights(layer), shape, &Device::Cpu)?)?;
        let mut vars = map.data().lock().map_err(|error| error.to_string())?;
        vars.insert(format!("{name}.weight"), Var::from_tensor(&weight)?);
    }
    for (layer, name) in NAMES.iter().enumerate() {
        let bias = Tensor::zeros((WIDTHS[layer + 1], 1), DType::F32, &Device::Cpu)?;
        // Only the first layer has divided outputs, so only its bias is divided.
        let bias = if layer == 0 { part(layer, bias)? } else { bias };
        let mut vars = map.data().lock().map_err(|error| error.to_string())?;
        vars.insert(format!("{name}.bias"), Var::from_tensor(&bias.flatten_all()?)?);
    }
    Ok(map)
}

fn tensors(digits: &Digits) -> candle_core::Result<(Tensor, Tensor)> {
    let pixels: Vec<f32> = digits.images.iter().copied().collect();
    let labels: Vec<u32> = digits.labels.iter().map(|&label| label.into()).collect();
    let rows = labels.len();
    let images = Tensor::from_vec(pixels, (rows, WIDTHS[0]), &Device::Cpu)?;
    Ok((images, Tensor::from_vec(labels, rows, &Device::Cpu)?))
}

fn loss(network: &impl Module, digits: &Digits) -> candle_core::Result<Tensor> {
    let (images, labels) = tensors(digits)?;
    candle_nn::loss::cross_entropy(&network.forward(&images)?, &labels)
}

fn accuracy(network: &impl Module, digits: &Digits) -> candle_core::Result<f64> {
    let (images, labels) = tensors(digits)?;
    let read = network.forward(&images)?.argmax(1)?;
    read.eq(&labels)?.to_dtype(DType::F64)?.mean_all()?.to_scalar()
}

/// Trains with the network and a part of each batch on every rank.
pub fn data_parallel(ranks: usize, split: &Split) -> Result<Curve> {
    let train = |rank: Rank| -> Result<(Vec<f32>, f64)> {
        let (index, ranks) = (rank.index() as usize, ranks);
        let (comm, stream) = (rank.communicator()?, rank.device().stream()?);
        let map = parameters(|_, whole| Ok(whole))?;
        let mut parallel = DataParallel::new(&map, DType::F32, comm, stream, network)?;
        let mut optimiser = SGD::new(parallel.vars().to_vec(), RATE)?;
        let mut losses = Vec::new();
        for epoch in 0..EPOCHS {
            let mut sum = 0.0;
            for batch in batches(split.training.len(), epoch) {
                let own = split.training.select(shard(&batch, index, ranks));
                let step = parallel.step(own.len(), batch.len(), |net| loss(net, &own))?;
                optimiser.step(&step.gradients)?;
                sum += step.loss * batch.len() as f32;
            }
            losses.push(sum / split.training.len() as f32);
        }
        Ok((losses, accuracy(parallel.model(), &split.held_out)?))
    };
    curve("data parallel", ranks, train)
}

/// Trains with a part of the first two layers and with all rows on every rank.
pub fn tensor_parallel(ranks: usize, split: &Split) -> Result<Curve> {
    let train = |rank: Rank| -> Result<(Vec<f32>, f64)> {
        let group = Group::new(rank.communicator()?, rank.device().stream()?);
        let map = parameters(|layer, whole| match layer {
            0 => group.part(&whole, 0),
            1 => group.part(&whole, 1),
            _ => Ok(whole),
        })?;
        let builder = VarBuilder::from_varmap(&map, DType::F32, &Device::Cpu);
        let network = divided_network(builder, &group)?;
        let mut optimiser = SGD::new(map.all_vars(), RATE)?;
        let mut losses = Vec::new();
        for epoch in 0..EPOCHS {
            let mut sum = 0.0;
            for batch in batches(split.training.len(), epoch) {
                let loss = loss(&network, &split.training.select(&batch))?;
                optimiser.backward_step(&loss)?;
                sum += loss.to_scalar::<f32>()? * batch.len() as f32;
            }
            losses.push(sum / split.training.len() as f32);
        }
        Ok((losses, accuracy(&network, &split.held_out)?))
    };
    curve("tensor parallel", ranks, train)
}

/// Trains on all ranks, and returns the curve of rank 0.
fn curve(
    way: &'static str,
    ranks: usize,
    train: impl Fn(Rank) -> Result<(Vec<f32>, f64)> + Sync,
) -> Result<Curve> {
    let began = Instant::now();
    let runtime = Runtime::emulator(ranks)?;
    let of_ranks = runtime.run_ranks(ranks as u32, train)?;
    let (losses, accuracy) = of_ranks.into_iter().next().ok_or("no rank")?;
    Ok(Curve { way, ranks, losses, accuracy, seconds: began.elapsed().as_secs_f64() })
}
