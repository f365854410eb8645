//! Structures in which no field is set: the results of CANN's inline C functions `*Init`.
//!
//! In most structures a field that is not set has all bits set, also if it is an enum or a pointer.
//! So `Default::default()`, which is all zeros, means something else.

use std::mem::MaybeUninit;

use crate::*;

/// Returns a value with all bits set.
///
/// # Safety
///
/// All ones must be a valid value of the type: the type must have no `bool`, reference or function.
unsafe fn ones<T>() -> T {
    let mut value = MaybeUninit::uninit();
    // SAFETY: the pointer is to one `T`, and all its bytes are written. The caller guarantees that
    // these bytes are a valid value.
    unsafe {
        std::ptr::write_bytes::<T>(value.as_mut_ptr(), 0xff, 1);
        value.assume_init()
    }
}

const fn header<T>(version: u32, magic: u32) -> CommAbiHeader {
    CommAbiHeader { version, magicWord: magic, size: size_of::<T>() as u32, reserved: 0 }
}

impl HcclCommConfig {
    /// Returns a configuration in which no field is set, as `HcclCommConfigInit` makes it.
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
        // The first 24 bytes are the size, the magic number, the version, and eight bytes of zeros.
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
    /// Returns the result of `ThreadConfigInit`: a valid header, then zeros.
    pub fn unset() -> Self {
        let header = header::<Self>(HCOMM_THREAD_CONFIG_VERSION, HCOMM_THREAD_CONFIG_MAGIC_WORD);
        Self { header, ..Self::default() }
    }
}

impl EndpointDesc {
    /// Returns the result of `EndpointDescInit`: all ones.
    pub fn unset() -> Self {
        // SAFETY: the structure has only integers.
        unsafe { ones() }
    }
}

impl HcommChannelDesc {
    /// Returns the result of `HcommChannelDescInit`: a valid header, no notifies or memory handles,
    /// port 0, null pointers, `exchangeAllMems` false, and no other field set.
    pub fn unset() -> Self {
        let mut desc = MaybeUninit::<Self>::uninit();
        // SAFETY: the pointers are to one description, and all its bytes are written. All ones are
        // a valid value of every field except the `bool`, which is written before the value is
        // taken.
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
    /// Returns the result of `HcclChannelDescInit`: a valid header, no notifies or memory handles,
    /// and no other field set.
    pub fn unset() -> Self {
        // SAFETY: the structure has only integers and pointers.
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
    /// Returns the result of `CommLinkInit`: a valid header and one hop, and no other field set.
    pub fn unset() -> Self {
        // SAFETY: the structure has only integers.
        let mut link: Self = unsafe { ones() };
        link.header = header::<Self>(COMM_LINK_VERSION, COMM_LINK_MAGIC_WORD);
        link.linkAttr.anon_1.hop = 1;
        link
    }
}

impl HcclOpDesc {
    /// Returns the result of `HcclOpDescInit`: a valid header, then all ones.
    pub fn unset() -> Self {
        // SAFETY: the structure has only integers and pointers.
        let ones: Self = unsafe { ones() };
        Self { header: header::<Self>(HCCL_OPDESC_VERSION, HCCL_OPDESC_MAGIC_WORD), ..ones }
    }
}

impl HcclKernelLaunchCfg {
    /// Returns the result of `HcclKernelLaunchCfgInit`: a valid header, then all ones.
    pub fn unset() -> Self {
        // SAFETY: the structure has only integers.
        let ones: Self = unsafe { ones() };
        let (version, magic) = (HCCL_KERNEL_LAUNCH_CFG_VERSION, HCCL_KERNEL_LAUNCH_CFG_MAGIC_WORD);
        Self { header: header::<Self>(version, magic), ..ones }
    }
}

impl HcclTeamCreateDesc {
    /// Returns the result of `HcclTeamCreateDescInit`: a valid header, no list of ranks, zeros in
    /// the requirement and the reserved fields, and no other field set.
    pub fn unset() -> Self {
        // SAFETY: the structure has only integers and pointers.
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
    /// Returns the result of `HcclTeamCreateChannelsDescInit`: a valid header, zeros in counts and
    /// reserved fields, and no other field set.
    pub fn unset() -> Self {
        // SAFETY: the structure has only integers.
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
