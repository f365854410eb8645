//! The mistakes of one device and its runtime. Those of single ranks and of several are in
//! submodules.

mod calls;
mod peers;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ascend_emulator_testing::barrier::Barrier;
use ascend_sys::{Api, Functions};
use hccl::dtype::{DType, ReduceKind};
use hccl::prelude::*;
use hccl::{Error, Result};

/// A mistake, and the error text of each rank or call.
type Told = (&'static str, Vec<(String, String)>);

pub fn all() -> Vec<Told> {
    let mut told = Vec::new();
    told.extend(of_one_device());
    told.extend(of_types());
    told.extend(of_foreign_memory());
    told.extend(calls::of_calls());
    told.extend(calls::of_counts());
    told.extend(calls::of_batches());
    told.extend(calls::of_groups());
    told.extend(peers::between_ranks());
    told.extend(peers::of_absence());
    told.extend(peers::of_runs());
    told.extend(of_failures());
    told.extend(of_runtimes());
    told
}

fn one(mistake: &'static str, error: impl Into<Error>) -> Told {
    (mistake, vec![("-".into(), error.into().to_string())])
}

/// The limit of a wait, which is long enough for every rank that comes at all.
const PATIENCE: Duration = Duration::from_secs(1);

fn impatient(devices: usize) -> Runtime {
    let builder = Runtime::emulator_builder().devices(devices).memory(64 << 20);
    builder.connect_timeout(PATIENCE).exec_timeout(PATIENCE).build().unwrap()
}

fn patient(devices: usize) -> Runtime {
    Runtime::emulator_builder().devices(devices).memory(64 << 20).build().unwrap()
}

/// One rank of a communicator called "world", without the functions that run ranks.
struct Member {
    comm: Communicator,
    stream: Stream,
    device: Device,
    everyone: Arc<Barrier>,
    /// The number of other ranks that are ready. Rank 1 waits for all of them.
    ahead: Arc<AtomicU32>,
}

impl Member {
    fn rank(&self) -> u32 {
        self.comm.rank()
    }

    /// Waits on rank 1 until all other ranks wait in their operation, so that every text has all
    /// sides. Each rank calls this before it acts.
    fn let_rank_1_be_last(&self) {
        if self.rank() != 1 {
            self.ahead.fetch_add(1, Ordering::SeqCst);
            return;
        }
        while self.ahead.load(Ordering::SeqCst) < self.comm.world_size() - 1 {
            std::thread::sleep(Duration::from_millis(1));
        }
        ascend_emulator_testing::threads::until_asleep(&[std::process::id()], 5);
    }

    fn floats(&self, count: usize) -> DeviceBuffer<f32> {
        self.device.zeros(count, &self.stream).unwrap()
    }
}

/// Makes a communicator of all devices, and runs the ranks to their ends. Returns the errors that
/// they get.
fn ranks(
    mistake: &'static str,
    runtime: &Runtime,
    run: impl Fn(&mut Member) -> Result<()> + Sync,
) -> Told {
    let root = RootInfo::new(&runtime.device(0).unwrap()).unwrap();
    let size = runtime.device_count() as u32;
    let everyone = Arc::new(Barrier::new(size as usize));
    let ahead = Arc::new(AtomicU32::new(0));
    let told = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for rank in 0..size {
            let (run, root, told) = (&run, &root, &told);
            let (everyone, ahead) = (Arc::clone(&everyone), Arc::clone(&ahead));
            scope.spawn(move || {
                let device = runtime.device(rank as usize).unwrap();
                let comm = Communicator::builder()
                    .device(&device)
                    .rank(rank)
                    .world_size(size)
                    .root_info(root)
                    .config(CommConfig::builder().name("world").build())
                    .build()
                    .wait()
                    .unwrap();
                let stream = device.stream().unwrap();
                let mut member = Member { comm, stream, device, everyone, ahead };
                if let Err(error) = run(&mut member) {
                    told.lock().unwrap().push((format!("- rank {rank}"), error.to_string()));
                }
                // All ranks stay until here, so that no rank that leaves hides another error.
                member.everyone.wait();
            });
        }
    });
    let mut told = told.into_inner().unwrap();
    told.sort();
    (mistake, told)
}

