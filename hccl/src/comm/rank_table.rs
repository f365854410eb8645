//! How communicators are made of rank tables: files that say which rank is on which device of which server.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ascend_sys::{HcclComm, HcclCommConfig};

use super::build::{WORLD, attempt};
use super::handle::Origin;
use super::{CommConfig, Communicator, making};
use crate::api::call;
use crate::device::Device;
use crate::error::{Error, OpContext, Result};
use crate::pending::Pending;

const FROM_RANK_TABLE: &str = "Communicator::from_rank_table";

impl Communicator {
    /// The communicator of all ranks in a rank table, of which this one is `rank`.
    ///
    /// `table` is the path of a file in CANN's format: version 1.0 (A2, A3), 1.2 (A3) or 2.0 (Ascend 950). The rank must be in it, and
    /// `device` be the rank's device there; on the emulator only where all are of one server, since the devices of several servers are
    /// those of several machines. Ranks of the emulator meet when their tables say the same; nothing in a table is used as an address.
    ///
    /// Returns at once; what it returns is a future of the communicator, which is there when all ranks have called this: see
    /// [`Pending`]. A device is in one communicator of a rank table at a time. CANN: `HcclCommInitClusterInfoConfig`.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for a setting that CANN would refuse or ignore, [`Error::Call`] with `HCCL_E_INTERNAL` for a file that cannot be
    /// read, `HCCL_E_PARA` for a field that is wrong or missing, which the emulator names, `HCCL_E_UNAVAIL` for a device that is in
    /// such a communicator already, `HCCL_E_TIMEOUT` when ranks are missing.
    ///
    /// ```
    /// use hccl::prelude::*;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let table = std::env::temp_dir().join(format!("ranks-{}.json", std::process::id()));
    /// std::fs::write(
    ///     &table,
    ///     r#"{
    ///         "version": "1.0", "status": "completed", "server_count": "1",
    ///         "server_list": [{"server_id": "here", "device": [
    ///             {"device_id": "0", "rank_id": "0"},
    ///             {"device_id": "1", "rank_id": "1"}
    ///         ]}]
    ///     }"#,
    /// )?;
    /// let runtime = Runtime::emulator(2)?;
    /// let ranks = [0, 1].map(|rank: u32| {
    ///     let device = runtime.device(rank as usize).unwrap();
    ///     Communicator::from_rank_table(&device, &table, rank, CommConfig::default())
    /// });
    /// for (rank, comm) in ranks.into_iter().enumerate() {
    ///     let comm = comm.wait()?;
    ///     assert_eq!((comm.rank(), comm.world_size()), (rank as u32, 2));
    /// }
    /// # std::fs::remove_file(&table)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_rank_table(
        device: &Device,
        table: impl AsRef<Path>,
        rank: u32,
        config: CommConfig,
    ) -> Pending<Self> {
        match TableJoin::check(device, table.as_ref(), rank, &config) {
            Ok(join) => Pending::begin(FROM_RANK_TABLE, device, move || join.make()),
            Err(cause) => {
                let title = config.name().unwrap_or(WORLD).into();
                let context =
                    OpContext { communicator: Some(title), ..making(FROM_RANK_TABLE, Some(rank)) };
                let (context, cause) = (Box::new(context), Box::new(cause));
                Pending::ready(Err(Error::Refused { context, cause }))
            }
        }
    }
}

/// A rank of a table, with its settings checked.
struct TableJoin {
    device: Device,
    path: CString,
    rank: u32,
    title: String,
    config: HcclCommConfig,
    exec_seconds: Option<u32>,
}

impl TableJoin {
    fn check(device: &Device, table: &Path, rank: u32, config: &CommConfig) -> Result<Self> {
        let path = CString::new(table.as_os_str().as_bytes()).map_err(|_| Error::Invalid {
            operation: FROM_RANK_TABLE,
            problem: "the path of the rank table has a NUL".into(),
        })?;
        Ok(TableJoin {
            device: device.clone(),
            path,
            rank,
            title: config.name().unwrap_or(WORLD).to_owned(),
            exec_seconds: config.exec_seconds(),
            config: config.clone().to_raw(device.runtime().product())?,
        })
    }

    /// Blocks until all ranks have come.
    fn make(self) -> Result<Communicator> {
        let Self { device, path, rank, title, mut config, exec_seconds } = self;
        let table = device.table();
        // One that was dropped may still have the name, or be the one that the device is in.
        device.reap();
        let _bound = device.bind()?;
        let (mut raw, mut world_size): (HcclComm, _) = (std::ptr::null_mut(), 0);
        // SAFETY: the path ends with a NUL; it, the structure and the out parameters are live for the calls, which keep none of them.
        unsafe {
            call!(table, HcclCommInitClusterInfoConfig, path.as_ptr(), rank, &mut config, &mut raw)
                .and_then(|()| call!(table, HcclGetRankSize, raw, &mut world_size))
        }
        .map_err(|error| {
            error.in_operation(|| OpContext {
                communicator: Some(title.as_str().into()),
                peers: attempt(table),
                ..making(FROM_RANK_TABLE, Some(rank))
            })
        })?;
        // SAFETY: CANN has just made it for this device, and nobody else knows it.
        let mut communicator = unsafe {
            let place = (rank, world_size);
            let title = Some(title);
            Communicator::from_parts(FROM_RANK_TABLE, raw, &device, place, title, Origin::Own)
        }?;
        if let Some(seconds) = exec_seconds {
            communicator.member.exec_seconds = seconds;
        }
        Ok(communicator)
    }
}
