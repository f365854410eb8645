//! All functions of HCCL, and those that need no communicator.
#![allow(non_snake_case, reason = "CANN's names")]

use std::ffi::{CStr, c_char};

use ascend_sys::{Functions, HcclResult};

use super::hccl_entry::product_of_thread;
use super::{
    hccl_batch, hccl_channel, hccl_channel_config, hccl_comm, hccl_config, hccl_engine_ctx,
    hccl_group, hccl_kernel, hccl_messages, hccl_ops, hccl_rank_graph, hccl_state, hccl_tables,
    hccl_team, hccl_thread, hccl_thread_export, hcomm_channel, hcomm_endpoint, hcomm_mode,
    hcomm_nbi, hcomm_notify, hcomm_task_cache, hcomm_thread, hcomm_transfer,
};
use crate::profile::Product;

/// Puts the functions of HCCL into a table.
pub(crate) fn fill(table: &mut Functions) {
    table.HcclGetErrorString = Some(HcclGetErrorString);
    table.HcclGetCommConfigCapability = Some(HcclGetCommConfigCapability);
    hccl_comm::fill(table);
    hccl_config::fill(table);
    hccl_group::fill(table);
    hccl_state::fill(table);
    hccl_ops::fill(table);
    hccl_tables::fill(table);
    hccl_batch::fill(table);
    hccl_messages::fill(table);
    hccl_kernel::fill(table);
    hccl_engine_ctx::fill(table);
    hccl_rank_graph::fill(table);
    hcomm_endpoint::fill(table);
    hccl_thread::fill(table);
    hccl_channel::fill(table);
    hcomm_transfer::fill(table);
    hcomm_notify::fill(table);
    hccl_team::fill(table);
    hccl_thread_export::fill(table);
    hcomm_channel::fill(table);
    hcomm_mode::fill(table);
    hcomm_nbi::fill(table);
    hcomm_thread::fill(table);
    hcomm_task_cache::fill(table);
    hccl_channel_config::fill(table);
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
