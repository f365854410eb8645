//! Tests of endpoints that belong to no communicator, of the memory that is registered on them, and
//! of communication memory.

use ascend_emulator_testing::common::{self, Block};
use ascend_emulator_testing::{fails, ok};
use ascend_sys::*;
use std::ffi::{CString, c_void};
use std::ptr::{null, null_mut};

/// Calls a function of HCOMM that must succeed.
macro_rules! hcomm {
    ($name:ident($($argument:expr),* $(,)?)) => { ok!($name($($argument),*)) };
}

const PARA: i32 = HcclResult::HCCL_E_PARA.0 as i32;
const PTR: i32 = HcclResult::HCCL_E_PTR.0 as i32;
const NOT_FOUND: i32 = HcclResult::HCCL_E_NOT_FOUND.0 as i32;
const RUNTIME: i32 = HcclResult::HCCL_E_RUNTIME.0 as i32;
const PRODUCTS: [u32; 3] = [2, 3, 950];

fn block(product: u32, devices: u32) -> Block {
    let config = AscendExtBlockConfig { deviceCount: devices, product, ..Block::config() };
    Block::one_with(config)
}

fn descriptions(device: i32) -> Vec<EndpointDesc> {
    let mut count = 0;
    hcomm!(HcommEndpointGetDescNum(device, &mut count));
    let mut all = vec![EndpointDesc::default(); count as usize];
    hcomm!(HcommEndpointGetDescs(device, &mut count, all.as_mut_ptr()));
    all
}

/// Opens an endpoint of a device. The device stays set.
fn open(device: i32, which: usize) -> EndpointHandle {
    ok!(aclrtSetDevice(device));
    let mut handle = null_mut();
    hcomm!(HcommEndpointCreate(&descriptions(device)[which], &mut handle));
    assert!(!handle.is_null());
    handle
}

fn device_memory(addr: *mut c_void, size: u64) -> CommMem {
    CommMem { type_: CommMemType::COMM_MEM_TYPE_DEVICE, addr, size }
}

fn register(endpoint: EndpointHandle, tag: &str, memory: &CommMem) -> HcommMemHandle {
    let (tag, mut handle) = (CString::new(tag).unwrap(), null_mut());
    hcomm!(HcommMemReg(endpoint, tag.as_ptr(), memory, &mut handle));
    handle
}

/// Returns the export of a registered memory as bytes, which a test then gives to the importer.
fn export(endpoint: EndpointHandle, memory: HcommMemHandle) -> Vec<u8> {
    let (mut bytes, mut length) = (null_mut(), 0);
    hcomm!(HcommMemExport(endpoint, memory, &mut bytes, &mut length));
    // SAFETY: the library has returned the start and the number of the bytes.
    unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length as usize) }.to_vec()
}

#[test]
fn a_device_has_an_endpoint_of_each_protocol_of_its_product() {
    for (product, expected) in [(2, &[0, 1][..]), (3, &[0, 1]), (950, &[4, 6, 7, 1])] {
        let block = block(product, 2);
        for device in [block.first, block.first + 1] {
            let all = descriptions(device);
            let protocols: Vec<_> = all.iter().map(|one| one.protocol.0).collect();
            assert_eq!(protocols, expected, "{product}");
            for description in &all {
                let mut has = true;
                let feature = HcommEndpointFeatureType::HCOMM_ENDPOINT_FEATURE_NDA;
                hcomm!(HcommEndpointCheckFeature(feature, description, &mut has));
                assert!(!has);
            }
        }
    }
}

