//! Tests of `aclrtReduceAsync`: its operators and types, its order in a stream and in graphs, and
//! wrong arguments.

use ascend_emulator_testing::common::*;
use ascend_emulator_testing::{fails, ok};
use ascend_sys::*;
use std::ffi::c_void;
use std::ptr::null_mut;

const SUM: aclrtReduceKind = aclrtReduceKind::ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM;
const MAX: aclrtReduceKind = aclrtReduceKind::ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX;
const MIN: aclrtReduceKind = aclrtReduceKind::ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN;
const FLOAT: aclDataType = aclDataType::ACL_FLOAT;

fn put<const N: usize>(to: *mut c_void, values: impl IntoIterator<Item = [u8; N]>) {
    write(to, &values.into_iter().flatten().collect::<Vec<u8>>());
}

#[test]
fn a_block_is_reduced_into_another_in_the_order_of_the_stream() {
    let _block = Block::one();
    const COUNT: usize = 50_000;
    let bytes = 4 * COUNT;
    let (dst, src, s, gate) = (malloc(bytes), malloc(bytes), stream(), Gate::new());
    put(dst, (0..COUNT).map(|i| (i as f32).to_ne_bytes()));
    put(src, (0..COUNT).map(|i| (-2.0 * i as f32).to_ne_bytes()));
    gate.close(s);
    ok!(aclrtReduceAsync(dst, src, bytes as u64, SUM, FLOAT, s, null_mut()));
    ok!(aclrtMemsetAsync(src, bytes, 0, bytes, s));
    assert!(!idle(s), "it waited for the stream");
    gate.open();
    ok!(aclrtSynchronizeStream(s));
    let found = read(dst, bytes);
    for (i, value) in found.as_chunks::<4>().0.iter().enumerate() {
        assert_eq!(f32::from_ne_bytes(*value), -(i as f32));
    }
}

#[test]
fn every_type_and_operator_has_its_result() {
    for product in [2, 3, 950] {
        let _block = Block::one_with(AscendExtBlockConfig { product, ..Block::config() });
        let (dst, src, s) = (malloc(64), malloc(64), stream());
        let reduced = |a: &[u8], b: &[u8], kind, type_| {
            write(dst, a);
            write(src, b);
            ok!(aclrtReduceAsync(dst, src, a.len() as u64, kind, type_, s, null_mut()));
            ok!(aclrtSynchronizeStream(s));
            read(dst, a.len())
        };
        let (int8, int16, int32) =
            (aclDataType::ACL_INT8, aclDataType::ACL_INT16, aclDataType::ACL_INT32);
        assert_eq!(reduced(&[1, 0xff], &[3, 5], SUM, int8), [4, 4]);
        assert_eq!(reduced(&[1, 0xff], &[3, 5], MAX, int8), [3, 5]);
        assert_eq!(reduced(&[1, 0xff], &[3, 5], MIN, int8), [1, 0xff]);
        let (a, b) = (300i16.to_ne_bytes(), (-7i16).to_ne_bytes());
        assert_eq!(reduced(&a, &b, MIN, int16), b);
        let (a, b) = (70_000i32.to_ne_bytes(), (-7i32).to_ne_bytes());
        assert_eq!(reduced(&a, &b, SUM, int32), 69_993i32.to_ne_bytes());
        // The sum is 1.5 + 2, first with float16 and then with bfloat16 numbers.
        let (half, brain) = (aclDataType::ACL_FLOAT16, aclDataType::ACL_BF16);
        let bits = |value: u16| value.to_ne_bytes();
        assert_eq!(reduced(&bits(0x3e00), &bits(0x4000), SUM, half), bits(0x4300));
        assert_eq!(reduced(&bits(0x3fc0), &bits(0x4000), SUM, brain), bits(0x4060));
        // Only one product reduces unsigned words.
        let words = aclDataType::ACL_UINT32;
        if product == 950 {
            let (a, b) = (0xffff_ff00u32.to_ne_bytes(), 0x11u32.to_ne_bytes());
            assert_eq!(reduced(&a, &b, SUM, words), 0xffff_ff11u32.to_ne_bytes());
            fails!(
                207000,
                ["by SUM only"],
                aclrtReduceAsync(dst, src, 4, MAX, words, s, null_mut())
            );
        } else {
            fails!(107000, ["type is 8"], aclrtReduceAsync(dst, src, 4, SUM, words, s, null_mut()));
        }
    }
}

