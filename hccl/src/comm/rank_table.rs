//! Making communicators from rank tables: files that say which rank is on which device of which
//! server.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::build::{Join, Meets, WORLD, refused};
use super::{CommConfig, Communicator};
use crate::device::Device;
use crate::error::Error;
use crate::pending::Pending;

const FROM_RANK_TABLE: &str = "Communicator::from_rank_table";

impl Communicator {
    /// Makes the communicator of all ranks in a rank table, in which this one is `rank`.
    ///
    /// `table` is the path of a file in CANN's format: version 1.0 (A2, A3), 1.2 (A3) or 2.0
    /// (Ascend 950). The rank must be in it, and `device` be the rank's device there. The emulator
    /// takes only tables of one server, since the devices of several servers are those of several
    /// machines.
    ///
    /// Ranks of the emulator meet when their tables say the same and their processes are of one
    /// user, be they threads of one process or processes of one machine. Nothing in a table is used
    /// as an address. So two jobs on one machine need tables that differ, for instance in
    /// `server_id`.
    ///
    /// Returns at once, with a future of the communicator, which is there when all ranks have
    /// called this: see [`Pending`]. A device is in one communicator of a rank table at a time; one
    /// that was dropped counts until its operations are complete, so wait for these first.
    /// CANN: `HcclCommInitClusterInfoConfig`.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for a setting that CANN would refuse or ignore, [`Error::Call`] with
    /// `HCCL_E_INTERNAL` for a file that cannot be read, `HCCL_E_PARA` for a field that is wrong or
    /// missing, which the emulator names, `HCCL_E_UNAVAIL` for a device that is in such a
    /// communicator already, `HCCL_E_TIMEOUT` when ranks are missing ([`Error::missing_ranks`]),
    /// `HCCL_E_REMOTE` when one is gone ([`Error::gone_ranks`]) or the ranks cannot meet.
    ///
    /// ```
    /// use hccl::prelude::*;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let table = std::env::temp_dir().join(format!("ranks-{}.json", std::process::id()));
    /// let text = r#"{
    ///     "version": "1.0", "status": "completed", "server_count": "1",
    ///     "server_list": [{"server_id": "this-job", "device": [
    ///         {"device_id": "0", "rank_id": "0"},
    ///         {"device_id": "1", "rank_id": "1"}
    ///     ]}]
    /// }"#;
    /// # // Nor with another process that runs this example.
    /// # let text = text.replace("this-job", &format!("job-{}", std::process::id()));
    /// std::fs::write(&table, text)?;
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
        let path = CString::new(table.as_ref().as_os_str().as_bytes());
        let title = config.name().unwrap_or(WORLD).to_owned();
        let join = path
            .map_err(|_| Error::Invalid {
                operation: FROM_RANK_TABLE,
                problem: "the path of the rank table has a NUL".into(),
            })
            .and_then(|path| {
                let meets = Meets::RankTable(path);
                Join::new(FROM_RANK_TABLE, device.clone(), rank, meets, config)
            });
        match join {
            Ok(join) => Pending::begin(FROM_RANK_TABLE, device, move || join.make()),
            Err(cause) => {
                Pending::ready(Err(refused(FROM_RANK_TABLE, &title, (rank, None), cause)))
            }
        }
    }
}