#[test]
fn endpoints_are_opened_on_the_device_that_is_set() {
    for product in PRODUCTS {
        let block = block(product, 2);
        let own = descriptions(block.first)[0];
        let other = descriptions(block.first + 1)[0];
        let (mut handle, mut port, mut second) = (null_mut(), [0; 2], null_mut());
        fails!(PARA, ["is on device", "has device"], HcommEndpointCreate(&other, &mut handle));
        hcomm!(HcommEndpointCreate(&own, &mut handle));
        hcomm!(HcommEndpointGetListenPort(handle, &mut port[0]));
        ok!(aclrtSetDevice(block.first + 1));
        hcomm!(HcommEndpointCreate(&other, &mut second));
        hcomm!(HcommEndpointGetListenPort(second, &mut port[1]));
        assert_ne!(port[0], port[1]);
        hcomm!(HcommEndpointDestroy(handle));
        fails!(PARA, ["the endpoint", "is gone"], HcommEndpointDestroy(handle));
        fails!(PARA, ["is gone"], HcommEndpointGetListenPort(handle, &mut port[0]));
        hcomm!(HcommEndpointDestroy(second));
    }
}

#[test]
fn wrong_endpoints_are_refused() {
    let block = block(3, 1);
    let own = descriptions(block.first)[0];
    let (mut handle, mut count, mut value) = (null_mut(), 1, false);
    let feature = HcommEndpointFeatureType::HCOMM_ENDPOINT_FEATURE_NDA;
    fails!(PTR, ["endpoint is NULL"], HcommEndpointCreate(null(), &mut handle));
    fails!(PTR, ["endpointHandle is NULL"], HcommEndpointCreate(&own, null_mut()));
    fails!(PTR, ["endpointHandle is NULL"], HcommEndpointDestroy(null_mut()));
    fails!(
        PARA,
        ["not the handle of any endpoint"],
        HcommEndpointDestroy(0x1000 as EndpointHandle)
    );
    fails!(PTR, ["descNum is NULL"], HcommEndpointGetDescNum(block.first, null_mut()));
    fails!(PARA, ["deviceLogicId", "no device -1"], HcommEndpointGetDescNum(-1, &mut count));
    fails!(PARA, ["no device"], HcommEndpointGetDescNum(block.first + 1, &mut count));
    let mut one = own;
    fails!(
        PARA,
        ["descNum is 1", "returns, 2"],
        HcommEndpointGetDescs(block.first, &mut count, &mut one)
    );
    fails!(
        PTR,
        ["endpointDescs is NULL"],
        HcommEndpointGetDescs(block.first, &mut count, null_mut())
    );
    fails!(PTR, ["port is NULL"], HcommEndpointGetListenPort(open(block.first, 0), null_mut()));
    fails!(PTR, ["value is NULL"], HcommEndpointCheckFeature(feature, &own, null_mut()));
    let unknown = HcommEndpointFeatureType(1);
    fails!(
        PARA,
        ["not the number of a feature"],
        HcommEndpointCheckFeature(unknown, &own, &mut value)
    );
    let mut other = own;
    other.protocol = CommProtocol::COMM_PROTOCOL_UB_CTP;
    fails!(PARA, ["no endpoint of the protocol 4"], HcommEndpointCreate(&other, &mut handle));
    let mut other = own;
    other.loc.locType = EndpointLocType::ENDPOINT_LOC_TYPE_HOST;
    fails!(PARA, ["loc.locType is 1"], HcommEndpointCreate(&other, &mut handle));
    let mut other = own;
    other.commAddr.anon_1.id = 0;
    fails!(PARA, ["loc and commAddr are not those"], HcommEndpointCreate(&other, &mut handle));
}

#[test]
fn exported_memory_is_imported_by_an_endpoint_of_the_same_protocol() {
    for product in PRODUCTS {
        let block = block(product, 2);
        let owner = open(block.first, 0);
        let memory = device_memory(common::malloc(4096), 4096);
        let host = CommMem { type_: CommMemType(1), addr: common::malloc_host(64), size: 64 };
        let exports = [
            export(owner, register(owner, "flags", &memory)),
            export(owner, register(owner, "host", &host)),
        ];
        let (importer, other) = (open(block.first + 1, 0), open(block.first + 1, 1));
        for (bytes, expected) in exports.iter().zip([memory, host]) {
            let (mut found, length) = (CommMem::default(), bytes.len() as u32);
            let from = bytes.as_ptr().cast();
            hcomm!(HcommMemImport(importer, from, length, &mut found));
            assert_eq!(
                (found.type_, found.addr, found.size),
                (expected.type_, expected.addr, expected.size)
            );
            // The second import of the same memory needs an unimport of its own.
            hcomm!(HcommMemImport(importer, from, length, &mut found));
            hcomm!(HcommMemUnimport(importer, from, length));
            hcomm!(HcommMemUnimport(importer, from, length));
            fails!(NOT_FOUND, ["was not imported"], HcommMemUnimport(importer, from, length));
            fails!(PARA, ["of the protocol"], HcommMemImport(other, from, length, &mut found));
        }
    }
}

