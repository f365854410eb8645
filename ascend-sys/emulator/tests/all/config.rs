//! Configurations of communicators in every layout that CANN has had, and settings of the process.

use ascend_emulator_testing::common::Block;
use ascend_emulator_testing::ranks::{self, FP32, SUM, config, on_block, root_info};
use ascend_emulator_testing::{call, hccl, refuses};
use ascend_sys::*;
use std::ptr::null_mut;

fn one(product: u32) -> AscendExtBlockConfig {
    AscendExtBlockConfig { product, ..Block::config() }
}

/// The layouts of the struct: the version, the number of bytes, and whether the emulator reads an
/// algorithm from a struct with this layout.
const LAYOUTS: [(u32, usize, bool); 16] = [
    (1, 32, false),
    (2, 160, false),
    (3, 288, false),
    (4, 292, false),
    (5, 300, false),
    (6, 312, false),
    (7, 320, false),
    (7, 328, false),
    (8, 2104, true),
    (8, 448, false),
    (9, 2232, true),
    (10, 2232, true),
    (10, 2240, true),
    (11, 2248, true),
    // A client that leaves room for additions, and one of a future release.
    (10, 2248 + 4096, true),
    (12, 3000, true),
];

/// Returns bytes that hold the struct as a client of that version makes it, and the position of the
/// struct in them. The address of the struct is `align` bytes after a multiple of 8.
fn client(version: u32, size: usize, name: &str, align: usize) -> (Vec<u8>, usize) {
    let mut storage = vec![0u8; size + 16];
    let start = storage.as_ptr().align_offset(8) + align;
    let whole = config(name);
    // SAFETY: the struct is plain data, seen as its bytes.
    let whole: &[u8; size_of::<HcclCommConfig>()] = unsafe { &*(&raw const whole).cast() };
    let known = size.min(whole.len());
    let bytes = &mut storage[start..start + size];
    bytes[..known].copy_from_slice(&whole[..known]);
    bytes[..8].copy_from_slice(&(size as u64).to_ne_bytes());
    bytes[12..16].copy_from_slice(&version.to_ne_bytes());
    match (version, size) {
        // In these two versions, other fields are at this offset.
        (7, 328) => bytes[312..328].fill(0),
        (8, 448) => bytes[312..448].fill(0),
        _ if version >= 8 => bytes[320..329].copy_from_slice(b"level0:NA"),
        _ => {}
    }
    (storage, start)
}

#[test]
fn every_layout_makes_a_communicator() {
    for product in [2, 3, 950] {
        on_block(one(product), |rank| {
            for (number, (version, size, has_algorithm)) in LAYOUTS.into_iter().enumerate() {
                // Old versions are aligned to four bytes. The emulator must also accept an address
                // that is aligned to one byte only.
                for align in [0, 4, 1] {
                    let name = format!("layout-{number}-{align}");
                    let (storage, start) = client(version, size, &name, align);
                    let pointer = storage[start..].as_ptr().cast();
                    let info = root_info();
                    let mut comm = null_mut();
                    hccl!(HcclCommInitRootInfoConfig(1, &info, 0, pointer, &mut comm));
                    let found = ranks::name_of(comm);
                    match version {
                        1 => assert!(found.starts_with("127.0.0.1%"), "{found}"),
                        _ => assert_eq!(found, name, "version {version}, {size} bytes"),
                    }
                    let mut text = [1u8; 1600];
                    let kind = HcclConfigType::HCCL_CONFIG_TYPE_HCCL_ALGO;
                    hccl!(HcclConfigGetInfo(comm, kind, 1600, text.as_mut_ptr().cast()));
                    let expected: &[u8] = if has_algorithm { b"level0:NA\0" } else { b"\0" };
                    assert!(text.starts_with(expected), "version {version}, {size} bytes");
                    let _ = rank.rank;
                    hccl!(HcclCommDestroy(comm));
                }
            }
        });
    }
}

#[test]
fn expansion_modes_are_answered_in_the_numbers_of_the_other_enum() {
    on_block(one(3), |_| {
        for (given, answered) in [(0, 5), (1, 3), (2, 0), (3, 1), (4, 6), (5, 4), (6, 5), (7, 0)] {
            let mut config = config("");
            config.hcclOpExpansionMode = given;
            let (info, mut comm) = (root_info(), null_mut());
            hccl!(HcclCommInitRootInfoConfig(1, &info, 0, &config, &mut comm));
            let kind = HcclConfigType::HCCL_CONFIG_TYPE_OP_EXPANSION_MODE;
            let mut mode = 99u32;
            hccl!(HcclConfigGetInfo(comm, kind, 4, (&raw mut mode).cast()));
            assert_eq!(mode, answered, "{given}");
            let info = (&raw mut mode).cast();
            refuses!(HCCL_E_PARA, ["infoLen is 5"], HcclConfigGetInfo(comm, kind, 5, info));
            let algorithm = HcclConfigType::HCCL_CONFIG_TYPE_HCCL_ALGO;
            refuses!(
                HCCL_E_PARA,
                ["infoLen is 1599"],
                HcclConfigGetInfo(comm, algorithm, 1599, info)
            );
            refuses!(HCCL_E_PTR, ["info"], HcclConfigGetInfo(comm, kind, 4, null_mut()));
            refuses!(HCCL_E_PTR, ["comm"], HcclConfigGetInfo(null_mut(), kind, 4, info));
            hccl!(HcclCommDestroy(comm));
        }
    });
}

