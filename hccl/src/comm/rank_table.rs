//! Making communicators from rank tables: files that list the server and the device of each rank.

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
    /// Makes the communicator of all ranks in a rank table. `rank` is the number of this rank in
    /// the table.
    ///
    /// `table` is the path of a file in CANN's format: version 1.0 (A2, A3), 1.2 (A3) or 2.0
    /// (Ascend 950). The table must contain `rank`, with `device` as its device. The emulator
    /// accepts only tables with one server, because several servers are several machines.
    ///
    /// In the emulator, ranks meet if their tables have the same contents and their processes
    /// belong to one user. The ranks may be threads of one process or processes of one machine. The
    /// emulator uses no field of a table as an address. So two jobs on one machine need tables that
    /// differ, for example in `server_id`.
    ///
    /// Returns a future at once: see [`Pending`]. The communicator is ready when all ranks have
    /// called this. A device can be in only one communicator of a rank table at a time. A dropped
    /// communicator counts until its operations are complete, so wait for them before you make the
    /// next one. CANN: `HcclCommInitClusterInfoConfig`.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] for a mistake that is found before CANN is called. Its cause is
    /// [`Error::Config`] for a setting that CANN would reject or ignore, and [`Error::Invalid`] for
    /// a path that contains a NUL byte. Otherwise [`Error::Call`] with one of these codes:
    ///
    /// * `HCCL_E_INTERNAL` if the file cannot be read.
    /// * `HCCL_E_PARA` if a field is wrong or missing. The emulator names the field.
    /// * `HCCL_E_UNAVAIL` if the device is already in a communicator of a rank table.
    /// * `HCCL_E_TIMEOUT` if ranks are missing ([`Error::missing_ranks`]).
    /// * `HCCL_E_REMOTE` if a rank is gone ([`Error::gone_ranks`]) or the ranks cannot meet.
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
    /// # // Another process may run this example at the same time.
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
                problem: "the path of the rank table has a NUL: pass a path without NUL bytes"
                    .into(),
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
