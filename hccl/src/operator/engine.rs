//! Where the threads of an operator run.

use ascend_sys::{CommEngine, CommProtocol};

use crate::runtime::Product;

/// What works through the threads of an operator that is [run](crate::Communicator::run) (CANN: `CommEngine`).
///
/// | | Atlas A2 | Atlas A3 | Ascend 950 |
/// | --- | --- | --- | --- |
/// | [`CpuTs`](Self::CpuTs) | HCCS | emulator only, HCCS | emulator only, ROCE |
/// | [`AicpuTs`](Self::AicpuTs) | emulator only, HCCS | emulator only, HCCS | emulator only, UB_CTP |
///
/// The last word is the protocol of the channels. "Emulator only": on hardware a kernel on the AI CPU of the device tells these threads what to do, and the
/// host cannot. The emulator has no AI CPU, and lets the host do it, so that an operator can be tried on every product. Nothing
/// of this has run on hardware.
///
/// Vector cores (AIV) and the communication unit (CCU) are engines of CANN too. They take programs of their own, not these tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Engine {
    /// Task queues of the device that the host fills. The main thread is the stream itself.
    #[default]
    CpuTs,
    /// Task queues of the device that its AI CPU fills. The stream starts the main thread and waits for its end, with a notify each.
    AicpuTs,
}

impl Engine {
    pub(super) const ALL: usize = 2;

    pub(super) fn code(self) -> CommEngine {
        match self {
            Engine::CpuTs => CommEngine::COMM_ENGINE_CPU_TS,
            Engine::AicpuTs => CommEngine::COMM_ENGINE_AICPU_TS,
        }
    }

    /// What its channels go over. A product that is not known is one like the A2.
    pub(super) fn protocol(self, product: Option<Product>) -> CommProtocol {
        match (product, self) {
            (Some(Product::Ascend950), Engine::CpuTs) => CommProtocol::COMM_PROTOCOL_ROCE,
            (Some(Product::Ascend950), Engine::AicpuTs) => CommProtocol::COMM_PROTOCOL_UB_CTP,
            _ => CommProtocol::COMM_PROTOCOL_HCCS,
        }
    }
}
