//! Tests of the rank graph of each product: the description of the emulated network that ranks get.

use ascend_emulator_testing::common::{self, Block};
use ascend_emulator_testing::ranks::config;
use ascend_emulator_testing::{call, hccl, ok, refuses};
use ascend_sys::*;
use std::collections::BTreeSet;
use std::ptr::null_mut;

const HCCS: CommProtocol = CommProtocol::COMM_PROTOCOL_HCCS;
const ROCE: CommProtocol = CommProtocol::COMM_PROTOCOL_ROCE;
const UB_CTP: CommProtocol = CommProtocol::COMM_PROTOCOL_UB_CTP;
const UB_MEM: CommProtocol = CommProtocol::COMM_PROTOCOL_UB_MEM;
const UBOE: CommProtocol = CommProtocol::COMM_PROTOCOL_UBOE;
const MESH: CommTopo = CommTopo::COMM_TOPO_1DMESH;
const CUSTOM: CommTopo = CommTopo::COMM_TOPO_CUSTOM;
const CLOS: CommTopo = CommTopo::COMM_TOPO_CLOS;
const A3_SERVER: CommTopo = CommTopo::COMM_TOPO_910_93;

/// All ranks of a communicator, which one thread drives.
struct World {
    comms: Vec<HcclComm>,
    _blocks: Vec<Block>,
}

impl World {
    fn new(product: u32, ranks: u32) -> World {
        World::of(product, &[ranks])
    }

    /// Returns a communicator over several blocks, with the given number of ranks on each block.
    fn of(product: u32, ranks: &[u32]) -> World {
        let block = |ranks: &u32| {
            let config = AscendExtBlockConfig { deviceCount: *ranks, product, ..Block::config() };
            Block::with(AscendExtBlockConfig { memoryBytes: 1 << 24, ..config })
        };
        let blocks: Vec<_> = ranks.iter().map(block).collect();
        let devices = blocks.iter().zip(ranks);
        let mut devices: Vec<i32> = devices
            .flat_map(|(block, ranks)| (0..*ranks as i32).map(|i| block.first + i))
            .collect();
        ok!(aclrtSetDevice(devices[0]));
        let mut comms = vec![null_mut(); devices.len()];
        hccl!(HcclCommInitAll(comms.len() as u32, devices.as_mut_ptr(), comms.as_mut_ptr()));
        World { comms, _blocks: blocks }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for comm in &self.comms {
            call!(HcclCommDestroy(*comm));
        }
    }
}

/// Copies a list that the library owns.
fn list<T: Copy>((start, length): (*mut T, u32)) -> Vec<T> {
    // SAFETY: the library has returned the start and the number of the entries.
    unsafe { std::slice::from_raw_parts(start, length as usize) }.to_vec()
}

fn layers(comm: HcclComm) -> Vec<u32> {
    let mut told = (null_mut(), 0);
    hccl!(HcclRankGraphGetLayers(comm, &mut told.0, &mut told.1));
    list(told)
}

fn ranks_of(comm: HcclComm, layer: u32) -> Vec<u32> {
    let (mut told, mut size) = ((null_mut(), 0), 0);
    hccl!(HcclRankGraphGetRanksByLayer(comm, layer, &mut told.0, &mut told.1));
    hccl!(HcclRankGraphGetRankSizeByLayer(comm, layer, &mut size));
    assert_eq!(size, told.1);
    list(told)
}

fn sizes(comm: HcclComm, layer: u32) -> Vec<u32> {
    let mut told = (null_mut(), 0);
    hccl!(HcclRankGraphGetInstSizeListByLayer(comm, layer, &mut told.0, &mut told.1));
    list(told)
}

fn topo(comm: HcclComm, layer: u32) -> CommTopo {
    let mut topo = CommTopo::COMM_TOPO_RESERVED;
    hccl!(HcclRankGraphGetTopoTypeByLayer(comm, layer, &mut topo));
    topo
}