/// Runs ranks like [`ranks`], after the links have been made, and waits for the work of each.
fn later(
    mistake: &'static str,
    runtime: &Runtime,
    run: impl Fn(&mut Member) -> Result<Work> + Sync,
) -> Told {
    ranks(mistake, runtime, |member| {
        member.comm.barrier(&member.stream)?.wait()?;
        member.everyone.wait();
        let work = run(member);
        // With this barrier the stream fails, and not the call of the rank that comes last.
        member.everyone.wait();
        work?.wait()
    })
}

fn of_one_device() -> Vec<Told> {
    let runtime = patient(2);
    let (device, other) = (runtime.device(0).unwrap(), runtime.device(1).unwrap());
    let stream = device.stream().unwrap();
    let mut four = device.zeros::<f32>(4, &stream).unwrap();
    let five = device.zeros::<f32>(5, &stream).unwrap();
    let elsewhere = other.stream().unwrap();
    let foreign = patient(1).device(0).unwrap().stream().unwrap();
    let mut host = runtime.host_buffer::<f32>(5).unwrap();
    vec![
        one(
            "a copy between buffers of different lengths",
            four.copy_from(&five, &stream).unwrap_err(),
        ),
        one("an upload of too many elements", four.upload(&[0.0; 5], &stream).unwrap_err()),
        one(
            "a copy to pinned memory of another length",
            four.copy_to(&mut host, &stream).unwrap_err(),
        ),
        one("an array of another size", four.to_array((2, 3), &stream).wait().unwrap_err()),
        one("a range outside a buffer", four.slice(2..7).unwrap_err()),
        one("pieces of no elements", four.slice_mut(..).unwrap().chunks_mut(0).err().unwrap()),
        one("a buffer of another device", four.fill_zero(&elsewhere).unwrap_err()),
        one("a buffer of another runtime", four.fill_zero(&foreign).unwrap_err()),
        one(
            "an event of another device",
            elsewhere.wait_event(&stream.record().unwrap()).unwrap_err(),
        ),
        one(
            "more bytes than there are addresses",
            device.alloc::<f64>(usize::MAX / 2).unwrap_err(),
        ),
        one("more memory than the device has", device.alloc::<u8>(1 << 40).unwrap_err()),
        one(
            "more pinned memory than the host has",
            runtime.host_buffer::<u8>(1 << 46).unwrap_err(),
        ),
    ]
}

fn of_types() -> Vec<Told> {
    let runtime = patient(1);
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let root = RootInfo::new(&device).unwrap();
    let config = CommConfig::builder().name("alone").build();
    let building = Communicator::builder().device(&device).rank(0).world_size(1);
    let mut comm = building.root_info(&root).config(config).build().wait().unwrap();
    let x = device.zeros::<f32>(64, &stream).unwrap();
    let mut bytes = device.dynamic_zeros(DType::U8, 64, &stream).unwrap();
    let gathered = comm.dynamic().all_gather(&x, &mut bytes, &stream).unwrap_err();
    let summed = comm.dynamic().all_reduce_in_place(&mut bytes, ReduceKind::Sum, &stream);
    vec![
        one("a gather into elements of another type", gathered),
        one("a sum of a type that no product reduces", summed.unwrap_err()),
        one("elements that are asked for by another type", bytes.typed::<i8>().unwrap_err()),
    ]
}

