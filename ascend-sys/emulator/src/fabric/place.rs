//! The place of a device in the emulated network; see `topology`.

use crate::machine::Settings;
use crate::profile::Product;

/// The place of a device in the emulated network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DevicePlace {
    pub(crate) device: u32,
    /// The number of the device's block. A block is one superpod.
    pub(crate) block: u32,
    /// The number of the device among those of the block.
    pub(crate) index: u32,
}

impl DevicePlace {
    pub(crate) fn new(device: u32, settings: &Settings) -> Self {
        Self { device, block: settings.block, index: device.saturating_sub(settings.first) }
    }

    /// Returns the number of the device's server in the block.
    pub(crate) fn server(self, product: Product) -> u32 {
        self.index / in_a_server(product)
    }

    /// Returns the number of the device in its server.
    pub(crate) fn slot(self, product: Product) -> u32 {
        self.index % in_a_server(product)
    }
}

/// Returns the number of devices in a server of a product.
fn in_a_server(product: Product) -> u32 {
    match product {
        Product::A2 | Product::Ascend950 => 8,
        Product::A3 => 16,
    }
}
