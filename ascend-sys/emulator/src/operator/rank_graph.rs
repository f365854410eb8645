//! The rank graph: the queries of a rank about the layers, ranks and links around it.
//!
//! The returned lists belong to the library. For each function there is one list per rank. The next
//! call of the function overwrites the list. The address of the list stays the same until the
//! rank's communicator ends.

use super::endpoint::Endpoint;
use crate::collective::validate;
use crate::fabric::topology::Layer;
use crate::fabric::{CommPart, Member};
use crate::message::{Failure, refuse};
use crate::profile::Product;
use ascend_sync::lock_std as lock;
use ascend_sys::{
    COMM_LINK_MAGIC_WORD, COMM_LINK_VERSION, CommAbiHeader, CommLink, CommProtocol, EndpointDesc,
};
use std::mem::MaybeUninit;
use std::sync::{Mutex, MutexGuard};

/// The lists that were returned to each rank of a communicator. The lists of a rank that has left
/// are kept, because a program may still read them.
struct Answers(Box<[Mutex<Lists>]>);

impl CommPart for Answers {
    fn left(&self, _: usize, _: &str) {}
}

#[derive(Default)]
struct Lists {
    layers: LentList<u32>,
    ranks: LentList<u32>,
    sizes: LentList<u32>,
    links: LentList<CommLink>,
    instances: LentList<u32>,
    ranks_of_instance: LentList<u32>,
}

/// The number of the only topology instance of a layer.
const INSTANCE: u32 = 0;

/// Returns the layer with this number.
pub(crate) fn layer(member: &Member, number: u32) -> Result<&'static Layer, Failure> {
    let layers = member.comm.layers();
    match layers.get(number as usize) {
        Some(layer) => Ok(layer),
        None => refuse!(
            HCCL_E_PARA,
            "there is no layer {number}: the number of layers of the communicator is {}; pass 0 \
             to {}",
            layers.len(),
            layers.len() - 1
        ),
    }
}

/// Returns the layer with this number that has the topology instance `id`.
fn layer_of_instance(member: &Member, number: u32, id: u32) -> Result<&'static Layer, Failure> {
    let layer = layer(member, number)?;
    if id != INSTANCE {
        return refuse!(
            HCCL_E_PARA,
            "layer {number} has no topology instance {id}: each layer has one instance for a \
             rank; pass its id, {INSTANCE}"
        );
    }
    Ok(layer)
}

/// The address and the length of a list.
pub(crate) type LentRange<T> = (*mut T, u32);

