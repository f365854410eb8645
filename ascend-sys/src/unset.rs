//! Structures in which nothing is set: the results of CANN's inline functions `*Init` in C.
//!
//! For most structures "not set" is all ones in every field, including enums and pointers, so
//! `Default::default()`, which is all zeros, means something else.

use std::mem::MaybeUninit;

use crate::*;

/// Returns a value with all bits set.
///
/// # Safety
///
/// All ones must be a value of the type: it has no `bool`, reference or function.
unsafe fn ones<T>() -> T {
    let mut value = MaybeUninit::uninit();
    // SAFETY: the pointer is to one `T`, all of whose bytes are written; the caller says that these
    // bytes are a value.
    unsafe {
        std::ptr::write_bytes::<T>(value.as_mut_ptr(), 0xff, 1);
        value.assume_init()
    }
}

const fn header<T>(version: u32, magic: u32) -> CommAbiHeader {
    CommAbiHeader { version, magicWord: magic, size: size_of::<T>() as u32, reserved: 0 }
}

impl HcclCommConfig {
    /// A configuration in which nothing is set, as `HcclCommConfigInit` makes it.
    pub fn unset() -> Self {
        let mut config = Self {
            hcclBufferSize: HCCL_COMM_BUFFSIZE_CONFIG_NOT_SET,
            hcclDeterministic: HCCL_COMM_DETERMINISTIC_CONFIG_NOT_SET,
            hcclOpExpansionMode: HCCL_COMM_DEFAULT_OP_EXPANSION_MODE,
            hcclRdmaTrafficClass: HCCL_COMM_TRAFFIC_CLASS_CONFIG_NOT_SET,
            hcclRdmaServiceLevel: HCCL_COMM_SERVICE_LEVEL_CONFIG_NOT_SET,
            hcclExecTimeOut: HCCL_COMM_EXECTIMEOUT_CONFIG_NOT_SET,
            hcclQos: HCCL_COMM_QOS_CONFIG_NOT_SET,
            hcclSymWinMaxMemSizePerRank: HCCL_DEFAULT_SYMMETRIC_MEMORY_STRIDE,
            hcclChannelSqDepth: HCCL_COMM_SQ_DEPTH_CONFIG_NOT_SET,
            ..Self::default()
        };
        // The first 24 bytes: size, magic number, version, and eight bytes of zeros.
        let head = size_of::<Self>()
            .to_ne_bytes()
            .into_iter()
            .chain(HCCL_COMM_CONFIG_MAGIC_WORD.to_ne_bytes())
            .chain(HCCL_COMM_CONFIG_VERSION.to_ne_bytes());
        for (to, from) in config.reserved.iter_mut().zip(head) {
            *to = from as std::ffi::c_char;
        }
        config
    }
}

impl ThreadConfig {
    /// The result of `ThreadConfigInit`: zeros behind a valid header.
    pub fn unset() -> Self {
        let header = header::<Self>(HCOMM_THREAD_CONFIG_VERSION, HCOMM_THREAD_CONFIG_MAGIC_WORD);
        Self { header, ..Self::default() }
    }
}

impl EndpointDesc {
    /// The result of `EndpointDescInit`.
    pub fn unset() -> Self {
        // SAFETY: it holds integers only.
        unsafe { ones() }
    }
}

impl HcommChannelDesc {
    /// The result of `HcommChannelDescInit`.
    pub fn unset() -> Self {
        let mut desc = MaybeUninit::<Self>::uninit();
        // SAFETY: the pointers are to one description, all of whose bytes are written. All ones are
        // a value of each field but the `bool`, which is written before the value is taken.
        let mut desc = unsafe {
            std::ptr::write_bytes(desc.as_mut_ptr(), 0xff, 1);
            (&raw mut (*desc.as_mut_ptr()).exchangeAllMems).write(false);
            desc.assume_init()
        };
        desc.header = header::<Self>(HCOMM_CHANNEL_VERSION, HCOMM_CHANNEL_MAGIC_WORD);
        desc.notifyNum = 0;
        desc.memHandles = std::ptr::null_mut();
        desc.memHandleNum = 0;
        desc.socket = std::ptr::null_mut();
        desc.role = HcommSocketRole::HCOMM_SOCKET_ROLE_RESERVED;
        desc.port = 0;
        desc.anon_1.roceAttr.srcPortList = std::ptr::null_mut();
        desc.channelName = std::ptr::null();
        desc
    }
}

impl HcclChannelDesc {
    /// The result of `HcclChannelDescInit`.
    pub fn unset() -> Self {
        // SAFETY: it holds integers and pointers only.
        let ones: Self = unsafe { ones() };
        Self {
            header: header::<Self>(HCCL_CHANNEL_VERSION, HCCL_CHANNEL_MAGIC_WORD),
            notifyNum: 0,
            memHandles: std::ptr::null_mut(),
            memHandleNum: 0,
            ..ones
        }
    }
}

impl CommLink {
    /// The result of `CommLinkInit`: one hop, nothing else set.
    pub fn unset() -> Self {
        // SAFETY: it holds integers only.
        let mut link: Self = unsafe { ones() };
        link.header = header::<Self>(COMM_LINK_VERSION, COMM_LINK_MAGIC_WORD);
        link.linkAttr.anon_1.hop = 1;
        link
    }
}

impl HcclOpDesc {
    /// The result of `HcclOpDescInit`: all ones behind a valid header.
    pub fn unset() -> Self {
        // SAFETY: it holds integers and pointers only.
        let ones: Self = unsafe { ones() };
        Self { header: header::<Self>(HCCL_OPDESC_VERSION, HCCL_OPDESC_MAGIC_WORD), ..ones }
    }
}

impl HcclKernelLaunchCfg {
    /// The result of `HcclKernelLaunchCfgInit`: all ones behind a valid header.
    pub fn unset() -> Self {
        // SAFETY: it holds integers only.
        let ones: Self = unsafe { ones() };
        let (version, magic) = (HCCL_KERNEL_LAUNCH_CFG_VERSION, HCCL_KERNEL_LAUNCH_CFG_MAGIC_WORD);
        Self { header: header::<Self>(version, magic), ..ones }
    }
}

impl HcclTeamCreateDesc {
    /// The result of `HcclTeamCreateDescInit`: counts and reserved fields zero, the rest not set.
    pub fn unset() -> Self {
        // SAFETY: it holds integers and pointers only.
        let ones: Self = unsafe { ones() };
        let (version, magic) = (HCCL_TEAM_CREATE_DESC_VERSION, HCCL_TEAM_CREATE_DESC_MAGIC_WORD);
        Self {
            header: header::<Self>(version, magic),
            rankIds: std::ptr::null(),
            rankNum: 0,
            requirement: HcommTeamSyncMemRequirement::default(),
            reserved: [0; 4],
            ..ones
        }
    }
}

impl HcclTeamCreateChannelsDesc {
    /// The result of `HcclTeamCreateChannelsDescInit`: counts and reserved fields zero, the rest
    /// not set.
    pub fn unset() -> Self {
        // SAFETY: it holds integers only.
        let ones: Self = unsafe { ones() };
        let version = HCCL_TEAM_CREATE_CHANNELS_DESC_VERSION;
        let magic = HCCL_TEAM_CREATE_CHANNELS_DESC_MAGIC_WORD;
        Self {
            header: header::<Self>(version, magic),
            notifyNum: 0,
            channelCnt: 0,
            reserved: [0; 4],
            ..ones
        }
    }
}
