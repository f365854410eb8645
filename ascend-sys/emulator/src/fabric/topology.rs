//! The emulated network: the places of the devices, and the layers over which they reach each
//! other.
//!
//! The network is invented, and as simple as the products allow. The devices of a block are in
//! servers, in the order of their ids. A server of an A2 or a 950 has 8 devices, and a server of an
//! A3 has 16. A block is one superpod.
//!
//! | product | layer 0 | layer 1 | layer 2 |
//! |---|---|---|---|
//! | A2 | a server: full mesh, HCCS | all servers: RoCE | |
//! | A3 | a server: HCCS | a superpod: HCCS | all superpods: RoCE |
//! | 950 | a server: full mesh, UB | all servers: Clos, UB and RoCE | |
//!
//! A communicator of an A2 or A3 has only the layers that its ranks need: within one server, that
//! is layer 0. On 950 it always has both layers. Two ranks are linked on a layer if one instance of
//! the layer contains both, so ranks of one server are linked on every layer. None of this affects
//! how fast data moves.

use super::comm::Comm;
use super::place::DevicePlace;
use crate::machine::Device;
use crate::profile::Product;
use ascend_sys::{CommProtocol, CommTopo};

/// The extent of an instance of a layer: the devices that one instance contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holds {
    Server,
    Superpod,
    All,
}

/// A layer of the network.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layer {
    pub(crate) number: u32,
    pub(crate) topo: CommTopo,
    /// The protocols of the links of the layer. The first is the usual protocol.
    pub(crate) protocols: &'static [CommProtocol],
    holds: Holds,
}

const HCCS: &[CommProtocol] = &[CommProtocol::COMM_PROTOCOL_HCCS];
const ROCE: &[CommProtocol] = &[CommProtocol::COMM_PROTOCOL_ROCE];
const UB: &[CommProtocol] =
    &[CommProtocol::COMM_PROTOCOL_UB_CTP, CommProtocol::COMM_PROTOCOL_UB_MEM];
const UB_AND_ROCE: &[CommProtocol] = &[
    CommProtocol::COMM_PROTOCOL_UB_CTP,
    CommProtocol::COMM_PROTOCOL_UBOE,
    CommProtocol::COMM_PROTOCOL_ROCE,
];

const fn layer(
    number: u32,
    holds: Holds,
    topo: CommTopo,
    protocols: &'static [CommProtocol],
) -> Layer {
    Layer { number, topo, protocols, holds }
}

const A2: &[Layer] = &[
    layer(0, Holds::Server, CommTopo::COMM_TOPO_1DMESH, HCCS),
    layer(1, Holds::All, CommTopo::COMM_TOPO_CLOS, ROCE),
];
const A3: &[Layer] = &[
    layer(0, Holds::Server, CommTopo::COMM_TOPO_910_93, HCCS),
    layer(1, Holds::Superpod, CommTopo::COMM_TOPO_CLOS, HCCS),
    layer(2, Holds::All, CommTopo::COMM_TOPO_CLOS, ROCE),
];
const ASCEND_950: &[Layer] = &[
    layer(0, Holds::Server, CommTopo::COMM_TOPO_1DMESH, UB),
    layer(1, Holds::All, CommTopo::COMM_TOPO_CLOS, UB_AND_ROCE),
];

/// Returns the layers that a product can have.
pub(crate) fn layers_of(product: Product) -> &'static [Layer] {
    match product {
        Product::A2 => A2,
        Product::A3 => A3,
        Product::Ascend950 => ASCEND_950,
    }
}

/// Returns the instance that a place belongs to.
fn instance(product: Product, holds: Holds, place: DevicePlace) -> (u32, u32) {
    match holds {
        Holds::Server => (place.block, place.server(product)),
        Holds::Superpod => (place.block, 0),
        Holds::All => (0, 0),
    }
}

/// Returns the usual protocol between two devices of a block, on the first layer that links them.
/// `None` if device `a` is not in use.
pub(crate) fn linked_by(a: &Device, b: &Device) -> Option<CommProtocol> {
    let settings = a.settings()?;
    let product = settings.product;
    let (a, b) = (DevicePlace::new(a.id, &settings), DevicePlace::new(b.id, &settings));
    let links =
        |layer: &&Layer| instance(product, layer.holds, a) == instance(product, layer.holds, b);
    layers_of(product).iter().find(links)?.protocols.first().copied()
}

