//! Functions of CANN whose names are known and whose parameters are not: private headers declare
//! them, and operator libraries call them.
//!
//! None of our headers declares such a function, and the function table has no field for it. The
//! installed libraries export the function, so that an operator library that refers to it can be
//! loaded. The function reads no argument, so a caller may pass any: on x86_64 and aarch64 the
//! caller also removes the arguments.

use super::entries::{Hccl, run};
use crate::message::Failure;
use ascend_sys::HcclResult;

/// Functions of one private header of CANN, which all return the same result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undeclared {
    /// The header of CANN that declares the functions.
    pub header: &'static str,
    /// The names of the functions.
    pub names: &'static [&'static str],
    /// The result of each call: success, or the code for the reason.
    pub result: HcclResult,
    /// The reason why the emulator does nothing, as it appears in the error text.
    pub reason: &'static str,
}

impl Undeclared {
    /// Does what a call of the function with this name does: nothing but return
    /// [`result`](Self::result). If the result is an error, `aclGetRecentErrMsg` then returns the
    /// name and the reason.
    ///
    /// Does not block. The symbols of the installed libraries call this function. In a process that
    /// was forked from one that used devices, it returns an error, as most entries do.
    pub fn call(&self, name: &'static str) -> HcclResult {
        run::<Hccl>(name, || match self.result {
            HcclResult::HCCL_SUCCESS => Ok(()),
            code => Err(Failure::new(code, self.reason)),
        })
    }
}

/// Returns all functions of [`UNDECLARED`], each with its list.
pub fn undeclared() -> impl Iterator<Item = (&'static Undeclared, &'static str)> {
    UNDECLARED.iter().flat_map(|list| list.names.iter().map(move |name| (list, *name)))
}

const NO_LOG: &str = "the emulator has no profiler that reads the reports of an operator layer";
const NO_UNIT: &str = "the emulator has no resources of the collective unit (CCU), whose interface is \
                       not published; use the engine AICPU_TS";

/// All functions of this kind: one list for each header.
pub static UNDECLARED: &[Undeclared] = &[
    Undeclared {
        header: "hccl/hccl_diag.h",
        names: &[
            "HcclProfilingReportOp",
            "HcclReportAicpuKernel",
            "HcclReportAivKernel",
            "HcommGetProfilingSysCycleTime",
            "HcclDfxRegOpInfoByCommId",
        ],
        result: HcclResult::HCCL_SUCCESS,
        reason: NO_LOG,
    },
    Undeclared {
        header: "hccl/hcomm_diag.h",
        names: &[
            "HcommRegOpInfo",
            "HcommRegOpTaskException",
            "HcommProfilingReportDeviceOp",
            "HcommProfilingReportKernelStartTask",
            "HcommProfilingReportKernelEndTask",
        ],
        result: HcclResult::HCCL_SUCCESS,
        reason: NO_LOG,
    },
    Undeclared {
        header: "hcomm/hcomm_primitives_expt.h",
        names: &["HcommThreadJoin"],
        result: HcclResult::HCCL_E_NOT_SUPPORT,
        reason: "the emulator does not support this function: its parameters are not published; let \
                 threads wait with HcommThreadNotifyWaitOnThread",
    },
    Undeclared {
        header: "hccl/hccl_ccu_res.h",
        names: &["HcclCommAssignCcuIns", "HcclCommQueryCcuIns", "HcclCommQueryAssignedCcuIns"],
        result: HcclResult::HCCL_E_UNAVAIL,
        reason: NO_UNIT,
    },
    Undeclared {
        header: "hcomm/ccu/ccu_res.h",
        names: &[
            "HcommCcuVariableAlloc",
            "HcommCcuEventAlloc",
            "HcommCcuVariableGetAddr",
            "HcommCcuEventGetAddr",
            "HcommCcuInsResDescCreate",
            "HcommCcuInsResDescDestroy",
            "HcommCcuInsResDescQueryDieId",
            "HcommCcuInsResDescSetNum",
            "HcommCcuInsResDescQueryNum",
            "HcommCcuInsCreate",
            "HcommCcuInsCreateDefault",
            "HcommCcuInsDestroy",
            "HcommCcuInsQueryResDesc",
            "HcommCcuQueryRemainResDesc",
            "HcommCcuKernelQueryResReq",
            "HcommCcuGetMemToken",
        ],
        result: HcclResult::HCCL_E_UNAVAIL,
        reason: NO_UNIT,
    },
    Undeclared {
        header: "hcomm/ccu/ccu_launch.h",
        names: &[
            "HcommCcuKernelRegisterStart",
            "HcommCcuKernelRegister",
            "HcommCcuKernelRegisterEnd",
            "HcommCcuGetTaskArgsNum",
            "HcommCcuKernelLaunch",
        ],
        result: HcclResult::HCCL_E_UNAVAIL,
        reason: NO_UNIT,
    },
];