fn links(comm: HcclComm, layer: u32, from: u32, to: u32) -> Vec<CommLink> {
    let mut told = (null_mut(), 99);
    hccl!(HcclRankGraphGetLinks(comm, layer, from, to, &mut told.0, &mut told.1));
    list(told)
}

fn protocols(links: &[CommLink]) -> Vec<CommProtocol> {
    // SAFETY: the library has set this member of the union.
    links.iter().map(|link| unsafe { link.linkAttr.anon_1 }.linkProtocol).collect()
}

/// Returns the index of the server, and the number of the device in that server.
fn place(endpoint: &EndpointDesc) -> (u32, u32) {
    assert_eq!(endpoint.loc.locType, EndpointLocType::ENDPOINT_LOC_TYPE_DEVICE);
    // SAFETY: the library has set this member of the union.
    let device = unsafe { endpoint.loc.anon_1.device };
    (device.serverIdx, device.devPhyId)
}

/// Returns the kind of the address, and its bytes.
fn address(endpoint: &EndpointDesc) -> (i32, Vec<u8>) {
    // SAFETY: every member of the union consists of plain bytes.
    (endpoint.commAddr.type_.0, unsafe { endpoint.commAddr.anon_1.raws }.to_vec())
}

/// The expected properties of a layer: its shape, the sizes of its instances, and the protocols of
/// its links.
type Expected<'a> = (CommTopo, &'a [u32], &'a [CommProtocol]);

#[test]
fn every_product_has_the_layers_that_its_ranks_need() {
    let cases: [(u32, u32, &[Expected]); 6] = [
        (2, 8, &[(MESH, &[8], &[HCCS])]),
        (2, 10, &[(MESH, &[8, 2], &[HCCS]), (CLOS, &[10], &[ROCE])]),
        (3, 16, &[(A3_SERVER, &[16], &[HCCS])]),
        (3, 19, &[(A3_SERVER, &[16, 3], &[HCCS]), (CLOS, &[19], &[HCCS])]),
        (950, 4, &[(CUSTOM, &[4], &[UB_CTP, UB_MEM]), (CLOS, &[4], &[UB_CTP, UBOE, ROCE])]),
        (950, 9, &[(CUSTOM, &[8, 1], &[UB_CTP, UB_MEM]), (CLOS, &[9], &[UB_CTP, UBOE, ROCE])]),
    ];
    for (product, ranks, expected) in cases {
        let world = World::new(product, ranks);
        for comm in &world.comms {
            let numbers: Vec<_> = (0..expected.len() as u32).collect();
            assert_eq!(layers(*comm), numbers, "{product}, {ranks} ranks");
            for (layer, (shape, instances, kinds)) in expected.iter().enumerate() {
                let layer = layer as u32;
                assert_eq!(topo(*comm, layer), *shape, "{product}, layer {layer}");
                assert_eq!(sizes(*comm, layer), *instances, "{product}, layer {layer}");
                let found = protocols(&links(*comm, layer, 1, 0));
                assert_eq!(found, *kinds, "{product}, layer {layer}");
            }
        }
    }
}

#[test]
fn superpods_are_blocks_and_meet_over_roce() {
    let world = World::of(3, &[2, 1]);
    assert_eq!(layers(world.comms[0]), [0, 1, 2]);
    assert_eq!(sizes(world.comms[0], 1), [2, 1]);
    assert_eq!(ranks_of(world.comms[1], 1), [0, 1]);
    assert_eq!(ranks_of(world.comms[2], 1), [2]);
    assert_eq!(protocols(&links(world.comms[0], 2, 0, 2)), [ROCE]);
    assert!(links(world.comms[0], 1, 0, 2).is_empty());
}

