//! The mistakes.

use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use ascend_sys::{Api, Functions};
use hccl::comm::Deterministic;
use hccl::prelude::*;
use hccl::{Error, Result};

/// What was done wrong, and who was told what.
type Told = (&'static str, Vec<(String, String)>);

pub fn all() -> Vec<Told> {
    let mut told = Vec::new();
    told.extend(of_one_device());
    told.extend(of_foreign_memory());
    told.extend(of_calls());
    told.extend(of_counts());
    told.extend(of_batches());
    told.extend(of_groups());
    told.extend(between_ranks());
    told.extend(of_absence());
    told.extend(of_runs());
    told.extend(of_failures());
    told.extend(of_runtimes());
    told
}

fn one(mistake: &'static str, error: impl Into<Error>) -> Told {
    (mistake, vec![("-".into(), error.into().to_string())])
}

/// Long enough for everyone to come who means to.
const PATIENCE: Duration = Duration::from_secs(1);

fn impatient(devices: usize) -> Runtime {
    let builder = Runtime::emulator_builder().devices(devices).memory(64 << 20);
    builder.connect_timeout(PATIENCE).exec_timeout(PATIENCE).build().unwrap()
}

fn patient(devices: usize) -> Runtime {
    Runtime::emulator_builder().devices(devices).memory(64 << 20).build().unwrap()
}

/// One rank of a communicator called "world", without the help of a run.
struct Member {
    comm: Communicator,
    stream: Stream,
    device: Device,
    everyone: Arc<Barrier>,
}

impl Member {
    fn rank(&self) -> u32 {
        self.comm.rank()
    }

    fn floats(&self, count: usize) -> DeviceBuffer<f32> {
        self.device.zeros(count, &self.stream).unwrap()
    }
}

/// Makes a communicator of all devices and runs the ranks to their ends. What they are told comes back.
fn ranks(
    mistake: &'static str,
    runtime: &Runtime,
    run: impl Fn(&mut Member) -> Result<()> + Sync,
) -> Told {
    let root = RootInfo::new(&runtime.device(0).unwrap()).unwrap();
    let size = runtime.device_count() as u32;
    let everyone = Arc::new(Barrier::new(size as usize));
    let told = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for rank in 0..size {
            let (run, root, told, everyone) = (&run, &root, &told, Arc::clone(&everyone));
            scope.spawn(move || {
                let device = runtime.device(rank as usize).unwrap();
                let comm = Communicator::builder()
                    .device(&device)
                    .rank(rank)
                    .world_size(size)
                    .root_info(root)
                    .config(CommConfig::builder().name("world").build())
                    .build()
                    .unwrap();
                let stream = device.stream().unwrap();
                let mut member = Member { comm, stream, device, everyone };
                if let Err(error) = run(&mut member) {
                    told.lock().unwrap().push((format!("- rank {rank}"), error.to_string()));
                }
                // Nobody learns from a departure what it should learn otherwise.
                member.everyone.wait();
            });
        }
    });
    let mut told = told.into_inner().unwrap();
    told.sort();
    (mistake, told)
}