#[test]
fn vector_cores_alone_have_no_algorithm_for_a_single_rank_on_950() {
    let cases = [
        (950, 1, 4, true),
        (950, 1, 3, false),
        (950, 2, 4, false),
        (2, 1, 4, false),
        (3, 1, 4, false),
    ];
    for (product, ranks, mode, refused) in cases {
        on_block(AscendExtBlockConfig { deviceCount: ranks, ..one(product) }, |rank| {
            let (mut config, mut comm) = (config("alone"), null_mut());
            config.hcclOpExpansionMode = mode;
            hccl!(HcclCommInitRootInfoConfig(ranks, &rank.info, rank.rank, &config, &mut comm));
            let buffer = rank.upload(&[0; 16]);
            let other = rank.upload(&[0; 16]);
            let (counts, places) = (vec![4 / u64::from(ranks); ranks as usize], [0u64, 2]);
            let (lists, own) = ((counts.as_ptr().cast(), places.as_ptr().cast()), counts[0]);
            let stream = rank.stream;
            if refused {
                let why = ["vector cores only", "3 (AIV)"];
                refuses!(
                    HCCL_E_NOT_SUPPORT,
                    [why[0], why[1]],
                    HcclAllReduce(buffer, buffer, 4, FP32, SUM, comm, stream)
                );
                refuses!(
                    HCCL_E_NOT_SUPPORT,
                    [why[0], why[1]],
                    HcclReduceScatter(buffer, other, own, FP32, SUM, comm, stream)
                );
                refuses!(
                    HCCL_E_NOT_SUPPORT,
                    [why[0], why[1]],
                    HcclAllGatherV(buffer, own, other, lists.0, lists.1, FP32, comm, stream)
                );
            } else {
                hccl!(HcclAllReduce(buffer, buffer, 4, FP32, SUM, comm, stream));
                hccl!(HcclReduceScatter(buffer, other, own, FP32, SUM, comm, stream));
                hccl!(HcclAllGatherV(buffer, own, other, lists.0, lists.1, FP32, comm, stream));
            }
            // The call has nothing to do, so it needs no algorithm.
            hccl!(HcclAllReduce(buffer, buffer, 0, FP32, SUM, comm, rank.stream));
            rank.sync();
            hccl!(HcclCommDestroy(comm));
        });
    }
}

#[test]
fn determinism_is_a_setting_of_the_device() {
    const WHAT: HcclConfig = HcclConfig::HCCL_DETERMINISTIC;
    let value = |value| HcclConfigValue { value };
    for (product, strict) in [(2, true), (3, false)] {
        on_block(one(product), |_| {
            let mut now = value(99);
            let mut read = || {
                hccl!(HcclGetConfig(WHAT, &mut now));
                // SAFETY: the union has only one member.
                unsafe { now.value }
            };
            assert_eq!(read(), 0);
            hccl!(HcclSetConfig(WHAT, value(1)));
            assert_eq!(read(), 1);
            refuses!(
                HCCL_E_PARA,
                ["3", "pass 0 or 1, or on A2 also 2"],
                HcclSetConfig(WHAT, value(3))
            );
            refuses!(HCCL_E_PARA, ["-1"], HcclSetConfig(WHAT, value(-1)));
            let other = HcclConfig(1);
            refuses!(HCCL_E_PARA, ["setting 1"], HcclSetConfig(other, value(0)));
            if strict {
                hccl!(HcclSetConfig(WHAT, value(2)));
                assert_eq!(read(), 2);
            } else {
                refuses!(HCCL_E_NOT_SUPPORT, ["only for A2"], HcclSetConfig(WHAT, value(2)));
                assert_eq!(read(), 1);
            }
            refuses!(HCCL_E_PTR, ["configValue"], HcclGetConfig(WHAT, null_mut()));
            refuses!(HCCL_E_PARA, ["setting 7"], HcclGetConfig(HcclConfig(7), &mut value(0)));
        });
    }
    on_block(one(950), |_| {
        refuses!(HCCL_E_NOT_SUPPORT, ["Ascend 950"], HcclSetConfig(WHAT, value(1)));
        refuses!(HCCL_E_NOT_SUPPORT, ["Ascend 950"], HcclGetConfig(WHAT, &mut value(0)));
    });
}

#[test]
fn capabilities_are_counted_by_product() {
    for (product, capability) in [(2, 12), (3, 12), (950, 10)] {
        on_block(one(product), |_| assert_eq!(call!(HcclGetCommConfigCapability()), capability));
    }
}
