//! Parameters that are spread over the ranks and gathered layer by layer (ZeRO, stage 3). Each rank
//! keeps only a part of each layer.
//!
//! A layer is gathered only for as long as it is in use. Meanwhile the next layer can be gathered.
//! There are two slots for gathered layers: one for the layer in use, and one for the layer that is
//! being gathered.

use std::ops::Range;

use hccl::Download;
use hccl::prelude::*;

use crate::agreement::{Agreement, Layout};
use crate::error::{Error, Result, check_length};
use crate::gradient::{Gradient, scale};
use crate::parts::Parts;

/// The layers of a model, each spread over all ranks.
///
/// All ranks must call [`prefetch`](Self::prefetch), [`get`](Self::get) and
/// [`reduce`](Self::reduce) in the same order: layer by layer, as a forward pass and then a
/// backward pass use them.
///
/// ```
/// use hccl::prelude::*;
/// use hccl_train::LayerShards;
///
/// # fn main() -> hccl_train::Result<()> {
/// # let runtime = Runtime::emulator(2)?;
/// runtime.run_ranks(2, |rank| -> hccl_train::Result<()> {
///     let stream = rank.device().stream()?;
///     let mut comm = rank.communicator()?;
///     let first = |layer: usize, own: std::ops::Range<usize>| vec![layer as f32; own.len()];
///     let mut layers = LayerShards::<f32>::new(&[6, 4], &comm, &stream, first)?;
///     for layer in 0..2 {
///         let weights = layers.get(layer, &mut comm, &stream)?; // the whole layer, for a while
///         assert_eq!(weights[0], layer as f32);
///     }
///     let gradient = layers.reduce(1, &[1.0; 4], &mut comm, &stream)?; // for this rank's part
///     layers.update(1, &gradient, &stream)?;
///     Ok(())
/// })?;
/// # Ok(())
/// # }
/// ```
pub struct LayerShards<T: Gradient> {
    rank: usize,
    ranks: usize,
    layers: Vec<Layer<T>>,
    slots: [Slot<T>; 2],
    /// The index of the slot that [`get`](LayerShards::get) used last.
    latest: usize,
    part: DeviceBuffer<T>,
    agreement: Agreement,
}

struct Layer<T: Element> {
    length: usize,
    parts: Parts,
    /// This rank's part of the layer, with padding.
    part: DeviceBuffer<T>,
}

struct Slot<T: Element> {
    device: DeviceBuffer<T>,
    held: Held<T>,
}

/// The contents of a slot.
enum Held<T: Element> {
    Nothing,
    /// A layer that is being gathered.
    Coming(usize, Download<T>),
    /// A layer that has arrived.
    There(usize, Vec<T>),
}

impl<T: Element> Held<T> {
    fn layer(&self) -> Option<usize> {
        match self {
            Held::Nothing => None,
            Held::Coming(layer, _) | Held::There(layer, _) => Some(*layer),
        }
    }
}

impl<T: Gradient> LayerShards<T> {
    /// Spreads layers of these lengths over the ranks. The lengths must be the same on all ranks:
    /// the first operation on a communicator waits for the other ranks, compares the lengths, and
    /// returns [`Error::RanksDiffer`] if they differ. `first` returns the initial values of this
    /// rank's part of a layer. Its arguments are the layer and the range of the part.
    pub fn new(
        lengths: &[usize],
        comm: &Communicator,
        stream: &Stream,
        mut first: impl FnMut(usize, Range<usize>) -> Vec<T>,
    ) -> Result<Self> {
        let (rank, ranks) = (comm.rank() as usize, comm.world_size() as usize);
        let device = stream.device();
        let (mut layers, mut most) = (Vec::with_capacity(lengths.len()), 0);
        for (layer, length) in lengths.iter().copied().enumerate() {
            let parts = Parts::new(length, ranks);
            let own = parts.of(rank);
            let mut values = first(layer, own.clone());
            check_length(|| format!("the part of layer {layer}"), values.len(), own.len())?;
            values.resize(parts.share, T::default());
            layers.push(Layer { length, parts, part: device.upload(&values, stream)? });
            most = most.max(parts.share);
        }
        let slot = || -> Result<Slot<T>> {
            Ok(Slot { device: device.zeros(most * ranks, stream)?, held: Held::Nothing })
        };
        let slots = [slot()?, slot()?];
        let (latest, part) = (0, device.zeros(most, stream)?);
        Ok(Self { rank, ranks, layers, slots, latest, part, agreement: Agreement::default() })
    }

