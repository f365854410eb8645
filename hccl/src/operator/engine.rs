//! Conversions of the engines and products of operators: to CANN's codes and protocols, and to the
//! types of the checker.

use ascend_operator::plan::Engine;
use ascend_sys::{CommEngine, CommProtocol};

use crate::error::product::Product;

/// The number of engines.
pub(super) const ENGINES: usize = 2;

/// Returns CANN's code for an engine.
pub(super) fn code(engine: Engine) -> CommEngine {
    match engine {
        Engine::CpuTs => CommEngine::COMM_ENGINE_CPU_TS,
        Engine::AicpuTs => CommEngine::COMM_ENGINE_AICPU_TS,
    }
}

/// Returns the protocol of the channels of an engine. An unknown product is treated like the A2.
pub(super) fn protocol(engine: Engine, product: Option<Product>) -> CommProtocol {
    match (product, engine) {
        (Some(Product::Ascend950), Engine::CpuTs) => CommProtocol::COMM_PROTOCOL_ROCE,
        (Some(Product::Ascend950), Engine::AicpuTs) => CommProtocol::COMM_PROTOCOL_UB_CTP,
        _ => CommProtocol::COMM_PROTOCOL_HCCS,
    }
}

/// Converts a product to the type that the checker uses.
pub(super) fn checked(product: Product) -> ascend_operator::check::Product {
    use ascend_operator::check::Product as Checked;
    match product {
        Product::A2 => Checked::A2,
        Product::A3 => Checked::A3,
        Product::Ascend950 => Checked::Ascend950,
    }
}
