//! The functions of CANN that each feature of `hccl` calls. A feature does not work if one of its
//! functions is missing.

/// A feature of `hccl`, and the functions that it needs.
pub(crate) struct Feature {
    pub(crate) what: &'static str,
    pub(crate) functions: &'static [&'static str],
}

/// The functions without which no program runs.
pub(crate) const BASE: Feature = Feature {
    what: "devices, streams, memory and copies",
    functions: &[
        "aclInit",
        "aclrtGetDeviceCount",
        "aclrtSetDevice",
        "aclrtGetCurrentContext",
        "aclrtSetCurrentContext",
        "aclrtCreateStream",
        "aclrtDestroyStreamForce",
        "aclrtStreamQuery",
        "aclrtSynchronizeStreamWithTimeout",
        "aclrtCreateEventExWithFlag",
        "aclrtDestroyEvent",
        "aclrtRecordEvent",
        "aclrtQueryEventStatus",
        "aclrtSynchronizeEventWithTimeout",
        "aclrtStreamWaitEvent",
        "aclrtMalloc",
        "aclrtFree",
        "aclrtMallocHost",
        "aclrtFreeHost",
        "aclrtMemcpyAsync",
        "aclrtMemsetAsync",
    ],
};

pub(crate) const FEATURES: &[Feature] = &[
    Feature {
        what: "communicators by root info (run_ranks, run_job, Communicator::builder)",
        functions: &["HcclGetRootInfo", "HcclCommInitRootInfoConfig", "HcclCommDestroy"],
    },
    Feature {
        what: "communicators by init_all and from handles (from_raw)",
        functions: &["HcclCommInitAll", "HcclGetRankId", "HcclGetRankSize", "HcclGetCommName"],
    },
    Feature {
        what: "communicators by a rank table",
        functions: &["HcclCommInitClusterInfoConfig", "HcclGetRankSize"],
    },
    Feature { what: "split and subset", functions: &["HcclCreateSubCommConfig"] },
    Feature { what: "suspend and resume", functions: &["HcclCommSuspend", "HcclCommResume"] },
    Feature { what: "all_reduce", functions: &["HcclAllReduce"] },
    Feature { what: "reduce", functions: &["HcclReduce"] },
    Feature { what: "reduce_scatter", functions: &["HcclReduceScatter"] },
    Feature { what: "reduce_scatter_v", functions: &["HcclReduceScatterV"] },
    Feature { what: "broadcast", functions: &["HcclBroadcast"] },
    Feature { what: "all_gather", functions: &["HcclAllGather"] },
    Feature { what: "all_gather_v", functions: &["HcclAllGatherV"] },
    Feature { what: "scatter", functions: &["HcclScatter"] },
    Feature { what: "all_to_all", functions: &["HcclAlltoAll"] },
    Feature { what: "all_to_all_v", functions: &["HcclAlltoAllV"] },
    Feature { what: "all_to_all_vc", functions: &["HcclAlltoAllVC"] },
    Feature { what: "send and recv", functions: &["HcclSend", "HcclRecv"] },
    Feature { what: "batches of messages, connect", functions: &["HcclBatchSendRecv"] },
    Feature { what: "barrier, connect", functions: &["HcclBarrier"] },
    Feature { what: "groups", functions: &["HcclGroupStart", "HcclGroupEnd"] },
    Feature {
        what: "operations that make links (a helper thread issues them)",
        functions: &[
            "aclrtCreateNotify",
            "aclrtDestroyNotify",
            "aclrtRecordNotify",
            "aclrtWaitAndResetNotify",
        ],
    },
    Feature {
        what: "graphs",
        functions: &[
            "aclmdlRICaptureBegin",
            "aclmdlRICaptureEnd",
            "aclmdlRIExecuteAsync",
            "aclmdlRIDestroy",
        ],
    },
    Feature {
        what: "custom operators (Communicator::run)",
        functions: &[
            "HcclGetHcclBuffer",
            "HcclThreadAcquire",
            "HcclThreadAcquireWithStream",
            "HcclThreadResGetInfo",
            "HcclChannelAcquire",
            "HcclChannelGetHcclBuffer",
            "HcommBatchModeStart",
            "HcommBatchModeEnd",
            "HcommLocalCopyOnThread",
            "HcommLocalReduceOnThread",
            "HcommReadOnThread",
            "HcommReadReduceOnThread",
            "HcommWriteOnThread",
            "HcommWriteReduceOnThread",
            "HcommThreadNotifyRecordOnThread",
            "HcommThreadNotifyWaitOnThread",
            "HcommChannelNotifyRecordOnThread",
            "HcommChannelNotifyWaitOnThread",
        ],
    },
    Feature {
        what: "kernels",
        functions: &[
            "aclrtBinaryLoadFromData",
            "aclrtBinaryLoadFromFile",
            "aclrtBinaryGetFunction",
            "aclrtBinaryUnLoad",
            "aclrtLaunchKernelWithHostArgs",
        ],
    },
    Feature { what: "kernels that communicate", functions: &["HcclAllocComResourceByTiling"] },
    Feature { what: "host functions in a stream", functions: &["aclrtLaunchHostFunc"] },
    Feature {
        what: "memory of the program's own (register, lend)",
        functions: &["aclrtHostRegister", "aclrtHostUnregister"],
    },
    Feature { what: "times between events", functions: &["aclrtEventElapsedTime"] },
    Feature { what: "how much memory is free", functions: &["aclrtGetMemInfo"] },
    Feature { what: "the numbers of cores", functions: &["aclrtGetDeviceInfo"] },
    Feature {
        what: "the product (limits of products are not checked)",
        functions: &["aclrtGetSocName"],
    },
    Feature { what: "CANN's own texts of errors", functions: &["aclGetRecentErrMsg"] },
];