#[test]
fn memory_that_is_gone_is_not_imported() {
    let block = block(3, 2);
    let owner = open(block.first, 0);
    let buffer = common::malloc(64);
    let memory = device_memory(buffer, 64);
    let first = register(owner, "tag", &memory);
    let unregistered = export(owner, first);
    hcomm!(HcommMemUnreg(owner, first));
    fails!(NOT_FOUND, ["registered on this endpoint"], HcommMemUnreg(owner, first));
    let (mut bytes, mut length) = (null_mut(), 0);
    fails!(NOT_FOUND, ["registered"], HcommMemExport(owner, first, &mut bytes, &mut length));
    // The tag can be used again now.
    let second = register(owner, "tag", &memory);
    assert_ne!(first, second);
    let freed = export(owner, second);
    ok!(aclrtFree(buffer));
    fails!(PARA, ["must not be freed"], HcommMemExport(owner, second, &mut bytes, &mut length));
    let third = register(owner, "third", &device_memory(common::malloc(64), 64));
    let closed = export(owner, third);
    let importer = open(block.first + 1, 0);
    let mut found = CommMem::default();
    let mut refused = |export: &[u8], code, piece: &str| {
        fails!(code, [piece], HcommMemImport(importer, export.as_ptr().cast(), 64, &mut found));
    };
    refused(&unregistered, NOT_FOUND, "no longer registered");
    refused(&freed, PARA, "freed by aclrtFree");
    hcomm!(HcommEndpointDestroy(owner));
    refused(&closed, NOT_FOUND, "no longer registered");
    let mut damaged = closed;
    damaged[17] ^= 1;
    refused(&damaged, PARA, "damaged on its way");
    refused(&[0; 64], PARA, "not a description of HcommMemExport");
}

#[test]
fn blocks_do_not_reach_each_other_s_memory() {
    let (here, there) = (block(3, 1), block(3, 1));
    let owner = open(here.first, 0);
    let bytes = export(owner, register(owner, "mine", &device_memory(common::malloc(64), 64)));
    let importer = open(there.first, 0);
    let mut found = CommMem::default();
    let from = bytes.as_ptr().cast();
    fails!(PARA, ["different blocks"], HcommMemImport(importer, from, 64, &mut found));
}

