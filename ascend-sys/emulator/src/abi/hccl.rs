//! The entries of HCCL that need no communicator.
#![allow(non_snake_case, reason = "CANN's names")]

use std::ffi::{CStr, c_char};

use ascend_sys::{Functions, HcclResult};

use super::hccl_entry::product_of_thread;
use crate::profile::Product;

pub(super) fn fill(table: &mut Functions) {
    table.HcclGetErrorString = Some(HcclGetErrorString);
    table.HcclGetCommConfigCapability = Some(HcclGetCommConfigCapability);
}

unsafe extern "C" fn HcclGetErrorString(code: HcclResult) -> *const c_char {
    let text: &CStr = match code.0 {
        0 => c"no error",
        1 => c"parameter error",
        2 => c"empty pointer",
        3 => c"memory error",
        4 => c"internal error",
        5 => c"not support feature",
        6 => c"not found specific resource",
        7 => c"resource unavailable",
        8 => c"call system interface error",
        9 => c"timeout",
        10 => c"open file fail",
        11 => c"tcp connect fail",
        12 => c"roce connect fail",
        13 => c"tcp transfer fail",
        14 => c"roce transfer fail",
        15 => c"call runtime api fail",
        16 => c"call driver api fail",
        17 => c"call profiling api fail",
        18 => c"call cce api fail",
        19 => c"call network api fail",
        20 => c"try again",
        21 => c"error cqe",
        22 => c"error communicator suspending",
        23 => c"retry constraint",
        24 => c"out of memory",
        25..=1041 => c"unknown err",
        _ => c"unknown error",
    };
    text.as_ptr()
}

unsafe extern "C" fn HcclGetCommConfigCapability() -> u32 {
    match product_of_thread() {
        Product::A2 | Product::A3 => 12,
        Product::Ascend950 => 10,
    }
}