impl Comm {
    /// Returns the layers of the communicator, from layer 0.
    pub(crate) fn layers(&self) -> &'static [Layer] {
        let all = layers_of(self.product);
        if self.product == Product::Ascend950 {
            return all;
        }
        // The first layer that holds all ranks is the last layer that they need.
        let holds_all =
            |layer: &Layer| (1..self.ranks()).all(|rank| self.are_together(layer, 0, rank));
        let needed = all.iter().position(holds_all).map_or(all.len(), |last| last + 1);
        &all[..needed]
    }

    /// Returns whether two ranks are in one instance of a layer.
    pub(crate) fn are_together(&self, layer: &Layer, a: usize, b: usize) -> bool {
        let instance = |rank: usize| {
            self.places.get(rank).map(|place| instance(self.product, layer.holds, *place))
        };
        instance(a) == instance(b)
    }

    /// Returns the ranks of the instance that contains `rank`.
    pub(crate) fn instance_of(&self, layer: &Layer, rank: usize) -> Vec<u32> {
        let together = |other: &u32| self.are_together(layer, rank, *other as usize);
        (0..self.ranks() as u32).filter(together).collect()
    }

    /// Returns the number of ranks in each instance of a layer, in the order of their first ranks.
    pub(crate) fn instance_sizes(&self, layer: &Layer) -> Vec<u32> {
        let mut found: Vec<((u32, u32), u32)> = Vec::new();
        for place in &*self.places {
            let instance = instance(self.product, layer.holds, *place);
            match found.iter_mut().find(|(other, _)| *other == instance) {
                Some((_, size)) => *size += 1,
                None => found.push((instance, 1)),
            }
        }
        found.into_iter().map(|(_, size)| size).collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::time::Duration;

    fn comm(product: Product, places: &[(u32, u32)]) -> Comm {
        let places = places.iter().map(|(block, index)| DevicePlace {
            device: 1000 * block + index,
            block: *block,
            index: *index,
        });
        Comm::new("net".into(), product, Duration::from_secs(1), places.len()).on(places.collect())
    }

    fn sizes(comm: &Comm) -> Vec<Vec<u32>> {
        comm.layers().iter().map(|layer| comm.instance_sizes(layer)).collect()
    }

    #[test]
    fn ranks_have_the_layers_that_they_need() {
        let in_block = |ranks: std::ops::Range<u32>| ranks.map(|i| (1, i)).collect::<Vec<_>>();
        assert_eq!(sizes(&comm(Product::A2, &in_block(0..8))), [vec![8]]);
        assert_eq!(sizes(&comm(Product::A2, &in_block(0..9))), [vec![8, 1], vec![9]]);
        assert_eq!(sizes(&comm(Product::A3, &in_block(0..16))), [vec![16]]);
        assert_eq!(sizes(&comm(Product::A3, &in_block(4..20))), [vec![12, 4], vec![16]]);
        assert_eq!(sizes(&comm(Product::Ascend950, &in_block(0..2))), [vec![2], vec![2]]);
        let apart = comm(Product::A3, &[(1, 0), (1, 1), (2, 0)]);
        assert_eq!(sizes(&apart), [vec![2, 1], vec![2, 1], vec![3]]);
    }

    #[test]
    fn instances_go_by_servers_and_not_by_ranks() {
        // Two servers of an A2; ranks alternate between their devices.
        let places: Vec<_> = (0..6).map(|rank| (7, rank / 2 + 8 * (rank % 2))).collect();
        let comm = comm(Product::A2, &places);
        let [server, all] = comm.layers() else { panic!("two layers") };
        assert_eq!(comm.instance_of(server, 0), [0, 2, 4]);
        assert_eq!(comm.instance_of(server, 5), [1, 3, 5]);
        assert_eq!(comm.instance_of(all, 5), [0, 1, 2, 3, 4, 5]);
        assert!(comm.are_together(server, 1, 3) && !comm.are_together(server, 1, 2));
    }
}
