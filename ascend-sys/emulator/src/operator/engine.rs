//! The engines and the protocols, and the combinations that each product supports.

use crate::message::{Failure, refuse};
use crate::profile::Product;
use ascend_sys::{CommEngine, CommProtocol};
use std::fmt;

/// The engine on which a thread or a channel runs. CANN's names with `_TS` name the same engines,
/// in its older functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum OperatorEngine {
    Cpu,
    Aicpu,
    Aiv,
    Ccu,
}

impl OperatorEngine {
    pub(crate) fn from_number(engine: CommEngine) -> Option<OperatorEngine> {
        match engine {
            CommEngine::COMM_ENGINE_CPU | CommEngine::COMM_ENGINE_CPU_TS => {
                Some(OperatorEngine::Cpu)
            }
            CommEngine::COMM_ENGINE_AICPU | CommEngine::COMM_ENGINE_AICPU_TS => {
                Some(OperatorEngine::Aicpu)
            }
            CommEngine::COMM_ENGINE_AIV => Some(OperatorEngine::Aiv),
            CommEngine::COMM_ENGINE_CCU => Some(OperatorEngine::Ccu),
            _ => None,
        }
    }

    /// Checks and returns an engine that is an argument of a function for threads.
    pub(crate) fn of_threads(engine: CommEngine) -> Result<OperatorEngine, Failure> {
        match OperatorEngine::from_number(engine) {
            Some(engine @ (OperatorEngine::Cpu | OperatorEngine::Aicpu)) => Ok(engine),
            Some(engine) => refuse!(
                HCCL_E_PARA,
                "the engine {engine} has no threads; use COMM_ENGINE_CPU_TS or COMM_ENGINE_AICPU_TS"
            ),
            None => refuse!(
                HCCL_E_PARA,
                "{} is not the number of an engine; pass a CommEngine",
                engine.0
            ),
        }
    }

    /// Checks and returns an engine that is an argument of a function for channels.
    pub(crate) fn of_channels(
        product: Product,
        engine: CommEngine,
    ) -> Result<OperatorEngine, Failure> {
        match OperatorEngine::from_number(engine) {
            Some(OperatorEngine::Ccu) if product != Product::Ascend950 => {
                refuse!(HCCL_E_PARA, "{product} has no channels of the engine CCU; Ascend 950 does")
            }
            Some(engine) => Ok(engine),
            None => refuse!(
                HCCL_E_PARA,
                "{} is not the number of an engine; pass a CommEngine",
                engine.0
            ),
        }
    }

    /// Checks that the channels of the engine can use a protocol.
    pub(crate) fn check_protocol(
        self,
        product: Product,
        protocol: CommProtocol,
    ) -> Result<(), Failure> {
        use CommProtocol as P;
        let has: &[CommProtocol] = match (product, self) {
            (Product::A2 | Product::A3, OperatorEngine::Aiv) => {
                &[P::COMM_PROTOCOL_HCCS, P::COMM_PROTOCOL_HCCS_ONLY, P::COMM_PROTOCOL_SIO]
            }
            (Product::A2 | Product::A3, _) => &[
                P::COMM_PROTOCOL_HCCS,
                P::COMM_PROTOCOL_ROCE,
                P::COMM_PROTOCOL_HCCS_ONLY,
                P::COMM_PROTOCOL_SIO,
            ],
            (Product::Ascend950, OperatorEngine::Cpu) => &[P::COMM_PROTOCOL_ROCE],
            (Product::Ascend950, OperatorEngine::Aicpu) => &[
                P::COMM_PROTOCOL_UB_CTP,
                P::COMM_PROTOCOL_UBOE,
                P::COMM_PROTOCOL_ROCE,
                P::COMM_PROTOCOL_UB_MEM,
                P::COMM_PROTOCOL_UB_RTP,
            ],
            (Product::Ascend950, OperatorEngine::Aiv) => {
                &[P::COMM_PROTOCOL_UB_CTP, P::COMM_PROTOCOL_UB_MEM, P::COMM_PROTOCOL_ROCE]
            }
            (Product::Ascend950, OperatorEngine::Ccu) => &[P::COMM_PROTOCOL_UB_CTP],
        };
        if has.contains(&protocol) {
            return Ok(());
        }
        let names: Vec<_> = has.iter().map(|one| name_of(*one)).collect();
        refuse!(
            HCCL_E_PARA,
            "the engine {self} of {product} has no channels over {}; use {}",
            name_of(protocol),
            names.join(", ")
        )
    }
}

impl fmt::Display for OperatorEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OperatorEngine::Cpu => "CPU",
            OperatorEngine::Aicpu => "AICPU",
            OperatorEngine::Aiv => "AIV",
            OperatorEngine::Ccu => "CCU",
        })
    }
}

/// Returns CANN's name for a protocol, without the prefix.
pub(crate) fn name_of(protocol: CommProtocol) -> String {
    let name = match protocol {
        CommProtocol::COMM_PROTOCOL_HCCS => "HCCS",
        CommProtocol::COMM_PROTOCOL_ROCE => "ROCE",
        CommProtocol::COMM_PROTOCOL_PCIE => "PCIE",
        CommProtocol::COMM_PROTOCOL_SIO => "SIO",
        CommProtocol::COMM_PROTOCOL_UB_CTP => "UB_CTP",
        CommProtocol::COMM_PROTOCOL_UBC_TP => "UBC_TP",
        CommProtocol::COMM_PROTOCOL_UB_MEM => "UB_MEM",
        CommProtocol::COMM_PROTOCOL_UBOE => "UBOE",
        CommProtocol::COMM_PROTOCOL_HCCS_ONLY => "HCCS_ONLY",
        CommProtocol::COMM_PROTOCOL_UB_RTP => "UB_RTP",
        other => return format!("the protocol {}", other.0),
    };
    name.into()
}
