//! Ranks that are all driven by one thread.

use ascend_emulator_testing::common::{self, Block};
use ascend_emulator_testing::ranks::{FP32, SUM};
use ascend_emulator_testing::{call, hccl, ok};
use ascend_sys::*;
use std::ffi::c_void;
use std::ptr::null_mut;

/// All ranks of a communicator, driven by one thread.
pub struct World {
    pub block: Block,
    pub comms: Vec<HcclComm>,
    pub streams: Vec<aclrtStream>,
}

impl World {
    pub fn without_comms(config: AscendExtBlockConfig) -> World {
        let block = Block::with(config);
        let devices = block.first..block.first + config.deviceCount as i32;
        let streams = devices.map(|device| {
            ok!(aclrtSetDevice(device));
            common::stream()
        });
        let streams = streams.collect();
        World { block, comms: vec![null_mut(); config.deviceCount as usize], streams }
    }

    pub fn of(ranks: u32) -> World {
        World::with(AscendExtBlockConfig { deviceCount: ranks, ..Block::config() })
    }

    pub fn with(config: AscendExtBlockConfig) -> World {
        let mut world = World::without_comms(config);
        let count = config.deviceCount as i32;
        let mut devices: Vec<_> = (0..count).map(|rank| world.block.first + rank).collect();
        let comms = world.comms.as_mut_ptr();
        hccl!(HcclCommInitAll(config.deviceCount, devices.as_mut_ptr(), comms));
        world
    }

    pub fn ranks(&self) -> std::ops::Range<usize> {
        0..self.streams.len()
    }

    pub fn set(&self, rank: usize) {
        ok!(aclrtSetDevice(self.block.first + rank as i32));
    }

    pub fn upload(&self, rank: usize, values: &[f32]) -> *mut c_void {
        self.set(rank);
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        let buffer = common::malloc(bytes.len());
        common::write(buffer, &bytes);
        buffer
    }

    pub fn download(&self, rank: usize, buffer: *mut c_void, values: usize) -> Vec<f32> {
        self.set(rank);
        let bytes = common::read(buffer, values * 4);
        bytes.chunks_exact(4).map(|value| f32::from_ne_bytes(value.try_into().unwrap())).collect()
    }

    /// Calls an all-reduce in place for a rank.
    pub fn all_reduce(&self, rank: usize, buffer: *mut c_void, count: usize) -> HcclResult {
        self.set(rank);
        let (comm, stream) = (self.comms[rank], self.streams[rank]);
        call!(HcclAllReduce(buffer, buffer, count as u64, FP32, SUM, comm, stream))
    }
}
