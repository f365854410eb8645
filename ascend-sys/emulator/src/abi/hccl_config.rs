//! Settings of the process, callbacks around the states of communicators, and spare network cards. CANN's `hccl_comm.h`.
#![allow(non_snake_case, reason = "CANN's names")]

use std::ffi::{c_char, c_void};
use std::sync::atomic::Ordering;

use ascend_sys::{
    Functions, HcclComm, HcclCommStateCallback, HcclConfig, HcclConfigValue, HcclResult,
};

use super::hccl_entry::{abi_entry, member, not_null, product_of_thread, text_of};
use crate::context;
use crate::fabric::hooks;
use crate::machine::Device;
use crate::message::{Failure, refuse};
use crate::profile::Product;

pub(super) fn fill(table: &mut Functions) {
    table.HcclSetConfig = Some(HcclSetConfig);
    table.HcclGetConfig = Some(HcclGetConfig);
    table.HcclCommRegCommStateCallback = Some(HcclCommRegCommStateCallback);
    table.HcclCommWorkingDevNicSet = Some(HcclCommWorkingDevNicSet);
}

/// The device that a setting of the process is about, where there are such settings.
fn device_with(setting: HcclConfig) -> Result<&'static Device, Failure> {
    let (_, device) = context::current_device()?;
    if device.product() == Product::Ascend950 {
        return refuse!(HCCL_E_NOT_SUPPORT, "{} has no settings of the process", device.product());
    }
    if setting != HcclConfig::HCCL_DETERMINISTIC {
        return refuse!(
            HCCL_E_PARA,
            "the setting {} is unknown; 0 (HCCL_DETERMINISTIC) is the only one",
            setting.0
        );
    }
    Ok(device)
}

unsafe extern "C" fn HcclSetConfig(setting: HcclConfig, value: HcclConfigValue) -> HcclResult {
    abi_entry("HcclSetConfig", || {
        let device = device_with(setting)?;
        // SAFETY: the union has one member only.
        let value = unsafe { value.value };
        match value {
            0 | 1 => {}
            2 if device.product() == Product::A2 => {}
            2 => {
                return refuse!(
                    HCCL_E_NOT_SUPPORT,
                    "the strict order (2) is for A2 only, and this is {}",
                    device.product()
                );
            }
            _ => return refuse!(HCCL_E_PARA, "HCCL_DETERMINISTIC is {value}; it is 0, 1 or 2"),
        }
        // The environment counts for more, where it describes the devices. Reductions are in the order of the ranks in any case.
        let is_default = device.block() == Some(0);
        if !is_default || std::env::var_os("HCCL_DETERMINISTIC").is_none() {
            device.deterministic.store(value, Ordering::Relaxed);
        }
        Ok(())
    })
}

unsafe extern "C" fn HcclGetConfig(setting: HcclConfig, value: *mut HcclConfigValue) -> HcclResult {
    abi_entry("HcclGetConfig", || {
        not_null(value, "configValue")?;
        let now = device_with(setting)?.deterministic.load(Ordering::Relaxed);
        // SAFETY: not null, so valid for a write by the C contract.
        unsafe { value.write(HcclConfigValue { value: now }) };
        Ok(())
    })
}

unsafe extern "C" fn HcclCommRegCommStateCallback(
    name: *const c_char,
    callback: HcclCommStateCallback,
    args: *mut c_void,
) -> HcclResult {
    abi_entry("HcclCommRegCommStateCallback", || {
        let product = product_of_thread();
        if product != Product::Ascend950 {
            return refuse!(
                HCCL_E_NOT_SUPPORT,
                "only Ascend 950 has these callbacks, not {product}"
            );
        }
        // SAFETY: null or NUL-terminated by the C contract.
        let name = unsafe { text_of(name, "regName") }?;
        let Some(callback) = callback else {
            return refuse!(HCCL_E_PTR, "the argument cb is NULL");
        };
        hooks::register(name, callback, args as usize)
    })
}

unsafe extern "C" fn HcclCommWorkingDevNicSet(
    comm: HcclComm,
    ranks: *mut u32,
    use_backup: *mut bool,
    count: u32,
) -> HcclResult {
    abi_entry("HcclCommWorkingDevNicSet", || {
        not_null(comm, "comm")?;
        not_null(ranks, "ranks")?;
        not_null(use_backup, "useBackup")?;
        let member = member(comm)?;
        // Elsewhere a success with a warning.
        if member.comm.product != Product::A3 {
            return Ok(());
        }
        // SAFETY: not null, so an array of `count` by the C contract.
        let ranks = unsafe { std::slice::from_raw_parts(ranks, count as usize) };
        let size = member.comm.ranks();
        match ranks.iter().find(|rank| **rank as usize >= size) {
            Some(rank) => {
                refuse!(
                    HCCL_E_PARA,
                    "ranks names rank {rank}, but the communicator has {size} ranks"
                )
            }
            // There are no network cards here that could fail.
            None => Ok(()),
        }
    })
}