impl Member {
    fn lists(&self) -> MutexGuard<'_, Lists> {
        let ranks = 0..self.comm.ranks();
        let Answers(of_ranks) =
            self.comm.part(|| Answers(ranks.clone().map(|_| Mutex::default()).collect()));
        lock(&of_ranks[self.rank])
    }

    pub(crate) fn tell_layers(&self) -> LentRange<u32> {
        let numbers = self.comm.layers().iter().map(|layer| layer.number);
        self.lists().layers.tell(MOST_LAYERS, numbers)
    }

    pub(crate) fn tell_ranks(&self, number: u32) -> Result<LentRange<u32>, Failure> {
        let ranks = self.comm.instance_of(layer(self, number)?, self.rank);
        Ok(self.lists().ranks.tell(self.comm.ranks(), ranks))
    }

    pub(crate) fn count_ranks(&self, number: u32) -> Result<u32, Failure> {
        Ok(self.comm.instance_of(layer(self, number)?, self.rank).len() as u32)
    }

    pub(crate) fn tell_sizes(&self, number: u32) -> Result<LentRange<u32>, Failure> {
        let sizes = self.comm.instance_sizes(layer(self, number)?);
        Ok(self.lists().sizes.tell(self.comm.ranks(), sizes))
    }

    /// Returns the links from one rank to another. A rank has no links to itself, and no links to a
    /// rank of another instance of the layer.
    pub(crate) fn tell_links(
        &self,
        number: u32,
        from: u32,
        to: u32,
    ) -> Result<LentRange<CommLink>, Failure> {
        let layer = layer(self, number)?;
        validate::rank("srcRank", from, self.comm.ranks())?;
        validate::rank("dstRank", to, self.comm.ranks())?;
        let (from, to) = (from as usize, to as usize);
        let mut links = Vec::new();
        if from != to && self.comm.are_together(layer, from, to) {
            for protocol in layer.protocols {
                let (from, to) = (self.end(from, *protocol)?, self.end(to, *protocol)?);
                links.push(link(from, to, *protocol));
            }
        }
        Ok(self.lists().links.tell(MOST_LINKS, links))
    }

    pub(crate) fn tell_instances(&self, number: u32) -> Result<LentRange<u32>, Failure> {
        layer(self, number)?;
        Ok(self.lists().instances.tell(1, [INSTANCE]))
    }

    pub(crate) fn shape_of_instance(
        &self,
        number: u32,
        id: u32,
    ) -> Result<&'static Layer, Failure> {
        layer_of_instance(self, number, id)
    }

    pub(crate) fn tell_ranks_of_instance(
        &self,
        number: u32,
        id: u32,
    ) -> Result<LentRange<u32>, Failure> {
        let ranks = self.comm.instance_of(layer_of_instance(self, number, id)?, self.rank);
        Ok(self.lists().ranks_of_instance.tell(self.comm.ranks(), ranks))
    }

    /// Returns the endpoints of this rank in a topology instance: one for each protocol.
    pub(crate) fn endpoints(&self, number: u32, id: u32) -> Result<Vec<EndpointDesc>, Failure> {
        let layer = layer_of_instance(self, number, id)?;
        layer.protocols.iter().map(|protocol| self.end(self.rank, *protocol)).collect()
    }

    /// Checks that a rank has the described endpoint.
    pub(crate) fn has_endpoint(
        &self,
        rank: u32,
        description: &EndpointDesc,
    ) -> Result<(), Failure> {
        validate::rank("rankId", rank, self.comm.ranks())?;
        match Endpoint::read(description) {
            Ok(endpoint)
                if endpoint.abroad.is_none()
                    && self.comm.place_of(rank as usize) == Some(endpoint.place) =>
            {
                Ok(())
            }
            Ok(endpoint) => refuse!(
                HCCL_E_NOT_FOUND,
                "the endpoint is on device {}, which is not that of rank {rank}; pass an endpoint \
                 of that rank",
                endpoint.device_name()
            ),
            Err(text) => refuse!(HCCL_E_NOT_FOUND, "rank {rank} has no such endpoint: {text}"),
        }
    }

    fn end(&self, rank: usize, protocol: CommProtocol) -> Result<EndpointDesc, Failure> {
        match self.comm.place_of(rank) {
            Some(place) => Ok(Endpoint::own(place, protocol).describe(self.comm.product)),
            None => refuse!(HCCL_E_INTERNAL, "EI9999: the device of rank {rank} is unknown"),
        }
    }

    /// Returns an error if the product does not support queries about topology instances and
    /// endpoints; only Ascend 950 does.
    pub(crate) fn tells_instances(&self) -> Result<(), Failure> {
        let product = self.comm.product;
        if product != Product::Ascend950 {
            return refuse!(
                HCCL_E_NOT_SUPPORT,
                "{product} has no queries of topology instances and endpoints; Ascend 950 has them"
            );
        }
        Ok(())
    }
}

fn link(from: EndpointDesc, to: EndpointDesc, protocol: CommProtocol) -> CommLink {
    let mut link = MaybeUninit::<CommLink>::uninit();
    // SAFETY: plain numbers, for which all ones are valid.
    let mut link = unsafe {
        link.as_mut_ptr().write_bytes(0xff, 1);
        link.assume_init()
    };
    link.header = CommAbiHeader {
        version: COMM_LINK_VERSION,
        magicWord: COMM_LINK_MAGIC_WORD,
        size: size_of::<CommLink>() as u32,
        reserved: 0,
    };
    link.srcEndpointDesc = from;
    link.dstEndpointDesc = to;
    link.linkAttr.anon_1.linkProtocol = protocol;
    link.linkAttr.anon_1.hop = 1;
    link
}

const MOST_LAYERS: usize = 3;
const MOST_LINKS: usize = 3;

/// A list that a program may read as long as the communicator exists.
struct LentList<T> {
    start: *mut T,
    room: usize,
}

// SAFETY: the list owns the memory that it points to.
unsafe impl<T: Send> Send for LentList<T> {}

impl<T> Default for LentList<T> {
    fn default() -> Self {
        Self { start: std::ptr::null_mut(), room: 0 }
    }
}

impl<T: Copy> LentList<T> {
    /// Overwrites the list with `values`, and returns its address and length. The list holds at
    /// most `room` values. Every call must pass the same `room`.
    fn tell(&mut self, room: usize, values: impl IntoIterator<Item = T>) -> LentRange<T> {
        if self.start.is_null() {
            self.start = Box::into_raw(Box::<[T]>::new_uninit_slice(room)).cast();
            self.room = room;
        }
        let mut length = 0;
        for value in values.into_iter().take(self.room) {
            // SAFETY: the element lies within the allocation of the list.
            unsafe { self.start.add(length).write(value) };
            length += 1;
        }
        (self.start, length as u32)
    }
}

impl<T> Drop for LentList<T> {
    fn drop(&mut self) {
        if !self.start.is_null() {
            let all =
                std::ptr::slice_from_raw_parts_mut(self.start.cast::<MaybeUninit<T>>(), self.room);
            // SAFETY: this is the box that `Box::into_raw` has returned.
            drop(unsafe { Box::from_raw(all) });
        }
    }
}