#[test]
fn ranks_of_a_layer_share_an_instance_with_the_one_who_asks() {
    let world = World::new(2, 10);
    for (rank, comm) in world.comms.iter().enumerate() {
        let server: Vec<u32> = if rank < 8 { (0..8).collect() } else { vec![8, 9] };
        assert_eq!(ranks_of(*comm, 0), server, "rank {rank}");
        assert_eq!(ranks_of(*comm, 1), (0..10).collect::<Vec<_>>(), "rank {rank}");
    }
}

#[test]
fn a_link_has_cann_s_header_and_names_both_ends() {
    for (product, in_a_server) in [(2, 8), (3, 16), (950, 8)] {
        let world = World::new(product, in_a_server + 2);
        let comm = world.comms[3];
        let mut addresses = BTreeSet::new();
        for layer in layers(comm) {
            let (from, to) = if layer == 0 { (1, 4) } else { (1, in_a_server + 1) };
            for link in links(comm, layer, from, to) {
                let CommAbiHeader { version, magicWord, size, reserved } = link.header;
                assert_eq!((version, magicWord, size, reserved), (1, 0x0f0e_0f0f, 464, 0));
                // SAFETY: the library has set this member of the union.
                let attributes = unsafe { link.linkAttr.anon_1 };
                let (source, target) = (link.srcEndpointDesc, link.dstEndpointDesc);
                assert_eq!(attributes.hop, 1);
                assert_eq!(source.protocol, attributes.linkProtocol);
                assert_eq!(target.protocol, attributes.linkProtocol);
                assert_eq!(place(&source), (0, 1));
                assert_eq!(place(&target), if layer == 0 { (0, 4) } else { (1, 1) });
                let kind = match source.protocol {
                    HCCS => CommAddrType::COMM_ADDR_TYPE_ID,
                    ROCE => CommAddrType::COMM_ADDR_TYPE_IP_V4,
                    _ => CommAddrType::COMM_ADDR_TYPE_EID,
                };
                assert_eq!(source.commAddr.type_, kind);
                assert_ne!(address(&source), address(&target));
                addresses.extend([address(&source), address(&target)]);
            }
        }
        // There are three devices, and a device of a 950 has addresses of two kinds.
        let kinds = if product == 3 { 1 } else { 2 };
        assert!(addresses.len() > 2 * (kinds - 1) && addresses.len() <= 3 * kinds, "{product}");
    }
}

#[test]
fn ranks_without_a_link_on_a_layer_get_an_empty_list() {
    for (product, ranks) in [(2, 9), (3, 17), (950, 9)] {
        let world = World::new(product, ranks);
        let comm = world.comms[0];
        assert!(links(comm, 0, 0, ranks - 1).is_empty());
        assert!(links(comm, 1, 0, 0).is_empty());
        assert!(!links(comm, 1, 0, ranks - 1).is_empty());
        // This layer also has links within a server.
        assert!(!links(comm, 1, 1, 0).is_empty());
    }
}