/// As [`ranks`], after the links have been built.
fn later(
    mistake: &'static str,
    runtime: &Runtime,
    run: impl Fn(&mut Member) -> Result<Work> + Sync,
) -> Told {
    ranks(mistake, runtime, |member| {
        member.comm.barrier(&member.stream)?.wait()?;
        member.everyone.wait();
        let work = run(member);
        // So that it is the stream that fails, and not the call of whoever comes last.
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
        // SAFETY: to the emulator a device address is a number; it refuses these, which is the test.
        unsafe { DeviceBuffer::<f32>::from_raw(&device, pointer, len) }
    };
    let mut all = raw(x.as_ptr(), 64).unwrap();
    let half = raw(x.as_ptr().wrapping_byte_add(128), 32).unwrap();
    let overlap = all.slice_mut(16..48).unwrap().copy_from(&half, &stream).unwrap_err();
    let alone = || {
        let builder = Communicator::builder().device(&device).rank(0).world_size(1);
        let config = CommConfig::builder().name("alone").build();
        builder.root_info(&RootInfo::new(&device)?).config(config).build()
    };
    let mut quarter = raw(x.as_ptr().wrapping_byte_add(64), 32).unwrap();
    let apart = alone().unwrap().all_reduce(&half, &mut quarter, Sum, &stream).unwrap_err();
    let sum = |pointer: *mut std::ffi::c_void, len| {
        alone()?.all_reduce_in_place(&mut raw(pointer, len)?, Sum, &stream).map(drop)
    };
    vec![
        one("a copy onto itself", overlap),
        one("a sum of memory into itself", apart),
        one("a sum in freed memory", sum(freed, 64).unwrap_err()),
        one("a sum beyond the end of an allocation", sum(x.as_ptr(), 1000).unwrap_err()),
        one("a sum in host memory", sum(host.as_mut_ptr().cast(), 64).unwrap_err()),
        one("a sum in memory of another device", sum(elsewhere.as_ptr(), 64).unwrap_err()),
        one("a sum of too many elements", sum(x.as_ptr(), 1 << 36).unwrap_err()),
        one("a fill of freed memory", raw(freed, 64).unwrap().fill_zero(&stream).unwrap_err()),
        one(
            "a null pointer as memory",
            raw(std::ptr::null_mut(), 64).unwrap().fill_zero(&stream).unwrap_err(),
        ),
    ]
}

fn of_calls() -> Vec<Told> {
    let runtime = patient(2);
    let on = |mistake, act: fn(&mut Member) -> Result<()>| {
        ranks(
            mistake,
            &runtime,
            move |member| {
                if member.rank() == 0 { act(member) } else { Ok(()) }
            },
        )
    };
    let mut told = vec![
        on("a sum into a shorter buffer", |m| {
            let (send, mut recv) = (m.floats(8), m.floats(7));
            m.comm.all_reduce(&send, &mut recv, Sum, &m.stream).map(drop)
        }),
        on("a sum into a fresh buffer of another length", |m| {
            let (send, recv) = (m.floats(8), m.device.alloc::<f32>(9)?);
            Ok(m.comm.all_reduce(&send, recv, Sum, &m.stream).map(drop)?)
        }),
        on("a root that does not exist", |m| {
            let mut x = m.floats(8);
            m.comm.broadcast(&mut x, 2, &m.stream).map(drop)
        }),
        on("a type that the product does not reduce", |m| {
            let mut x = m.device.zeros::<f64>(8, &m.stream)?;
            m.comm.all_reduce_in_place(&mut x, Sum, &m.stream).map(drop)
        }),
        on("a stream of another device", |m| {
            let mut x = m.floats(8);
            let elsewhere = m.device.runtime().device(1)?.stream()?;
            m.comm.all_reduce_in_place(&mut x, Sum, &elsewhere).map(drop)
        }),
        on("an operation after an abort", |m| {
            m.comm.abort_handle().abort()?;
            m.comm.barrier(&m.stream).map(drop)
        }),
    ];
    told.push(ranks("an abort while the peer waits", &runtime, |m| {
        m.comm.barrier(&m.stream)?.wait()?;
        if m.rank() == 0 {
            std::thread::sleep(Duration::from_millis(50));
            return m.comm.abort_handle().abort();
        }
        m.comm.barrier(&m.stream)?.wait()
    }));
    let device = runtime.device(0).unwrap();
    let root = RootInfo::new(&device).unwrap();
    let build = |rank, config| {
        let builder = Communicator::builder().device(&device).rank(rank).world_size(2);
        builder.root_info(&root).config(config).build().map(drop).unwrap_err()
    };
    told.push(one("a rank that is not below the number of ranks", build(2, CommConfig::default())));
    let strict = CommConfig::builder().deterministic(Deterministic::Strict).build();
    told.push(one("a setting that the product does not have", build(0, strict)));
    let long = CommConfig::builder().exec_timeout(Duration::from_millis(1500)).build();
    told.push(one("a setting that CANN would ignore", build(0, long)));
    told
}

/// Shapes, roots, and shares that differ, on rank 1 of 2.
fn of_counts() -> Vec<Told> {
    let runtime = patient(2);
    let on =
        |mistake, act: fn(&mut Member) -> Result<Work>| {
            ranks(mistake, &runtime, move |member| {
                if member.rank() == 1 { act(member).map(drop) } else { Ok(()) }
            })
        };
    let mut told = vec![
        on("a gather into too short a buffer", |m| {
            let (x, mut y) = (m.floats(4), m.floats(7));
            m.comm.all_gather(&x, &mut y, &m.stream)
        }),
        on("a buffer that two ranks cannot share", |m| {
            m.comm.all_gather_in_place(&mut m.floats(7), &m.stream)
        }),
        on("a source that is not as long as all parts", |m| {
            let (x, mut y) = (m.floats(9), m.floats(4));
            m.comm.reduce_scatter(&x, &mut y, Sum, &m.stream)
        }),
        on("a root without a destination", |m| {
            let x = m.floats(4);
            m.comm.reduce(&x, None::<&mut DeviceBuffer<f32>>, Sum, 1, &m.stream)
        }),
        on("a destination of another rank than the root", |m| {
            let (x, mut y) = (m.floats(4), m.floats(4));
            m.comm.reduce(&x, Some(&mut y), Sum, 0, &m.stream)
        }),
        on("a source of another rank than the root", |m| {
            let (x, mut y) = (m.floats(8), m.floats(4));
            m.comm.scatter(Some(&x), &mut y, 0, &m.stream)
        }),
        on("a message to a rank that is not there", |m| {
            let x = m.floats(4);
            m.comm.send(&x, 2, &m.stream)
        }),
        on("a message from oneself", |m| m.comm.recv(&mut m.floats(4), 1, &m.stream)),
        on("a reduction in parts of a type that the product does not take there", |m| {
            let (x, mut y) = (m.floats(4), m.floats(2));
            m.comm.reduce_scatter_v(&x, &mut y, Prod, &Partition::even(4, 2), &m.stream)
        }),
        on("a partition for another number of ranks", |m| {
            let (x, mut y) = (m.floats(4), m.floats(12));
            m.comm.all_gather_v(&x, &mut y, &Partition::even(12, 3), &m.stream)
        }),
        on("a source that is not as long as its part", |m| {
            let (x, mut y) = (m.floats(4), m.floats(8));
            m.comm.all_gather_v(&x, &mut y, &Partition::packed([5, 3])?, &m.stream)
        }),
        on("a part that ends outside the buffer", |m| {
            let (x, mut y) = (m.floats(3), m.floats(8));
            let parts = Partition::with_displacements([5, 3], [0, 6])?;
            m.comm.all_gather_v(&x, &mut y, &parts, &m.stream)
        }),
        on("parts of a destination that overlap", |m| {
            let (x, mut y) = (m.floats(3), m.floats(8));
            let parts = Partition::with_displacements([5, 3], [0, 4])?;
            m.comm.all_gather_v(&x, &mut y, &parts, &m.stream)
        }),
        on("a fresh destination with a gap", |m| {
            let x = m.floats(3);
            let parts = Partition::with_displacements([4, 3], [0, 5])?;
            Ok(m.comm.all_gather_v(&x, m.device.alloc(8)?, &parts, &m.stream)?.1)
        }),
        on("unequal halves of a message to oneself in an all-to-all", |m| {
            let (x, mut y) = (m.floats(8), m.floats(8));
            let (from, to) = (Partition::packed([4, 4])?, Partition::packed([5, 3])?);
            m.comm.all_to_all_v(&x, &from, &mut y, &to, &m.stream)
        }),
        on("a source that is not as long as its row", |m| {
            let (x, mut y) = (m.floats(6), m.floats(6));
            m.comm.all_to_all_vc(&x, &mut y, &CountMatrix::new(2, vec![1, 2, 3, 4])?, &m.stream)
        }),
        on("a destination that is not as long as its column", |m| {
            let (x, mut y) = (m.floats(7), m.floats(5));
            m.comm.all_to_all_vc(&x, &mut y, &CountMatrix::new(2, vec![1, 2, 3, 4])?, &m.stream)
        }),
    ];
    let most = hccl::collective::MOST_ELEMENTS;
    told.push(one(
        "as many displacements as there are not counts",
        Partition::with_displacements([1, 2], [0]).unwrap_err(),
    ));
    told.push(one("parts beyond counting", Partition::packed([usize::MAX / 2, 1]).unwrap_err()));
    told.push(one("a matrix with a row too few", CountMatrix::new(2, vec![1, 2]).unwrap_err()));
    told.push(one(
        "a block of too many elements",
        CountMatrix::new(1, vec![most as u64 + 1]).unwrap_err(),
    ));
    told
}

fn of_groups() -> Vec<Told> {
    let runtime = patient(2);
    let devices = [runtime.device(0).unwrap(), runtime.device(1).unwrap()];
    let mut comms = Communicator::init_all(&devices).unwrap();
    let [one_comm, other] = &mut comms[..] else { unreachable!("two devices") };
    let streams = devices.each_ref().map(|device| device.stream().unwrap());
    let mut x = devices[0].zeros::<f32>(8, &streams[0]).unwrap();
    let mut y = devices[1].zeros::<f32>(9, &streams[1]).unwrap();
    // The names of these communicators have numbers.
    let named = |error: Error, comm: &Communicator| error.to_string().replace(comm.name(), "world");
    let mixed = hccl::group(|group| {
        let (one, other) = x.split_at_mut(4)?;
        group.on(one_comm, &streams[0]).recv(one, 1).all_reduce_in_place(other, Sum);
        Ok(())
    });
    let mixed = mixed.unwrap_err();
    let shared = hccl::group(|group| {
        group.on(one_comm, &streams[0]).all_reduce_in_place(&mut x, Sum);
        group.on(other, &streams[0]).all_reduce_in_place(&mut y, Sum);
        Ok(())
    });
    let shared = shared.unwrap_err();
    let second = hccl::group(|group| {
        let (one, other) = x.split_at_mut(4)?;
        group.on(one_comm, &streams[0]).all_reduce_in_place(one, Sum).broadcast(other, 5);
        Ok(())
    });
    let second = named(second.unwrap_err(), one_comm);
    let differ = hccl::group(|group| {
        group.on(one_comm, &streams[0]).all_reduce_in_place(&mut x, Sum);
        group.on(other, &streams[1]).all_reduce_in_place(&mut y, Sum);
        Ok(())
    });
    let differ = named(differ.unwrap_err(), one_comm);
    vec![
        one("messages and collectives in one group", mixed),
        one("two communicators of a group on one stream", shared),
        ("the second operation of a group", vec![("-".into(), second)]),
        ("ranks of a group that disagree", vec![("-".into(), differ)]),
    ]
}

fn of_batches() -> Vec<Told> {
    let runtime = patient(2);
    let on =
        |mistake, act: fn(&mut Member) -> Result<Work>| {
            ranks(mistake, &runtime, move |member| {
                if member.rank() == 1 { act(member).map(drop) } else { Ok(()) }
            })
        };
    vec![
        on("a message to a rank that does not exist", |m| {
            let x = m.floats(8);
            m.comm.batch().send(&x, 2).submit(&m.stream)
        }),
        on("two messages to one peer", |m| {
            let x = m.floats(8);
            m.comm.batch().send(&x, 0).send(&x, 0).submit(&m.stream)
        }),
        on("half a message to oneself", |m| {
            let x = m.floats(8);
            m.comm.batch().send(&x, 1).submit(&m.stream)
        }),
        on("unequal halves of a message to oneself", |m| {
            let (x, mut y) = (m.floats(8), m.floats(9));
            m.comm.batch().send(&x, 1).recv(&mut y, 1).submit(&m.stream)
        }),
    ]
}

/// What the ranks disagree about: in the first operation, which comes from the call, and in a later one.
fn between_ranks() -> Vec<Told> {
    type Act = fn(&mut Member) -> Result<Work>;
    let runtime = patient(3);
    let disagreements: [(&str, &str, Act); 6] = [
        ("counts that differ, in the first operation", "counts that differ", |m| {
            let mut x = m.floats(if m.rank() == 1 { 1001 } else { 1000 });
            m.comm.all_reduce_in_place(&mut x, Sum, &m.stream)
        }),
        ("types that differ, in the first operation", "types that differ", |m| {
            let mut x = m.floats(1000);
            let mut y = m.device.zeros::<i32>(1000, &m.stream)?;
            if m.rank() == 1 {
                m.comm.all_reduce_in_place(&mut y, Sum, &m.stream)
            } else {
                m.comm.all_reduce_in_place(&mut x, Sum, &m.stream)
            }
        }),
        ("reductions that differ, in the first operation", "reductions that differ", |m| {
            let mut x = m.floats(1000);
            if m.rank() == 1 {
                m.comm.all_reduce_in_place(&mut x, Max, &m.stream)
            } else {
                m.comm.all_reduce_in_place(&mut x, Sum, &m.stream)
            }
        }),
        ("roots that differ, in the first operation", "roots that differ", |m| {
            let mut x = m.floats(1000);
            let root = m.rank() % 2;
            m.comm.broadcast(&mut x, root, &m.stream)
        }),
        ("operations that differ, in the first operation", "operations that differ", |m| {
            let mut x = m.floats(1000);
            match m.rank() {
                1 => m.comm.barrier(&m.stream),
                _ => m.comm.all_reduce_in_place(&mut x, Sum, &m.stream),
            }
        }),
        ("nothing on one rank, in the first operation", "nothing on one rank", |m| {
            let mut x = m.floats(if m.rank() == 1 { 0 } else { 1000 });
            m.comm.all_reduce_in_place(&mut x, Sum, &m.stream)
        }),
    ];
    let mut told = Vec::new();
    for (first, after, act) in disagreements {
        let last = move |m: &mut Member| {
            // The others are there when rank 1 comes, so that every text has all sides.
            if m.rank() == 1 {
                std::thread::sleep(PATIENCE / 4);
            }
            act(m)
        };
        told.push(ranks(first, &runtime, |m| last(m)?.wait()));
        told.push(later(after, &runtime, last));
    }
    let runtime = patient(2);
    told.push(ranks("an operation after one that failed", &runtime, |m| {
        m.comm.barrier(&m.stream)?.wait()?;
        m.everyone.wait();
        let mut x = m.floats(if m.rank() == 1 { 1001 } else { 1000 });
        let failed =
            m.comm.all_reduce_in_place(&mut x, Sum, &m.stream).and_then(|work| work.wait());
        assert!(failed.is_err());
        m.comm.barrier(&m.stream).map(drop)
    }));
    let lengths: Act = |m| {
        let mut x = m.floats(if m.rank() == 0 { 10 } else { 11 });
        if m.rank() == 0 {
            m.comm.batch().send(&x, 1).submit(&m.stream)
        } else {
            m.comm.batch().recv(&mut x, 0).submit(&m.stream)
        }
    };
    let types: Act = |m| {
        let x = m.floats(10);
        let mut y = m.device.zeros::<i64>(10, &m.stream)?;
        if m.rank() == 0 {
            m.comm.batch().send(&x, 1).submit(&m.stream)
        } else {
            m.comm.batch().recv(&mut y, 0).submit(&m.stream)
        }
    };
    told.push(ranks("a message whose lengths differ", &runtime, |m| lengths(m)?.wait()));
    told.push(ranks("a message whose types differ", &runtime, |m| types(m)?.wait()));
    told.push(ranks("a batch against a collective", &runtime, |m| {
        let x = m.floats(10);
        if m.rank() == 0 {
            m.comm.batch().send(&x, 1).submit(&m.stream)?.wait()
        } else {
            m.comm.barrier(&m.stream)?.wait()
        }
    }));
    told
}

fn of_absence() -> Vec<Told> {
    let runtime = impatient(3);
    let mut told = Vec::new();
    let device = runtime.device(0).unwrap();
    let root = RootInfo::new(&device).unwrap();
    let alone = Communicator::builder().device(&device).rank(0).world_size(3).root_info(&root);
    told.push(one("a communicator whose other ranks do not come", alone.build().unwrap_err()));
    // Two ranks, since the text names the one that gave up first.
    told.push(ranks("a rank that does not come to the first operation", &impatient(2), |m| {
        let mut x = m.floats(1000);
        if m.rank() == 1 {
            return Ok(());
        }
        m.comm.all_reduce_in_place(&mut x, Sum, &m.stream)?.wait()
    }));
    told.push(ranks("a rank that does not come to a later operation", &runtime, |m| {
        m.comm.barrier(&m.stream)?.wait()?;
        let mut x = m.floats(1000);
        if m.rank() == 1 {
            return Ok(());
        }
        m.comm.all_reduce_in_place(&mut x, Sum, &m.stream)?.wait()
    }));
    let runtime = impatient(2);
    told.push(ranks("a message that is not received, the first one", &runtime, |m| {
        let x = m.floats(10);
        if m.rank() == 1 {
            return Ok(());
        }
        m.comm.batch().send(&x, 1).submit(&m.stream)?.wait()
    }));
    told.push(ranks("a message that is not received, a later one", &runtime, |m| {
        let (x, mut y) = (m.floats(10), m.floats(10));
        let peer = 1 - m.rank();
        m.comm.batch().send(&x, peer).recv(&mut y, peer).submit(&m.stream)?.wait()?;
        if m.rank() == 1 {
            return Ok(());
        }
        m.comm.batch().send(&x, peer).submit(&m.stream)?.wait()
    }));
    let runtime = patient(2);
    told.push(ranks("a wait with a short limit", &runtime, |m| {
        m.comm.barrier(&m.stream)?.wait()?;
        if m.rank() == 1 {
            std::thread::sleep(PATIENCE);
            return m.comm.barrier(&m.stream)?.wait();
        }
        let work = m.comm.barrier(&m.stream)?;
        let error = work.wait_timeout(PATIENCE / 4).unwrap_err();
        work.wait()?;
        Err(error)
    }));
    told.push(ranks("two ranks that only receive", &runtime, |m| {
        let (x, mut y) = (m.floats(10), m.floats(10));
        let peer = 1 - m.rank();
        m.comm.batch().send(&x, peer).recv(&mut y, peer).submit(&m.stream)?.wait()?;
        m.comm.batch().recv(&mut y, peer).submit(&m.stream)?.wait()
    }));
    told
}

fn of_runs() -> Vec<Told> {
    let runtime = patient(2);
    let run = |mistake, f: &(dyn Fn(Rank) -> Result<()> + Sync)| {
        one(mistake, runtime.run_ranks(2, f).unwrap_err())
    };
    vec![
        one("more ranks than devices", runtime.run_ranks(3, |_| Ok::<_, Error>(())).unwrap_err()),
        one("no ranks", runtime.run_ranks(0, |_| Ok::<_, Error>(())).unwrap_err()),
        run("a rank that returns an error", &|rank| {
            let stream = rank.device().stream()?;
            if rank.index() == 1 {
                rank.device().zeros::<f32>(4, &stream)?.upload(&[0.0; 3], &stream)?;
            }
            rank.communicator().map(drop)
        }),
        run("a rank that panics", &|rank| {
            assert!(rank.index() != 1, "index 5 is out of bounds");
            rank.communicator().map(drop)
        }),
        run("ranks that disagree", &|rank| {
            let stream = rank.device().stream()?;
            let config = CommConfig::builder().name("world").build();
            let mut comm = rank.communicator_with(config)?;
            comm.barrier(&stream)?.wait()?;
            let mut x = rank.device().zeros::<f32>(4 + rank.index() as usize, &stream)?;
            let outcome = comm.all_reduce_in_place(&mut x, Sum, &stream)?.wait();
            if rank.index() == 1 {
                // So that the first cause is always the other one's.
                std::thread::sleep(PATIENCE);
            }
            outcome
        }),
        run("a rank that returns early, to the one that waits", &|rank| {
            let config = CommConfig::builder().name("world").build();
            let mut comm = rank.communicator_with(config)?;
            let stream = rank.device().stream()?;
            comm.barrier(&stream)?.wait()?;
            if rank.index() == 1 { Ok(()) } else { comm.barrier(&stream)?.wait() }
        }),
        run("a rank that returns before the communicator is made", &|rank| {
            if rank.index() == 1 {
                // Until the other one is inside the call.
                std::thread::sleep(PATIENCE / 2);
                return Ok(());
            }
            let config = CommConfig::builder().name("world").build();
            rank.communicator_with(config).map(drop)
        }),
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
    // None fails before all are issued: the next operation could be told.
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
    let table = Functions { HcclCommSuspend: None, ..ascend_emulator::table() };
    // SAFETY: what is left of the emulator's table does what CANN documents.
    let runtime = Runtime::from_api(unsafe { Api::from_table(table) }).unwrap();
    let comm = Communicator::init_all(&[runtime.device(0).unwrap()]).unwrap().remove(0);
    told.push(one(
        "a function that the backend lacks",
        comm.suspend().map(drop).unwrap_err().error,
    ));
    told
}