#[test]
fn a_captured_reduction_is_done_at_each_execution() {
    let _block = Block::one();
    let (dst, src, s) = (malloc(4), malloc(4), stream());
    let int = aclDataType::ACL_INT32;
    put(dst, [1i32.to_ne_bytes()]);
    put(src, [10i32.to_ne_bytes()]);
    let mut graph = null_mut();
    ok!(aclmdlRICaptureBegin(s, aclmdlRICaptureMode::ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    ok!(aclrtReduceAsync(dst, src, 4, SUM, int, s, null_mut()));
    ok!(aclmdlRICaptureEnd(s, &mut graph));
    assert_eq!(read(dst, 4), 1i32.to_ne_bytes());
    for expected in [11i32, 21] {
        ok!(aclmdlRIExecuteAsync(graph, s));
        ok!(aclrtSynchronizeStream(s));
        assert_eq!(read(dst, 4), expected.to_ne_bytes());
    }
    ok!(aclmdlRIDestroy(graph));
}

#[test]
fn wrong_arguments_of_a_reduction_are_named() {
    let block = Block::with(AscendExtBlockConfig { deviceCount: 2, product: 2, ..Block::config() });
    ok!(aclrtSetDevice(block.first + 1));
    let other = malloc(64);
    ok!(aclrtSetDevice(block.first));
    let (a, b, s, no) = (malloc(64), malloc(64), stream(), null_mut());
    fails!(107000, ["NULL"], aclrtReduceAsync(null_mut(), b, 4, SUM, FLOAT, s, no));
    fails!(107000, ["NULL"], aclrtReduceAsync(a, null_mut(), 4, SUM, FLOAT, s, no));
    fails!(107000, ["count is 0"], aclrtReduceAsync(a, b, 0, SUM, FLOAT, s, no));
    fails!(107000, ["count is 6"], aclrtReduceAsync(a, b, 6, SUM, FLOAT, s, no));
    fails!(107000, ["beyond the end"], aclrtReduceAsync(a, b, 68, SUM, FLOAT, s, no));
    fails!(107000, ["dst: "], aclrtReduceAsync(a, b, u64::MAX - 3, SUM, FLOAT, s, no));
    fails!(107000, ["kind is 9"], aclrtReduceAsync(a, b, 4, aclrtReduceKind(9), FLOAT, s, no));
    let equal = aclrtReduceKind::ACL_RT_MEMCPY_SDMA_AUTOMATIC_EQUAL;
    fails!(207000, ["EQUAL"], aclrtReduceAsync(a, b, 4, equal, FLOAT, s, no));
    let double = aclDataType::ACL_DOUBLE;
    fails!(107000, ["type is 11"], aclrtReduceAsync(a, b, 8, SUM, double, s, no));
    let odd = a.wrapping_byte_add(2);
    fails!(
        ACL_ERROR_RT_ADDR_UNALIGNED,
        ["aligned to its elements of 4"],
        aclrtReduceAsync(odd, b, 4, SUM, FLOAT, s, no)
    );
    let host = malloc_host(64);
    fails!(107000, ["src is not device memory"], aclrtReduceAsync(a, host, 4, SUM, FLOAT, s, no));
    fails!(107000, ["dst is not device memory"], aclrtReduceAsync(host, a, 4, SUM, FLOAT, s, no));
    fails!(107000, ["no access between"], aclrtReduceAsync(other, a, 4, SUM, FLOAT, s, no));
    ok!(aclrtDeviceEnablePeerAccess(block.first + 1, 0));
    ok!(aclrtReduceAsync(other, a, 4, SUM, FLOAT, s, no));
    ok!(aclrtSynchronizeStream(s));
}