fn of_foreign_memory() -> Vec<Told> {
    let runtime = patient(2);
    let (device, other) = (runtime.device(0).unwrap(), runtime.device(1).unwrap());
    let stream = device.stream().unwrap();
    let x = device.zeros::<f32>(64, &stream).unwrap();
    let elsewhere = other.zeros::<f32>(64, &other.stream().unwrap()).unwrap();
    let freed = device.zeros::<f32>(64, &stream).unwrap().as_ptr();
    stream.synchronize().unwrap();
    let mut host = [0.0_f32; 64];
    let raw = |pointer, len| {
        // SAFETY: the emulator treats a device address as a number. It refuses these addresses,
        // which is what the test checks.
        unsafe { DeviceBuffer::<f32>::from_raw(&device, pointer, len) }
    };
    let mut all = raw(x.as_ptr(), 64).unwrap();
    let half = raw(x.as_ptr().wrapping_byte_add(128), 32).unwrap();
    let overlap = all.slice_mut(16..48).unwrap().copy_from(&half, &stream).unwrap_err();
    let alone = || {
        let builder = Communicator::builder().device(&device).rank(0).world_size(1);
        let config = CommConfig::builder().name("alone").build();
        builder.root_info(&RootInfo::new(&device)?).config(config).build().wait()
    };
    let mut quarter = raw(x.as_ptr().wrapping_byte_add(64), 32).unwrap();
    let apart = alone().unwrap().all_reduce(&half, &mut quarter, Sum, &stream).unwrap_err();
    let mut comm = alone().unwrap();
    let into_itself =
        comm.batch().send(&half, 0).recv(&mut quarter, 0).submit(&stream).unwrap_err();
    drop(comm);
    let sum = |pointer: *mut std::ffi::c_void, len| {
        alone()?.all_reduce_in_place(&mut raw(pointer, len)?, Sum, &stream).map(drop)
    };
    vec![
        one("a copy onto itself", overlap),
        one("a sum of memory into itself", apart),
        one("a batch that receives where it sends", into_itself),
        one("a sum in freed memory", sum(freed, 64).unwrap_err()),
        one("a sum beyond the end of an allocation", sum(x.as_ptr(), 1000).unwrap_err()),
        one("a sum in host memory", sum(host.as_mut_ptr().cast(), 64).unwrap_err()),
        one("a sum in memory of another device", sum(elsewhere.as_ptr(), 64).unwrap_err()),
        one("a sum of too many elements", sum(x.as_ptr(), 1 << 36).unwrap_err()),
        one("a fill of freed memory", raw(freed, 64).unwrap().fill_zero(&stream).unwrap_err()),
        one("a null pointer as memory", raw(std::ptr::null_mut(), 64).map(drop).unwrap_err()),
    ]
}

fn of_failures() -> Vec<Told> {
    let runtime = patient(1);
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let mut told = Vec::new();
    told.push(one(
        "a closure that panics",
        stream.host_fn(|| panic!("index 5 is out of bounds")).unwrap().wait().unwrap_err(),
    ));
    // The gate keeps all works from failing before all are issued. Otherwise the next operation
    // could report the failure.
    let (go, gate) = std::sync::mpsc::channel::<()>();
    stream.host_fn(move || _ = gate.recv()).unwrap();
    let works: Vec<Work> =
        (0..100).map(|i| stream.host_fn(move || panic!("number {i}")).unwrap()).collect();
    drop(go);
    let _ = stream.synchronize();
    told.push(one("a failure whose details are gone", works[0].wait().unwrap_err()));
    told
}

fn of_runtimes() -> Vec<Told> {
    let mut told = vec![
        one("no devices", Runtime::emulator(0).unwrap_err()),
        one("a device that does not exist", patient(2).device(2).unwrap_err()),
        one("a directory without CANN", Runtime::load_from("/nowhere").unwrap_err()),
    ];
    let long = Runtime::emulator_builder().devices(1).connect_timeout(Duration::MAX).build();
    told.push(one("a time limit that is too long", long.unwrap_err()));
    let of_table = |table| {
        // SAFETY: the remaining functions of the emulator's table do what CANN documents.
        Runtime::from_api(unsafe { Api::from_table(table) }).unwrap()
    };
    let lacking = of_table(Functions { HcclCommInitAll: None, ..ascend_emulator::table() });
    let made = Communicator::init_all(&[lacking.device(0).unwrap()]).wait();
    told.push(one("a function that the backend lacks", made.unwrap_err()));
    let lacking = of_table(Functions { HcclCommResume: None, ..ascend_emulator::table() });
    let other = Runtime::emulator_builder().devices(1).product(hccl::Product::Ascend950);
    let other = other.memory(64 << 20).build().unwrap();
    // The names of these communicators contain numbers.
    let mut named = |mistake, error: Error, name: &str| {
        told.push((mistake, vec![("-".into(), error.to_string().replace(name, "world"))]));
    };
    let alone = |runtime: &Runtime| {
        Communicator::init_all(&[runtime.device(0).unwrap()]).wait().unwrap().remove(0)
    };
    let refused = alone(&other).suspend().unwrap_err();
    named("a suspension on a product that has none", refused.error, refused.communicator.name());
    let refused = alone(&lacking).suspend().unwrap().resume().unwrap_err();
    named("a backend that does not resume", refused.error, refused.communicator.name());
    told
}
