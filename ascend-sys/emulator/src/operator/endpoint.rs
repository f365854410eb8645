//! Endpoints: the ends of the links of the emulated network, as `EndpointDesc` describes them.
//!
//! Addresses are made from the id of the device, so that no two devices of the process have the
//! same address. For HCCS the address is the id itself, for RoCE an address of the network
//! 10.0.0.0/8, for UB an EID that ends with the id. A description that another process may read
//! also contains [the address of its process](super::endpoint_home).

use super::endpoint_home::EndpointHome;
use crate::fabric::place::DevicePlace;
use crate::fabric::processes::is_this_process;
use crate::fabric::topology::layers_of;
use crate::machine;
use crate::profile::Product;
use ascend_sys::{CommAddrType, CommProtocol, EndpointDesc, EndpointLocType, in_addr};
use std::mem::MaybeUninit;

/// An end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) place: DevicePlace,
    pub(crate) protocol: CommProtocol,
    /// The address of the endpoint's process; `None` for an endpoint of this process.
    pub(crate) abroad: Option<EndpointHome>,
}

/// The first bytes of the EID of an emulated device.
const EID: [u8; 12] = *b"\xfe\x80\0\0\0\0\0\0ascn";

impl Endpoint {
    /// Makes an endpoint of this process.
    pub(crate) fn own(place: DevicePlace, protocol: CommProtocol) -> Self {
        Self { place, protocol, abroad: None }
    }

    /// Returns the name of the endpoint's device, for error texts.
    pub(crate) fn device_name(&self) -> String {
        match self.abroad {
            None => machine::named(self.place.device).to_string(),
            Some(there) => format!("{} of process {}", self.place.index, there.home.process),
        }
    }

    /// Makes CANN's description of an endpoint, as [`describe`](Self::describe) does, but also
    /// valid in other processes.
    pub(crate) fn describe_for_all(self, product: Product, there: EndpointHome) -> EndpointDesc {
        let mut description = self.describe(product);
        description.anon_1.raws = there.to_bytes();
        description
    }

    /// Makes CANN's description of an endpoint. Fields without a meaning here are all ones, which
    /// CANN reads as "not set".
    pub(crate) fn describe(self, product: Product) -> EndpointDesc {
        let Self { place, protocol, .. } = self;
        let mut description = MaybeUninit::<EndpointDesc>::uninit();
        // SAFETY: plain numbers, for which all ones are valid.
        let mut description = unsafe {
            description.as_mut_ptr().write_bytes(0xff, 1);
            description.assume_init()
        };
        description.protocol = protocol;
        let address = &mut description.commAddr;
        match Form::of(protocol) {
            Form::Id => {
                address.type_ = CommAddrType::COMM_ADDR_TYPE_ID;
                address.anon_1.id = place.device;
            }
            Form::Ip => {
                address.type_ = CommAddrType::COMM_ADDR_TYPE_IP_V4;
                let [_, high, middle, low] = place.device.to_be_bytes();
                address.anon_1.addr =
                    in_addr { s_addr: u32::from_ne_bytes([10, high, middle, low]) };
            }
            Form::Eid => {
                address.type_ = CommAddrType::COMM_ADDR_TYPE_EID;
                let mut eid = [0; 16];
                eid[..12].copy_from_slice(&EID);
                eid[12..].copy_from_slice(&place.device.to_be_bytes());
                address.anon_1.eid = eid;
            }
        }
        description.loc.locType = EndpointLocType::ENDPOINT_LOC_TYPE_DEVICE;
        // SAFETY: plain numbers, all of which were set above.
        let at = unsafe { &mut description.loc.anon_1.device };
        at.devPhyId = place.slot(product);
        at.superDevId = place.index;
        at.serverIdx = place.server(product);
        at.superPodIdx = place.block;
        description
    }

    /// Returns the bytes of CANN's description of an endpoint.
    pub(crate) fn bytes(self, product: Product) -> [u8; size_of::<EndpointDesc>()] {
        let description = self.describe(product);
        // SAFETY: plain data without padding, read as bytes.
        unsafe { (&raw const description).cast::<[u8; size_of::<EndpointDesc>()]>().read() }
    }

    /// Returns the endpoint that a description names. The error names the field that fits no
    /// endpoint.
    pub(crate) fn read(description: &EndpointDesc) -> Result<Self, String> {
        if description.loc.locType != EndpointLocType::ENDPOINT_LOC_TYPE_DEVICE {
            return Err(format!(
                "loc.locType is {}, but emulated endpoints are on devices; set 0",
                description.loc.locType.0
            ));
        }
        // SAFETY: plain numbers, for which any bits are valid.
        let at = unsafe { description.loc.anon_1.device };
        // SAFETY: bytes, for which any bits are valid.
        let raws = unsafe { &description.anon_1.raws };
        let there = EndpointHome::of_bytes(raws)?.filter(|there| !is_this_process(&there.home));
        if let Some(there) = there {
            // Only its own process can interpret the rest of the description.
            let place =
                DevicePlace { device: u32::MAX, block: at.superPodIdx, index: at.superDevId };
            return Ok(Self { place, protocol: description.protocol, abroad: Some(there) });
        }
        let settings = machine::block(at.superPodIdx).ok().filter(|it| at.superDevId < it.count);
        let Some(settings) = settings else {
            return Err(format!(
                "there is no device {} in the superpod {} (loc.device); copy an endpoint of a \
                 CommLink or of HcommEndpointGetDescs",
                at.superDevId, at.superPodIdx
            ));
        };
        let place = DevicePlace::new(settings.first + at.superDevId, &settings);
        let endpoint = Self::own(place, description.protocol);
        let product = settings.product;
        let has = |layer: &crate::fabric::topology::Layer| {
            layer.protocols.contains(&description.protocol)
        };
        if !layers_of(product).iter().any(has) {
            return Err(format!(
                "{product} has no endpoint of the protocol {}; copy one of HcommEndpointGetDescs",
                description.protocol.0
            ));
        }
        let own = endpoint.describe(product);
        // SAFETY: as above.
        let expected = unsafe { own.loc.anon_1.device };
        let is_there = (at.devPhyId, at.serverIdx) == (expected.devPhyId, expected.serverIdx)
            && description.commAddr.type_ == own.commAddr.type_
            && address(description) == address(&own);
        if is_there {
            Ok(endpoint)
        } else {
            Err(format!(
                "loc and commAddr are not those of device {} of the superpod {}; copy an endpoint of a CommLink or of HcommEndpointGetDescs",
                at.superDevId, at.superPodIdx
            ))
        }
    }
}

/// The form of the addresses of a protocol.
enum Form {
    Id,
    Ip,
    Eid,
}

impl Form {
    fn of(protocol: CommProtocol) -> Self {
        match protocol {
            CommProtocol::COMM_PROTOCOL_ROCE => Self::Ip,
            CommProtocol::COMM_PROTOCOL_UB_CTP
            | CommProtocol::COMM_PROTOCOL_UBC_TP
            | CommProtocol::COMM_PROTOCOL_UB_MEM
            | CommProtocol::COMM_PROTOCOL_UBOE
            | CommProtocol::COMM_PROTOCOL_UB_RTP => Self::Eid,
            _ => Self::Id,
        }
    }
}

/// Returns the bytes of an address that are significant for its protocol.
fn address(description: &EndpointDesc) -> &[u8] {
    let bytes = match Form::of(description.protocol) {
        Form::Id | Form::Ip => 4,
        Form::Eid => 16,
    };
    // SAFETY: bytes, for which any bits are valid.
    unsafe { &description.commAddr.anon_1.raws[..bytes] }
}