#[test]
fn wrong_memory_is_refused() {
    let block = block(3, 2);
    let (buffer, endpoint) = (common::malloc(64), open(block.first + 1, 0));
    let (own, mut handle) = (common::malloc(64), null_mut());
    let good = device_memory(own, 64);
    let tag = c"tag".as_ptr();
    fails!(PTR, ["endpointHandle"], HcommMemReg(null_mut(), tag, &good, &mut handle));
    fails!(PTR, ["memTag"], HcommMemReg(endpoint, null(), &good, &mut handle));
    fails!(PTR, ["argument mem is"], HcommMemReg(endpoint, tag, null(), &mut handle));
    fails!(PTR, ["memHandle"], HcommMemReg(endpoint, tag, &good, null_mut()));
    let empty = c"".as_ptr();
    fails!(PARA, ["0 bytes"], HcommMemReg(endpoint, empty, &good, &mut handle));
    let long = CString::new("x".repeat(256)).unwrap();
    fails!(PARA, ["256 bytes"], HcommMemReg(endpoint, long.as_ptr(), &good, &mut handle));
    let cases = [
        (CommMem { addr: null_mut(), ..good }, PTR, "mem->addr is NULL"),
        (CommMem { size: 0, ..good }, PARA, "mem->size is 0"),
        (CommMem { size: 65, ..good }, PARA, "1 byte beyond the end"),
        (CommMem { type_: CommMemType(1), size: u64::MAX, ..good }, PARA, "beyond the end"),
        (CommMem { type_: CommMemType(2), ..good }, PARA, "mem->type is 2"),
        (CommMem { type_: CommMemType(1), ..good }, PARA, "is memory of device"),
        (CommMem { addr: buffer, ..good }, PARA, "is memory of device"),
        (CommMem { addr: common::malloc_host(64), ..good }, PARA, "is host memory"),
    ];
    for (memory, code, piece) in cases {
        fails!(code, [piece], HcommMemReg(endpoint, tag, &memory, &mut handle));
    }
    let registered = register(endpoint, "tag", &good);
    fails!(PARA, ["the tag \"tag\" already"], HcommMemReg(endpoint, tag, &good, &mut handle));
    let (mut bytes, mut length, mut found) = (null_mut(), 0, CommMem::default());
    let (to, size) = (&raw mut bytes, &raw mut length);
    fails!(PTR, ["memHandle"], HcommMemUnreg(endpoint, null_mut()));
    fails!(PTR, ["memHandle"], HcommMemExport(endpoint, null_mut(), to, size));
    fails!(PTR, ["memDesc"], HcommMemExport(endpoint, registered, null_mut(), size));
    fails!(PTR, ["memDescLen"], HcommMemExport(endpoint, registered, to, null_mut()));
    let exported = export(endpoint, registered);
    let from = exported.as_ptr().cast();
    fails!(PTR, ["endpointHandle"], HcommMemImport(null_mut(), from, 64, &mut found));
    fails!(PTR, ["memDesc"], HcommMemImport(endpoint, null(), 64, &mut found));
    fails!(PTR, ["outMem"], HcommMemImport(endpoint, from, 64, null_mut()));
    fails!(PARA, ["descLen is 63"], HcommMemImport(endpoint, from, 63, &mut found));
    fails!(PTR, ["memDesc"], HcommMemUnimport(endpoint, null(), 64));
    fails!(PARA, ["descLen is 65"], HcommMemUnimport(endpoint, from, 65));
}

#[test]
fn communication_memory_comes_in_steps_of_two_mebibytes() {
    let _block = block(950, 1);
    let usage = || {
        let (mut free, mut total) = (0, 0);
        ok!(aclrtGetMemInfo(aclrtMemAttr::ACL_HBM_MEM, &mut free, &mut total));
        free
    };
    let (before, mut memory) = (usage(), null_mut());
    hcomm!(HcommMemAlloc(&mut memory, 1));
    assert_eq!(before - usage(), 2 << 20);
    common::write(memory, &[7; 100]);
    assert_eq!(common::read(memory, 100), [7; 100]);
    hcomm!(HcommMemFree(memory));
    assert_eq!(usage(), before);
    hcomm!(HcommMemFree(null_mut()));
    fails!(PARA, ["freed already"], HcommMemFree(memory));
    let other = common::malloc(64);
    fails!(PARA, ["is not memory of HcommMemAlloc"], HcommMemFree(other));
    fails!(PARA, ["NULL"], HcommMemAlloc(null_mut(), 64));
    fails!(PARA, ["0"], HcommMemAlloc(&mut memory, 0));
    for size in [1 << 45, usize::MAX] {
        fails!(RUNTIME, ["out of memory"], HcommMemAlloc(&mut memory, size));
    }
}

#[test]
fn endpoints_end_with_their_block() {
    let block = block(3, 1);
    let endpoint = open(block.first, 0);
    drop(block);
    fails!(PARA, ["is gone"], HcommEndpointDestroy(endpoint));
}
