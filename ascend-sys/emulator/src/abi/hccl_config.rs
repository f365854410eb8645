//! The entries for settings of the process, callbacks for state changes of communicators, and spare
//! network cards, as in CANN's `hccl_comm.h`.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{CText, Handle, Out, Slice};
use super::entries::{Hccl, entries};
use std::ffi::c_void;
use std::sync::atomic::Ordering;

use ascend_sys::{HcclCommStateCallback, HcclConfig, HcclConfigValue};

use crate::context;
use crate::fabric::{Member, hooks};
use crate::machine::Device;
use crate::message::{Failure, refuse};
use crate::profile::Product;

entries! {
    Hccl;

    fn HcclSetConfig(setting: HcclConfig, value: HcclConfigValue) {
        let device = device_with(setting)?;
        // SAFETY: the union has one member only.
        let value = unsafe { value.value };
        match value {
            0 | 1 => {}
            2 if device.product() == Product::A2 => {}
            2 => {
                return refuse!(
                    HCCL_E_NOT_SUPPORT,
                    "the strict order (2) is only for A2, but this is {}; pass 0 or 1",
                    device.product()
                );
            }
            _ => return refuse!(
                HCCL_E_PARA,
                "HCCL_DETERMINISTIC is {value}; pass 0 or 1, or on A2 also 2"
            ),
        }
        // The environment variable has priority for the devices that the environment describes. In
        // any case, the emulator reduces in the order of the ranks.
        let is_default = device.block() == Some(0);
        if !is_default || std::env::var_os("HCCL_DETERMINISTIC").is_none() {
            device.deterministic.store(value, Ordering::Relaxed);
        }
        Ok(())
    }

    fn HcclGetConfig(setting: HcclConfig, value: Out<HcclConfigValue>) {
        let value = value.required("configValue")?;
        let now = device_with(setting)?.deterministic.load(Ordering::Relaxed);
        value.write(HcclConfigValue { value: now });
        Ok(())
    }

    fn HcclCommRegCommStateCallback(
        name: CText,
        callback: HcclCommStateCallback,
        args: *mut c_void,
    ) {
        let name = name.required("regName")?;
        let Some(callback) = callback else {
            return refuse!(HCCL_E_PTR, "the argument cb is NULL; pass a function");
        };
        hooks::register(name, callback, args as usize)
    }

    fn HcclCommWorkingDevNicSet(
        comm: Handle<Member>,
        ranks: Slice<u32, *mut u32>[count],
        use_backup: Out<bool>,
        count: u32,
    ) {
        comm.required("comm")?;
        let ranks = ranks.required("ranks")?;
        use_backup.required("useBackup")?;
        let member = comm.find()?;
        // On other products CANN succeeds with a warning.
        if member.comm.product != Product::A3 {
            return Ok(());
        }
        let size = member.comm.ranks();
        match ranks.iter().take(size + 1).find(|rank| **rank as usize >= size) {
            Some(rank) => {
                refuse!(
                    HCCL_E_PARA,
                    "ranks names rank {rank}, but the number of ranks of the communicator is \
                     {size}; pass ranks below that number"
                )
            }
            None if ranks.count() > size => {
                refuse!(
                    HCCL_E_PARA,
                    "nRanks is {count}, but the number of ranks of the communicator is {size}; \
                     pass at most that number"
                )
            }
            // The emulator has no network cards that could fail.
            None => Ok(()),
        }
    }
}

/// Returns the device for a setting of the process. Returns an error if the product does not have
/// the setting.
fn device_with(setting: HcclConfig) -> Result<&'static Device, Failure> {
    let (_, device) = context::current_device()?;
    if device.product() == Product::Ascend950 {
        return refuse!(
            HCCL_E_NOT_SUPPORT,
            "{} has no settings of the process; call this function only on A2 and A3",
            device.product()
        );
    }
    if setting != HcclConfig::HCCL_DETERMINISTIC {
        return refuse!(
            HCCL_E_PARA,
            "the setting {} is unknown; pass 0 (HCCL_DETERMINISTIC), the only setting",
            setting.0
        );
    }
    Ok(device)
}