/// The optional entries, and the consequences for a program if they are missing. CANN lacks all of
/// them.
pub(crate) const OPTIONAL: &[Feature] = &[
    Feature {
        what: "events show whether work is complete, and a failed synchronise counts as a failure of all work that is not known to be complete",
        functions: &["ascendExtStreamProgress", "ascendExtStreamFailure", "ascendExtAwaitTask"],
    },
    Feature {
        what: "errors name ranks only in CANN's text",
        functions: &["ascendExtTaskPeers", "ascendExtCommFailure", "ascendExtCommRank"],
    },
    Feature {
        what: "a rank that leaves, fails or dies is noticed by time limits",
        functions: &["ascendExtRankLeave", "ascendExtCommLeave", "ascendExtCommAbort"],
    },
    Feature { what: "deadlocks end at time limits", functions: &["ascendExtThreadWaits"] },
    Feature {
        what: "no checked mode and no recorded timelines",
        functions: &["ascendExtFindings", "ascendExtTimelineRecord"],
    },
    Feature {
        what: "an operation of no elements does not wait for other ranks",
        functions: &["ascendExtCommNumbersZeros"],
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    fn listed() -> BTreeSet<&'static str> {
        let all = FEATURES.iter().chain(OPTIONAL).chain([&BASE]);
        all.flat_map(|feature| feature.functions.iter().copied()).collect()
    }

    #[test]
    fn every_listed_function_is_one() {
        for name in listed() {
            assert!(ascend_sys::Symbol::named(name).is_some(), "{name}");
        }
    }

    /// Collects the names in `call!(table, NAME, ..)` from the sources of a directory.
    fn called(directory: &Path, names: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                called(&path, names);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for call in text.split("call!(").skip(1) {
                let words: Vec<&str> = call.split([',', ')']).map(str::trim).take(2).collect();
                if let [_, name] = words[..] {
                    names.insert(name.to_owned());
                }
            }
        }
    }

    #[test]
    fn every_function_that_hccl_calls_by_name_is_listed() {
        let mut names = BTreeSet::new();
        called(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../src"), &mut names);
        names.retain(|name| {
            ascend_sys::Symbol::named(name).is_some() && !name.starts_with("ascendExt")
        });
        assert!(names.len() > 50, "{names:?}");
        let listed = listed();
        for name in names {
            assert!(listed.contains(&*name), "{name} belongs to a feature");
        }
    }
}