#[test]
fn lists_are_overwritten_by_the_next_call_of_the_same_function_only() {
    let world = World::new(2, 9);
    let (comm, mut first, mut second) = (world.comms[0], (null_mut(), 0), (null_mut(), 0));
    hccl!(HcclRankGraphGetRanksByLayer(comm, 1, &mut first.0, &mut first.1));
    assert_eq!(layers(comm), [0, 1]);
    assert_eq!(sizes(comm, 0), [8, 1]);
    assert_eq!(list(first), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    hccl!(HcclRankGraphGetRanksByLayer(world.comms[8], 0, &mut second.0, &mut second.1));
    assert_eq!((list(first).len(), list(second)), (9, vec![8]));
    hccl!(HcclRankGraphGetRanksByLayer(comm, 0, &mut second.0, &mut second.1));
    assert_eq!((second.0, second.1), (first.0, 8));
}

#[test]
fn a_sub_communicator_counts_its_own_ranks() {
    let world = World::new(2, 10);
    let (mut ranks, mut sub) = ([9u32, 1, 2], null_mut());
    let mut config = config("three");
    let mut parent = world.comms[1];
    hccl!(HcclCreateSubCommConfig(&mut parent, 3, ranks.as_mut_ptr(), 7, 1, &mut config, &mut sub));
    assert_eq!(layers(sub), [0, 1]);
    assert_eq!(sizes(sub, 0), [1, 2]);
    assert_eq!(ranks_of(sub, 0), [1, 2]);
    let link = links(sub, 1, 0, 2)[0];
    assert_eq!((place(&link.srcEndpointDesc), place(&link.dstEndpointDesc)), ((1, 1), (0, 2)));
    hccl!(HcclCommDestroy(sub));
}

fn endpoints(comm: HcclComm, layer: u32) -> Vec<EndpointDesc> {
    let mut count = 0;
    hccl!(HcclRankGraphGetEndpointNum(comm, layer, 0, &mut count));
    let mut all = vec![EndpointDesc::default(); count as usize];
    hccl!(HcclRankGraphGetEndpointDesc(comm, layer, 0, &mut count, all.as_mut_ptr()));
    assert_eq!(all.len(), count as usize);
    all
}

#[test]
fn a_950_tells_topology_instances_and_endpoints() {
    let world = World::new(950, 9);
    for (rank, comm) in world.comms.iter().enumerate() {
        for layer in [0, 1] {
            let mut told = (null_mut(), 0);
            hccl!(HcclRankGraphGetTopoInstsByLayer(*comm, layer, &mut told.0, &mut told.1));
            assert_eq!(list(told), [0]);
            let mut shape = CommTopo::COMM_TOPO_RESERVED;
            hccl!(HcclRankGraphGetTopoType(*comm, layer, 0, &mut shape));
            // The layer reports that the servers differ, and the instance reports its own shape.
            assert_eq!(shape, if layer == 0 { MESH } else { CLOS });
            assert_eq!(topo(*comm, layer), if layer == 0 { CUSTOM } else { CLOS });
            hccl!(HcclRankGraphGetRanksByTopoInst(*comm, layer, 0, &mut told.0, &mut told.1));
            assert_eq!(list(told), ranks_of(*comm, layer));
            // The links of a rank begin at the rank's own endpoints.
            let peer = (rank as u32 + 1) % 8;
            let ends = links(*comm, 1.min(layer + rank as u32 / 8), rank as u32, peer);
            let ends = ends.iter().map(|link| address(&link.srcEndpointDesc));
            let own: Vec<_> = endpoints(*comm, layer).iter().map(address).collect();
            assert!(ends.zip(&own).all(|(end, own)| end == *own), "rank {rank}");
            for endpoint in endpoints(*comm, layer) {
                for (attribute, expected) in [(0, 1), (1, 0), (2, 0)] {
                    let attribute = EndpointAttr(attribute);
                    let mut value = 99u32;
                    let info = (&raw mut value).cast();
                    let rank = rank as u32;
                    hccl!(HcclRankGraphGetEndpointInfo(*comm, rank, &endpoint, attribute, 4, info));
                    assert_eq!(value, expected, "attribute {}", attribute.0);
                }
            }
        }
    }
}

#[test]
fn endpoints_that_a_rank_has_not_are_refused() {
    let world = World::new(950, 2);
    let comm = world.comms[0];
    let own = endpoints(comm, 1)[0];
    let (mut count, mut value) = (2, 0u32);
    let (room, info) = (&raw mut count, (&raw mut value).cast());
    let (mut several, location) = ([own; 3], EndpointAttr::ENDPOINT_ATTR_LOCATION);
    let to = several.as_mut_ptr();
    refuses!(
        HCCL_E_PARA,
        ["descNum is 2", "returns, 3"],
        HcclRankGraphGetEndpointDesc(comm, 1, 0, room, to)
    );
    let ask = |rank, of: &EndpointDesc, attribute, length| {
        let _ = common::message();
        let code = call!(HcclRankGraphGetEndpointInfo(comm, rank, of, attribute, length, info)).0;
        (code, common::message())
    };
    let refused = |(code, text): (u32, String), expected: HcclResult, piece: &str| {
        assert_eq!(code, expected.0, "{text}");
        assert!(text.contains(piece), "{piece:?} is not in: {text}");
    };
    let (para, missing) = (HcclResult::HCCL_E_PARA, HcclResult::HCCL_E_NOT_FOUND);
    refused(ask(0, &own, EndpointAttr(3), 4), para, "not the number of an attribute");
    refused(ask(0, &own, EndpointAttr(-1), 4), para, "not the number of an attribute");
    refused(ask(0, &own, location, 8), para, "infoLen is 8");
    refused(ask(2, &own, location, 4), para, "rankId 2 is not a rank");
    refused(ask(1, &own, location, 4), missing, "not that of rank 1");
    let mut other = own;
    other.protocol = HCCS;
    refused(ask(0, &other, location, 4), missing, "no endpoint of the protocol 0");
    let mut other = own;
    other.loc.locType = EndpointLocType::ENDPOINT_LOC_TYPE_HOST;
    refused(ask(0, &other, location, 4), missing, "loc.locType is 1");
    let mut other = own;
    other.commAddr.type_ = CommAddrType::COMM_ADDR_TYPE_ID;
    refused(ask(0, &other, location, 4), missing, "loc and commAddr are not those");
    let mut other = own;
    // SAFETY: the library has set this member of the union.
    unsafe { &mut other.loc.anon_1.device }.superDevId = 2;
    refused(ask(0, &other, location, 4), missing, "there is no device 2");
}

#[test]
fn what_only_a_950_tells_is_not_supported_elsewhere() {
    for product in [2, 3] {
        let world = World::new(product, 2);
        let comm = world.comms[0];
        let (mut told, mut shape) = ((null_mut(), 0), CommTopo(0));
        let (mut link, mut value) = (EndpointDesc::default(), 0u32);
        let (told, info) = ((&raw mut told.0, &raw mut told.1), (&raw mut value).cast());
        let said = "Ascend 950 has them";
        refuses!(
            HCCL_E_NOT_SUPPORT,
            [said],
            HcclRankGraphGetTopoInstsByLayer(comm, 0, told.0, told.1)
        );
        refuses!(HCCL_E_NOT_SUPPORT, [said], HcclRankGraphGetTopoType(comm, 0, 0, &mut shape));
        refuses!(
            HCCL_E_NOT_SUPPORT,
            [said],
            HcclRankGraphGetRanksByTopoInst(comm, 0, 0, told.0, told.1)
        );
        refuses!(HCCL_E_NOT_SUPPORT, [said], HcclRankGraphGetEndpointNum(comm, 0, 0, told.1));
        refuses!(
            HCCL_E_NOT_SUPPORT,
            [said],
            HcclRankGraphGetEndpointDesc(comm, 0, 0, told.1, &mut link)
        );
        refuses!(
            HCCL_E_NOT_SUPPORT,
            [said],
            HcclRankGraphGetEndpointInfo(comm, 0, &link, EndpointAttr(0), 4, info)
        );
    }
}

#[test]
fn the_ranks_of_every_product_are_alike() {
    for product in [2, 3, 950] {
        let world = World::new(product, 1);
        let mut mode = HcclHeterogMode::HCCL_HETEROG_MODE_INVALID;
        hccl!(HcclGetHeterogMode(world.comms[0], &mut mode));
        assert_eq!(mode, HcclHeterogMode::HCCL_HETEROG_MODE_HOMOGENEOUS);
    }
}

#[test]
fn wrong_arguments_are_refused_on_every_product() {
    for (product, layers) in [(2, 1), (3, 1), (950, 2)] {
        let world = World::new(product, 2);
        let (comm, none) = (world.comms[0], null_mut());
        let (mut told, mut shape, mut found) = ((null_mut(), 0), CommTopo(0), null_mut());
        let (list, count) = (&raw mut told.0, &raw mut told.1);
        refuses!(HCCL_E_PTR, ["comm"], HcclRankGraphGetLayers(none, list, count));
        refuses!(HCCL_E_PTR, ["netLayers"], HcclRankGraphGetLayers(comm, null_mut(), count));
        refuses!(HCCL_E_PTR, ["netLayerNum"], HcclRankGraphGetLayers(comm, list, null_mut()));
        refuses!(HCCL_E_PTR, ["comm"], HcclRankGraphGetRanksByLayer(none, 0, list, count));
        refuses!(HCCL_E_PTR, ["ranks"], HcclRankGraphGetRanksByLayer(comm, 0, null_mut(), count));
        refuses!(HCCL_E_PTR, ["rankNum"], HcclRankGraphGetRanksByLayer(comm, 0, list, null_mut()));
        refuses!(HCCL_E_PTR, ["rankNum"], HcclRankGraphGetRankSizeByLayer(comm, 0, null_mut()));
        refuses!(HCCL_E_PTR, ["topoType"], HcclRankGraphGetTopoTypeByLayer(comm, 0, null_mut()));
        let null = null_mut();
        refuses!(
            HCCL_E_PTR,
            ["instSizeList"],
            HcclRankGraphGetInstSizeListByLayer(comm, 0, null, count)
        );
        refuses!(HCCL_E_PTR, ["links"], HcclRankGraphGetLinks(comm, 0, 0, 1, null_mut(), count));
        let links = &raw mut found;
        refuses!(HCCL_E_PTR, ["linkNum"], HcclRankGraphGetLinks(comm, 0, 0, 1, links, null_mut()));
        refuses!(HCCL_E_PTR, ["mode"], HcclGetHeterogMode(comm, null_mut()));
        let bad = no_layer(layers);
        refuses!(
            HCCL_E_PARA,
            [bad.as_str()],
            HcclRankGraphGetRanksByLayer(comm, layers, list, count)
        );
        refuses!(HCCL_E_PARA, [bad.as_str()], HcclRankGraphGetRankSizeByLayer(comm, layers, count));
        refuses!(
            HCCL_E_PARA,
            [bad.as_str()],
            HcclRankGraphGetTopoTypeByLayer(comm, layers, &mut shape)
        );
        refuses!(
            HCCL_E_PARA,
            [bad.as_str()],
            HcclRankGraphGetInstSizeListByLayer(comm, layers, list, count)
        );
        refuses!(
            HCCL_E_PARA,
            [bad.as_str()],
            HcclRankGraphGetLinks(comm, layers, 0, 1, links, count)
        );
        refuses!(HCCL_E_PARA, ["srcRank 2"], HcclRankGraphGetLinks(comm, 0, 2, 1, links, count));
        refuses!(HCCL_E_PARA, ["dstRank 5"], HcclRankGraphGetLinks(comm, 0, 0, 5, links, count));
        if product == 950 {
            let said = "no topology instance 1";
            refuses!(HCCL_E_PARA, [said], HcclRankGraphGetTopoType(comm, 0, 1, &mut shape));
            refuses!(HCCL_E_PARA, [said], HcclRankGraphGetRanksByTopoInst(comm, 0, 1, list, count));
            refuses!(HCCL_E_PARA, [said], HcclRankGraphGetEndpointNum(comm, 0, 1, count));
            refuses!(
                HCCL_E_PARA,
                [bad.as_str()],
                HcclRankGraphGetTopoInstsByLayer(comm, 2, list, count)
            );
        }
        assert_eq!((told.0, told.1, found), (null_mut(), 0, null_mut()));
    }
}

fn no_layer(layers: u32) -> String {
    format!("there is no layer {layers}")
}
