//! Structures of C with which a call may succeed.

use std::ffi::c_void;
use std::ptr::null;

use ascend_emulator_testing::common::physical_properties;
use ascend_sys::*;

use crate::caller::Caller;
use crate::plausible;
use crate::world::{channel_between, channel_to, team};

/// Returns the address of a structure of the type that a pointer points to. Returns `None` for
/// types that need nothing in particular, and before there are devices.
pub fn put(caller: &mut Caller<'_>, ty: &str) -> Option<u64> {
    let pointee = ty.trim_start_matches("*const ").trim_start_matches("*mut ");
    if pointee.len() == ty.len() {
        return None;
    }
    let world = caller.run.world.get()?;
    let memory = &caller.run.memory;
    let rank_of_peer = 1;
    Some(match pointee {
        "HcclChannelDesc" => memory.put_value(&channel_to(rank_of_peer, world.product)),
        "HcommChannelDesc" => memory.put_value(&channel_between(world.endpoints[1])),
        "EndpointDesc" => memory.put_value(&world.endpoints[0]),
        "CommMem" => {
            let (addr, size) = caller.memory(false);
            let type_ = CommMemType::COMM_MEM_TYPE_DEVICE;
            memory.put_value(&CommMem { type_, addr: addr as *mut c_void, size: size.min(4096) })
        }
        "ThreadConfig" => {
            let mut config = ThreadConfig::unset();
            config.notifyNumPerThread = 2;
            memory.put_list(&[config; 4])
        }
        "HcclCommConfig" => memory.put_value(&plausible::comm_config(caller)),
        "HcclRootInfo" => {
            let mut info = HcclRootInfo::default();
            // If this call fails, the root info names no root.
            let _ = ascend_emulator_testing::call!(HcclGetRootInfo(&mut info));
            memory.put_value(&info)
        }
        "HcclTeamCreateDesc" => {
            let ranks = memory.put_list(&[0_u32, 1]) as *const u32;
            memory.put_value(&if caller.chance(2) { team(ranks, 1) } else { team(null(), 0) })
        }
        "HcclTeamCreateChannelsDesc" => memory.put_value(&HcclTeamCreateChannelsDesc {
            header: CommAbiHeader { version: 1, magicWord: 0x0fcf_0f15, size: 48, reserved: 0 },
            engine: CommEngine::COMM_ENGINE_AICPU,
            notifyNum: 2,
            protocol: plausible::protocol(caller),
            channelCnt: 1,
            reserved: [0; 4],
        }),
        "HcclSendRecvItem" => {
            let (buf, _) = caller.memory(false);
            let item = |kind, at: u64| HcclSendRecvItem {
                sendRecvType: HcclSendRecvType(kind),
                buf: at as *mut c_void,
                count: 4,
                dataType: HcclDataType(2),
                remoteRank: 0,
            };
            memory.put_list(&[item(0, buf), item(1, buf + 4096)])
        }
        "HcommBatchTransferDesc" => {
            // A write of 64 bytes.
            let (from, _) = caller.memory(false);
            let words = [0, 64, world.remote.0, from, 0, 0, 0, 0];
            memory.put_list(&words)
        }
        "aclrtMallocConfig" => memory.put_value(&aclrtMallocConfig {
            attrs: memory.room(64) as *mut aclrtMallocAttribute,
            numAttrs: 0,
        }),
        "aclrtCntNotifyRecordInfo" => memory.put_value(&aclrtCntNotifyRecordInfo {
            mode: aclrtCntNotifyRecordMode::ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE,
            value: 1,
        }),
        "aclrtCntNotifyWaitInfo" => memory.put_value(&aclrtCntNotifyWaitInfo {
            mode: aclrtCntNotifyWaitMode::ACL_RT_CNT_NOTIFY_WAIT_BIGGER_OR_EQUAL_MODE,
            value: 0,
            timeout: 1,
            isClear: 0,
            rsv: [0; 3],
        }),
        "aclrtMemPoolProps" => memory.put_value(&aclrtMemPoolProps {
            location: physical_properties(world.first).location,
            ..aclrtMemPoolProps::default()
        }),
        "aclrtMemLocation" => memory.put_value(&physical_properties(world.first).location),
        "aclrtMemAccessDesc" => memory.put_value(&aclrtMemAccessDesc {
            flags: aclrtMemAccessFlags(3),
            location: physical_properties(world.first).location,
            rsv: [0; 12],
        }),
        "aclmdlRITaskParams" => {
            let params = memory.room(size_of::<aclmdlRITaskParams>());
            let task = world.task as aclmdlRITask;
            // If this call fails, the parameters are zeros.
            let _ = ascend_emulator_testing::call!(aclmdlRITaskGetParams(task, params as *mut _));
            params
        }
        "aclrtPhysicalMemProp" => memory.put_value(&physical_properties(world.first)),
        "aclrtMemcpyBatchAttr" => {
            let place = |type_, id| aclrtMemLocation { id, type_ };
            let near = aclrtMemLocationType::ACL_MEM_LOCATION_TYPE_DEVICE;
            memory.put_list(
                &[aclrtMemcpyBatchAttr {
                    dstLoc: place(near, world.first as u32),
                    srcLoc: place(aclrtMemLocationType::ACL_MEM_LOCATION_TYPE_HOST, 0),
                    rsv: [0; 16],
                }; 2],
            )
        }
        "aclrtServerPid" => memory.put_value(&aclrtServerPid {
            sdid: 0,
            pid: memory.put_list(&[std::process::id() as i32; 2]) as *mut i32,
            num: 1,
        }),
        "AscendExtBlockConfig" => {
            let config = ascend_emulator_testing::common::Block::config();
            memory.put_value(&AscendExtBlockConfig { memoryBytes: 1 << 24, ..config })
        }
        _ => return None,
    })
}