    fn agree(&mut self, comm: &mut Communicator, stream: &Stream) -> Result<()> {
        let lengths = self.layers.iter().map(|layer| layer.length);
        let layout = || Layout::new("layer", lengths, 0).cut_for(self.rank, self.ranks);
        self.agreement.check(layout, comm, stream)
    }

    fn layer(&self, layer: usize) -> Result<&Layer<T>> {
        let count = self.layers.len();
        self.layers.get(layer).ok_or(Error::NoSuch { what: "layer", index: layer, count })
    }

    /// Returns the range of elements of a layer that this rank keeps.
    pub fn own(&self, layer: usize) -> Result<Range<usize>> {
        Ok(self.layer(layer)?.parts.of(self.rank))
    }

    /// Begins to gather a layer, unless it is gathered or being gathered already. Does not wait for
    /// other ranks, except in the first operation on a communicator.
    ///
    /// The layer replaces the contents of the slot that [`get`](Self::get) did not use last.
    pub fn prefetch(
        &mut self,
        layer: usize,
        comm: &mut Communicator,
        stream: &Stream,
    ) -> Result<()> {
        let padded = self.layer(layer)?.parts.share * comm.world_size() as usize;
        self.agree(comm, stream)?;
        if self.slots.iter().any(|slot| slot.held.layer() == Some(layer)) {
            return Ok(());
        }
        let slot = &mut self.slots[1 - self.latest];
        let part = &self.layers[layer].part;
        if padded > 0 {
            let mut place = slot.device.slice_mut(0..padded)?;
            drop(comm.all_gather(part, &mut place, stream)?);
        }
        let coming = slot.device.slice(0..padded)?.to_vec(stream);
        slot.held = Held::Coming(layer, coming);
        Ok(())
    }

    /// Returns all elements of a layer. Begins to gather the layer, if that has not been done yet,
    /// and blocks until the layer has arrived.
    pub fn get(&mut self, layer: usize, comm: &mut Communicator, stream: &Stream) -> Result<&[T]> {
        self.prefetch(layer, comm, stream)?;
        let length = self.layer(layer)?.length;
        self.latest = usize::from(self.slots[1].held.layer() == Some(layer));
        let slot = &mut self.slots[self.latest];
        if let Held::Coming(..) = slot.held
            && let Held::Coming(_, coming) = std::mem::replace(&mut slot.held, Held::Nothing)
        {
            slot.held = Held::There(layer, coming.wait()?);
        }
        match &slot.held {
            Held::There(_, values) => Ok(&values[..length]),
            Held::Coming(..) | Held::Nothing => Ok(&[]),
        }
    }

    /// Returns the gradient of a layer, as the mean over the ranks, for the elements that this rank
    /// [keeps](Self::own). Blocks until the gradient has arrived.
    pub fn reduce(
        &mut self,
        layer: usize,
        gradient: &[T],
        comm: &mut Communicator,
        stream: &Stream,
    ) -> Result<Vec<T>> {
        let Layer { length, parts, .. } = *self.layer(layer)?;
        check_length(|| format!("the gradient of layer {layer}"), gradient.len(), length)?;
        self.agree(comm, stream)?;
        if length == 0 {
            return Ok(Vec::new());
        }
        let factor = 1.0 / comm.world_size() as f32;
        let mut padded = gradient.to_vec();
        scale(&mut padded, factor);
        padded.resize(parts.share * comm.world_size() as usize, T::default());
        let whole = stream.device().upload(&padded, stream)?;
        let mut part = self.part.slice_mut(0..parts.share)?;
        drop(comm.reduce_scatter(&whole, &mut part, Sum, stream)?);
        let mut sum = part.as_slice().to_vec(stream).wait()?;
        sum.truncate(parts.of(self.rank).len());
        Ok(sum)
    }

    /// Sets new values for the elements of a layer that this rank [keeps](Self::own). If this rank
    /// has gathered the layer, the next [`get`](Self::get) gathers it again. So all ranks must
    /// update a layer between the same calls of [`prefetch`](Self::prefetch) and
    /// [`get`](Self::get). Sends nothing to other ranks.
    pub fn update(&mut self, layer: usize, own: &[T], stream: &Stream) -> Result<()> {
        let expected = self.own(layer)?.len();
        check_length(|| format!("the part of layer {layer}"), own.len(), expected)?;
        if expected > 0 {
            drop(self.layers[layer].part.slice_mut(0..expected)?.upload(own, stream)?);
        }
        let held = self.slots.iter_mut().filter(|slot| slot.held.layer() == Some(layer));
        held.for_each(|slot| slot.held = Held::Nothing);
        Ok(())
    }
}
