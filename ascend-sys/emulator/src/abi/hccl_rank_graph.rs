//! The entries for the rank graph: layers, ranks, links and endpoints of the network, as in CANN's
//! `hccl_rank_graph.h`.
//!
//! [`crate::fabric::topology`] describes the network itself.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{Handle, In, InOut, Out};
use super::entries::{Hccl, entries};
use super::hccl_entry::not_null;
use crate::fabric::Member;
use crate::message::{Failure, refuse};
use crate::operator;
use crate::profile::Product;
use ascend_sys::{
    CommLink, CommTopo, EndpointAttr, EndpointDesc, EndpointLocType, HcclHeterogMode,
};
use std::ffi::c_void;
use std::sync::Arc;

entries! {
    Hccl;

    fn HcclRankGraphGetLayers(comm: Handle<Member>, layers: Out<*mut u32>, count: Out<u32>) {
        list(comm, (layers, "netLayers"), (count, "netLayerNum"), |rank| Ok(rank.tell_layers()))
    }

    fn HcclRankGraphGetRanksByLayer(
        comm: Handle<Member>,
        layer: u32,
        ranks: Out<*mut u32>,
        count: Out<u32>,
    ) {
        list(comm, (ranks, "ranks"), (count, "rankNum"), |rank| rank.tell_ranks(layer))
    }

    fn HcclRankGraphGetRankSizeByLayer(comm: Handle<Member>, layer: u32, count: Out<u32>) {
        value(comm, count, "rankNum", |rank| rank.count_ranks(layer))
    }

    fn HcclRankGraphGetTopoTypeByLayer(comm: Handle<Member>, layer: u32, topo: Out<CommTopo>) {
        value(comm, topo, "topoType", |rank| {
            let shape = operator::layer(&rank, layer)?.topo;
            // A server of Ascend 950 can have several instances, and `shape` is that of one
            // instance.
            Ok(match (rank.comm.product, layer) {
                (Product::Ascend950, 0) => CommTopo::COMM_TOPO_CUSTOM,
                _ => shape,
            })
        })
    }

    fn HcclRankGraphGetInstSizeListByLayer(
        comm: Handle<Member>,
        layer: u32,
        sizes: Out<*mut u32>,
        count: Out<u32>,
    ) {
        list(comm, (sizes, "instSizeList"), (count, "listSize"), |rank| rank.tell_sizes(layer))
    }

    fn HcclRankGraphGetLinks(
        comm: Handle<Member>,
        layer: u32,
        from: u32,
        to: u32,
        links: Out<*mut CommLink>,
        count: Out<u32>,
    ) {
        list(comm, (links, "links"), (count, "linkNum"), |rank| rank.tell_links(layer, from, to))
    }

    fn HcclRankGraphGetTopoInstsByLayer(
        comm: Handle<Member>,
        layer: u32,
        instances: Out<*mut u32>,
        count: Out<u32>,
    ) {
        list(comm, (instances, "topoInsts"), (count, "topoInstNum"), |rank| {
            rank.tells_instances()?;
            rank.tell_instances(layer)
        })
    }

    fn HcclRankGraphGetTopoType(comm: Handle<Member>, layer: u32, instance: u32, topo: Out<CommTopo>) {
        value(comm, topo, "topoType", |rank| {
            rank.tells_instances()?;
            Ok(rank.shape_of_instance(layer, instance)?.topo)
        })
    }

    fn HcclRankGraphGetRanksByTopoInst(
        comm: Handle<Member>,
        layer: u32,
        instance: u32,
        ranks: Out<*mut u32>,
        count: Out<u32>,
    ) {
        list(comm, (ranks, "ranks"), (count, "rankNum"), |rank| {
            rank.tells_instances()?;
            rank.tell_ranks_of_instance(layer, instance)
        })
    }

    fn HcclGetHeterogMode(comm: Handle<Member>, mode: Out<HcclHeterogMode>) {
        // All ranks of a communicator have the same product.
        value(comm, mode, "mode", |_| Ok(HcclHeterogMode::HCCL_HETEROG_MODE_HOMOGENEOUS))
    }

    fn HcclRankGraphGetEndpointNum(comm: Handle<Member>, layer: u32, instance: u32, count: Out<u32>) {
        value(comm, count, "num", |rank| {
            rank.tells_instances()?;
            Ok(rank.endpoints(layer, instance)?.len() as u32)
        })
    }

    fn HcclRankGraphGetEndpointDesc(
        comm: Handle<Member>,
        layer: u32,
        instance: u32,
        count: InOut<u32>,
        descriptions: *mut EndpointDesc,
    ) {
        comm.required("comm")?;
        let (room, _) = count.required("descNum")?;
        not_null(descriptions, "endpointDesc")?;
        let rank = comm.find()?;
        rank.tells_instances()?;
        let endpoints = rank.endpoints(layer, instance)?;
        if room as usize != endpoints.len() {
            return refuse!(
                HCCL_E_PARA,
                "descNum is {room}; it must be the number that HcclRankGraphGetEndpointNum returns, {}",
                endpoints.len()
            );
        }
        for (at, endpoint) in endpoints.into_iter().enumerate() {
            // SAFETY: by the C contract there is room for `descNum` descriptions.
            unsafe { descriptions.add(at).write(endpoint) };
        }
        Ok(())
    }

    fn HcclRankGraphGetEndpointInfo(
        comm: Handle<Member>,
        of_rank: u32,
        description: In<EndpointDesc>,
        attribute: EndpointAttr,
        length: u32,
        info: Out<c_void>,
    ) {
        comm.required("comm")?;
        let description = description.required("endpointDesc")?;
        let info = info.required("info")?.cast::<u32>();
        let rank = comm.find()?;
        rank.tells_instances()?;
        // All links have the same speed, and a device has one die.
        let value = match attribute {
            EndpointAttr::ENDPOINT_ATTR_BW_COEFF => 1,
            EndpointAttr::ENDPOINT_ATTR_DIE_ID => 0,
            EndpointAttr::ENDPOINT_ATTR_LOCATION => {
                EndpointLocType::ENDPOINT_LOC_TYPE_DEVICE.0 as u32
            }
            EndpointAttr(other) => {
                return refuse!(
                    HCCL_E_PARA,
                    "{other} is not the number of an attribute; pass 0 (BW_COEFF), 1 (DIE_ID) or 2 \
                     (LOCATION)"
                );
            }
        };
        if length as usize != size_of::<u32>() {
            return refuse!(
                HCCL_E_PARA,
                "infoLen is {length}; pass 4, the size of every attribute in bytes"
            );
        }
        rank.has_endpoint(of_rank, description)?;
        info.write(value);
        Ok(())
    }
}

/// Writes the address and the length of the list that `tell` returns.
fn list<T>(
    comm: Handle<Member>,
    (list, list_name): (Out<*mut T>, &str),
    (length, length_name): (Out<u32>, &str),
    tell: impl FnOnce(Arc<Member>) -> Result<(*mut T, u32), Failure>,
) -> Result<(), Failure> {
    comm.required("comm")?;
    let (list, length) = (list.required(list_name)?, length.required(length_name)?);
    let (start, count) = tell(comm.find()?)?;
    list.write(start);
    length.write(count);
    Ok(())
}

/// Writes the value that `tell` returns.
fn value<T>(
    comm: Handle<Member>,
    to: Out<T>,
    name: &str,
    tell: impl FnOnce(Arc<Member>) -> Result<T, Failure>,
) -> Result<(), Failure> {
    comm.required("comm")?;
    let to = to.required(name)?;
    to.write(tell(comm.find()?)?);
    Ok(())
}
