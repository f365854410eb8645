//! Elements whose type is known only at run time.

use super::*;
use crate::dtype::{DType, ReduceKind, Sum};

#[test]
fn dynamic_collectives_do_what_typed_ones_do() {
    on_both(2, |runtime| {
        runtime
            .run_ranks(2, |rank| -> Result<()> {
                let (device, me) = (rank.device().clone(), rank.index());
                let stream = device.stream()?;
                let mut comm = rank.communicator()?;
                let data: Vec<i16> = (0..8).map(|at| at * 10 + me as i16 + 1).collect();
                let typed = device.upload(&data, &stream)?;
                let x = DynBuffer::from(device.upload(&data, &stream)?);
                let parts = Partition::packed([3, 5])?;
                let own = parts.of(me);
                let (even, odd) = (Partition::even(8, 2), Partition::even(8, 2));
                for turn in 0..15 {
                    let mut expected = device.zeros::<i16>(16, &stream)?;
                    let mut found = device.dynamic_zeros(DType::I16, 16, &stream)?;
                    let (e, f) = (&mut expected, &mut found);
                    match turn {
                        0 => {
                            comm.all_reduce(&typed, e.slice_mut(..8)?, Sum, &stream)?;
                            let kind = ReduceKind::Sum;
                            comm.dynamic().all_reduce(&x, f.slice_mut(..8)?, kind, &stream)?;
                        }
                        1 => {
                            e.slice_mut(..8)?.copy_from(&typed, &stream)?;
                            comm.all_reduce_in_place(&mut *e, crate::dtype::Max, &stream)?;
                            f.slice_mut(..8)?.into_bytes().copy_from(x.bytes(), &stream)?;
                            comm.dynamic().all_reduce_in_place(f, ReduceKind::Max, &stream)?;
                        }
                        2 => {
                            let to = (me == 1).then_some(e.slice_mut(1..9)?);
                            comm.reduce(&typed, to, Sum, 1, &stream)?;
                            let to = (me == 1).then_some(f.slice_mut(1..9)?);
                            comm.dynamic().reduce(&x, to, ReduceKind::Sum, 1, &stream)?;
                        }
                        3 => {
                            comm.reduce_scatter(&typed, e.slice_mut(..4)?, Sum, &stream)?;
                            let (to, kind) = (f.slice_mut(..4)?, ReduceKind::Sum);
                            comm.dynamic().reduce_scatter(&x, to, kind, &stream)?;
                        }
                        4 => {
                            let to = e.slice_mut(..own.len())?;
                            comm.reduce_scatter_v(&typed, to, Sum, &parts, &stream)?;
                            let (to, kind) = (f.slice_mut(..own.len())?, ReduceKind::Sum);
                            comm.dynamic().reduce_scatter_v(&x, to, kind, &parts, &stream)?;
                        }
                        5 => {
                            e.slice_mut(..8)?.copy_from(&typed, &stream)?;
                            comm.broadcast(&mut *e, 1, &stream)?;
                            f.slice_mut(..8)?.into_bytes().copy_from(x.bytes(), &stream)?;
                            comm.dynamic().broadcast(f, 1, &stream)?;
                        }
                        6 => {
                            comm.all_gather(&typed, &mut *e, &stream)?;
                            comm.dynamic().all_gather(&x, f, &stream)?;
                        }
                        7 => {
                            let (from, to) = (typed.slice(own.clone())?, e.slice_mut(..8)?);
                            comm.all_gather_v(from, to, &parts, &stream)?;
                            let (from, to) = (x.slice(own.clone())?, f.slice_mut(..8)?);
                            comm.dynamic().all_gather_v(from, to, &parts, &stream)?;
                        }
                        8 => {
                            let from = (me == 0).then_some(&typed);
                            comm.scatter(from, e.slice_mut(..4)?, 0, &stream)?;
                            let from = (me == 0).then_some((&x).into());
                            comm.dynamic().scatter(from, f.slice_mut(..4)?, 0, &stream)?;
                            comm.all_to_all(&typed, e.slice_mut(8..)?, &stream)?;
                            comm.dynamic().all_to_all(&typed, f.slice_mut(8..)?, &stream)?;
                        }
                        9 => {
                            e.slice_mut(..8)?.copy_from(&typed, &stream)?;
                            comm.reduce_in_place(e.slice_mut(..8)?, Sum, 1, &stream)?;
                            f.slice_mut(..8)?.into_bytes().copy_from(x.bytes(), &stream)?;
                            let (to, kind) = (f.slice_mut(..8)?, ReduceKind::Sum);
                            comm.dynamic().reduce_in_place(to, kind, 1, &stream)?;
                        }
                        10 => {
                            e.slice_mut(..8)?.copy_from(&typed, &stream)?;
                            comm.reduce_scatter_in_place(e.slice_mut(..8)?, Sum, &stream)?;
                            f.slice_mut(..8)?.into_bytes().copy_from(x.bytes(), &stream)?;
                            let (to, kind) = (f.slice_mut(..8)?, ReduceKind::Sum);
                            comm.dynamic().reduce_scatter_in_place(to, kind, &stream)?;
                            // The part of the other rank is unspecified, so it is set to zero.
                            let other = Partition::even(8, 2).of(1 - me);
                            e.slice_mut(other.clone())?.fill_zero(&stream)?;
                            f.slice_mut(other)?.into_bytes().fill_zero(&stream)?;
                        }
                        11 => {
                            e.slice_mut(..8)?.copy_from(&typed, &stream)?;
                            comm.all_gather_in_place(e.slice_mut(..8)?, &stream)?;
                            f.slice_mut(..8)?.into_bytes().copy_from(x.bytes(), &stream)?;
                            comm.dynamic().all_gather_in_place(f.slice_mut(..8)?, &stream)?;
                        }
                        12 => {
                            let counts = CountMatrix::new(2, [1, 2, 3, 1])?;
                            let sent = [3, 4][me as usize];
                            let got = [4, 3][me as usize];
                            let (from, to) = (typed.slice(..sent)?, e.slice_mut(..got)?);
                            comm.all_to_all_vc(from, to, &counts, &stream)?;
                            let (from, to) = (x.slice(..sent)?, f.slice_mut(..got)?);
                            comm.dynamic().all_to_all_vc(from, to, &counts, &stream)?;
                        }
                        13 => {
                            let (to, other) = (e.slice_mut(..8)?, 1 - me);
                            comm.batch().send(&typed, other).recv(to, other).submit(&stream)?;
                            let batch = comm.batch().send_dynamic(&x, other);
                            batch.recv_dynamic(f.slice_mut(..8)?, other).submit(&stream)?;
                        }
                        _ => {
                            comm.all_to_all_v(&typed, e.slice_mut(..8)?, &even, &odd, &stream)?;
                            let to = f.slice_mut(..8)?;
                            comm.dynamic().all_to_all_v(&x, to, &even, &odd, &stream)?;
                            if me == 0 {
                                comm.send(&typed, 1, &stream)?;
                                comm.dynamic().send(&x, 1, &stream)?;
                            } else {
                                comm.recv(e.slice_mut(8..)?, 0, &stream)?;
                                comm.dynamic().recv(f.slice_mut(8..)?, 0, &stream)?;
                            }
                        }
                    }
                    let expected = expected.to_vec(&stream).wait()?;
                    assert!(expected.iter().any(|x| *x != 0) || turn == 2, "{turn}");
                    assert_eq!(found.typed::<i16>()?.to_vec(&stream).wait()?, expected, "{turn}");
                }
                Ok(())
            })
            .unwrap();
    });
}

#[test]
fn types_are_checked_before_anything_moves() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let root = RootInfo::new(&device).unwrap();
        let making = Communicator::builder().device(&device).rank(0).world_size(1);
        let mut comm = making.root_info(&root).build().wait().unwrap();
        let x = device.upload(&[1_u16, 2], &stream).unwrap();
        let mut y = device.dynamic_zeros(DType::BF16, 2, &stream).unwrap();
        let cause = |error: Error| match error {
            Error::Refused { cause, context } => (context.sequence, *cause),
            other => panic!("{other}"),
        };
        let (sequence, wrong) = cause(comm.dynamic().all_gather(&x, &mut y, &stream).unwrap_err());
        let text = wrong.to_string();
        let (expected, found) = (DType::U16, DType::BF16);
        assert!(
            matches!(wrong, Error::WrongType { what: "the destination", expected: e, found: f, .. }
                if (e, f) == (expected, found)),
            "{text}"
        );
        assert!(text.contains("bf16") && text.contains("u16"), "{text}");
        // No Ascend product reduces these types. The type is checked before the length.
        let mut short = device.dynamic_zeros(DType::U16, 1, &stream).unwrap();
        let refused = comm.dynamic().all_reduce(&x, &mut short, ReduceKind::Sum, &stream);
        let (_, wrong) = cause(refused.unwrap_err());
        assert!(matches!(wrong, Error::NotReduced { dtype: DType::U16, .. }), "{wrong}");
        let refused = comm.dynamic().all_reduce_in_place(&mut y, ReduceKind::Prod, &stream);
        let (_, wrong) = cause(refused.unwrap_err());
        assert!(matches!(wrong, Error::NotReduced { dtype: DType::BF16, .. }), "{wrong}");
        assert_eq!(wrong.kind(), ErrorKind::Unsupported);
        let refused = comm.dynamic().reduce_scatter_in_place(&mut y, ReduceKind::Prod, &stream);
        let (_, wrong) = cause(refused.unwrap_err());
        assert!(matches!(wrong, Error::NotReduced { dtype: DType::BF16, .. }), "{wrong}");
        let refused = comm.dynamic().reduce_in_place(&mut short, ReduceKind::Sum, 0, &stream);
        let (_, wrong) = cause(refused.unwrap_err());
        assert!(matches!(wrong, Error::NotReduced { dtype: DType::U16, .. }), "{wrong}");
        let counts = CountMatrix::new(1, [2]).unwrap();
        let refused = comm.dynamic().all_to_all_vc(&x, &mut y, &counts, &stream);
        let (_, wrong) = cause(refused.unwrap_err());
        assert!(matches!(wrong, Error::WrongType { what: "the destination", .. }), "{wrong}");
        // A message of the rank to itself, with another type.
        let batch = comm.batch().send_dynamic(&x, 0).recv_dynamic(&mut y, 0);
        let (_, wrong) = cause(batch.submit(&stream).unwrap_err());
        assert!(matches!(wrong, Error::Batch(_)), "{wrong}");
        let (_, wrong) = cause(comm.dynamic().all_gather(&x, &mut short, &stream).unwrap_err());
        assert!(matches!(wrong, Error::WrongLength { .. }), "{wrong}");
        // None of the refused operations took a number, and the communicator still works.
        let (again, _) = cause(comm.dynamic().all_gather(&x, &mut y, &stream).unwrap_err());
        assert_eq!(again, sequence);
        comm.dynamic().all_reduce_in_place(&mut y, ReduceKind::Sum, &stream).unwrap();
        assert_eq!(y.bytes().to_vec(&stream).wait().unwrap(), [0; 4]);
    });
}

#[test]
fn a_buffer_gets_its_type_back_and_no_other() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let mut x = DynBuffer::from(device.upload(&[1.0_f32, 2.0, 3.0], &stream).unwrap());
        assert_eq!((x.dtype(), x.len(), x.bytes().len()), (DType::F32, 3, 12));
        assert_eq!(format!("{x:?}"), "DynBuffer<f32>(3 elements)");
        let part = x.slice(1..).unwrap();
        let last = part.slice(1..).unwrap().typed::<f32>().unwrap();
        assert_eq!(last.to_vec(&stream).wait().unwrap(), [3.0]);
        assert!(matches!(part.slice(3..).unwrap_err(), Error::OutOfRange { length: 2, .. }));
        let wrong = part.typed::<u32>().unwrap_err();
        assert!(matches!(wrong, Error::WrongType { expected: DType::U32, .. }), "{wrong}");
        x.slice_mut(..1).unwrap().into_bytes().fill_zero(&stream).unwrap();
        x.typed_mut::<f32>().unwrap().slice_mut(2..).unwrap().upload(&[9.0], &stream).unwrap();
        assert!(x.typed_mut::<i32>().is_err());
        let x = x.into_typed::<i32>().unwrap_err().value;
        let x = x.into_typed::<f32>().unwrap();
        assert_eq!(x.to_vec(&stream).wait().unwrap(), [0.0, 2.0, 9.0]);
        let huge = device.dynamic_zeros(DType::F64, usize::MAX / 4, &stream).unwrap_err();
        assert!(matches!(huge, Error::TooLarge { .. }), "{huge}");
    });
}

/// The partitions and counts with which two ranks of a group exchange elements.
struct Shares {
    uneven: Partition,
    even: Partition,
    counts: CountMatrix,
}

/// Records operation number `turn` in a group, on elements of a known type. The last operation is a
/// message.
fn typed_turn<'env>(
    on: crate::group::Recorder<'_, 'env>,
    (turn, me): (usize, u32),
    x: &'env DeviceBuffer<i16>,
    y: &'env mut DeviceBuffer<i16>,
    Shares { uneven, even, counts }: &'env Shares,
) -> Result<()> {
    let [sent, got] = [[3, 4], [4, 3]].map(|of| of[me as usize]);
    let _ = match turn {
        0 => on.all_reduce(x, y.slice_mut(..8)?, Sum),
        1 => on.all_reduce_in_place(y, crate::dtype::Max),
        2 => on.reduce_scatter(x, y.slice_mut(..4)?, Sum),
        3 => on.reduce_scatter_v(x, y.slice_mut(..uneven.count(me))?, Sum, uneven),
        4 => on.broadcast(y, 1),
        5 => on.all_gather(x, y),
        6 => on.all_gather_v(x.slice(uneven.of(me))?, y.slice_mut(..8)?, uneven),
        7 => on.scatter((me == 0).then_some(x), y.slice_mut(..4)?, 0),
        8 => on.all_to_all(x, y.slice_mut(..8)?),
        9 => on.all_to_all_v(x, y.slice_mut(..8)?, even, even),
        10 => on.all_to_all_vc(x.slice(..sent)?, y.slice_mut(..got)?, counts),
        _ if me == 0 => on.send(x, 1),
        _ => on.recv(y.slice_mut(..8)?, 0),
    };
    Ok(())
}

/// Records operation number `turn` in a group, on elements whose type is known only at run time.
/// The last operation is a message.
fn dynamic_turn<'env>(
    on: crate::group::DynRecorder<'_, 'env>,
    (turn, me): (usize, u32),
    x: &'env DynBuffer,
    y: &'env mut DynBuffer,
    Shares { uneven, even, counts }: &'env Shares,
) -> Result<()> {
    let [sent, got] = [[3, 4], [4, 3]].map(|of| of[me as usize]);
    let sum = ReduceKind::Sum;
    let _ = match turn {
        0 => on.all_reduce(x, y.slice_mut(..8)?, sum),
        1 => on.all_reduce_in_place(y, ReduceKind::Max),
        2 => on.reduce_scatter(x, y.slice_mut(..4)?, sum),
        3 => on.reduce_scatter_v(x, y.slice_mut(..uneven.count(me))?, sum, uneven),
        4 => on.broadcast(y, 1),
        5 => on.all_gather(x, y),
        6 => on.all_gather_v(x.slice(uneven.of(me))?, y.slice_mut(..8)?, uneven),
        7 => on.scatter((me == 0).then_some(x.into()), y.slice_mut(..4)?, 0),
        8 => on.all_to_all(x, y.slice_mut(..8)?),
        9 => on.all_to_all_v(x, y.slice_mut(..8)?, even, even),
        10 => on.all_to_all_vc(x.slice(..sent)?, y.slice_mut(..got)?, counts),
        _ if me == 0 => on.send(x, 1),
        _ => on.recv(y.slice_mut(..8)?, 0),
    };
    Ok(())
}

/// Returns two devices, each with a communicator and a stream.
fn pair(runtime: &Runtime) -> (Vec<Device>, Vec<Communicator>, Vec<Stream>) {
    let devices = vec![runtime.device(0).unwrap(), runtime.device(1).unwrap()];
    let comms = Communicator::init_all(&devices).wait().unwrap();
    let streams = devices.iter().map(|device| device.stream().unwrap()).collect();
    (devices, comms, streams)
}

#[test]
fn dynamic_operations_of_a_group_do_what_typed_ones_do() {
    on_both(2, |runtime| {
        let (devices, mut comms, streams) = pair(runtime);
        let (uneven, even) = (Partition::packed([3, 5]).unwrap(), Partition::even(8, 2));
        let shares = Shares { uneven, even, counts: CountMatrix::new(2, [1, 2, 3, 1]).unwrap() };
        let data = |me: i16, length| (0..length).map(|at| at * 10 + me + 1).collect::<Vec<i16>>();
        let uploaded = |length: i16| {
            let ranks = (0..).zip(devices.iter().zip(&streams));
            let upload =
                ranks.map(|(me, (device, stream))| device.upload(&data(me, length), stream));
            upload.map(|uploaded| uploaded.unwrap()).collect::<Vec<_>>()
        };
        let typed = uploaded(8);
        let dynamic: Vec<DynBuffer> = uploaded(8).into_iter().map(DynBuffer::from).collect();
        for turn in 0..12 {
            let mut expected = uploaded(16);
            let mut found: Vec<_> = uploaded(16).into_iter().map(DynBuffer::from).collect();
            let work = crate::group(|group| {
                let ranks = comms.iter_mut().zip(&streams).zip(typed.iter().zip(&mut expected));
                for (me, ((comm, stream), (x, y))) in (0..).zip(ranks) {
                    typed_turn(group.on(comm, stream), (turn, me), x, y, &shares)?;
                }
                Ok(())
            });
            work.unwrap().wait().unwrap();
            let work = crate::group(|group| {
                let ranks = comms.iter_mut().zip(&streams).zip(dynamic.iter().zip(&mut found));
                for (me, ((comm, stream), (x, y))) in (0..).zip(ranks) {
                    dynamic_turn(group.on(comm, stream).dynamic(), (turn, me), x, y, &shares)?;
                }
                Ok(())
            });
            work.unwrap().wait().unwrap();
            let mut changed = false;
            for (me, ((e, f), stream)) in (0..).zip(expected.iter().zip(&found).zip(&streams)) {
                let e = e.to_vec(stream).wait().unwrap();
                assert_eq!(f.typed::<i16>().unwrap().to_vec(stream).wait().unwrap(), e, "{turn}");
                changed |= e != data(me, 16);
            }
            assert!(changed, "operation {turn} has done nothing");
        }
    });
}

#[test]
fn a_group_checks_types_before_anything_moves() {
    on_both(2, |runtime| {
        let (devices, mut comms, streams) = pair(runtime);
        let x = devices[0].upload(&[1_u16, 2], &streams[0]).unwrap();
        let mut sum = devices[0].upload(&[3.0_f32], &streams[0]).unwrap();
        let mut y = devices[0].dynamic_zeros(DType::BF16, 2, &streams[0]).unwrap();
        let mut z = devices[0].dynamic_zeros(DType::U16, 2, &streams[0]).unwrap();
        let (comm, stream) = (&mut comms[0], &streams[0]);
        // The second operation of the group has a source and a destination of different types.
        let refused = crate::group(|group| {
            let rank = group.on(comm, stream).all_reduce_in_place(&mut sum, Sum);
            rank.dynamic().all_gather(&x, &mut y);
            Ok(())
        });
        let error = refused.unwrap_err();
        assert_eq!(error.context().map(|context| context.sequence), Some(2), "{error}");
        let Error::Refused { cause, .. } = error else { panic!("{error}") };
        let (expected, found) = (DType::U16, DType::BF16);
        assert!(
            matches!(*cause, Error::WrongType { expected: e, found: f, .. } if (e, f) == (expected, found)),
            "{cause}"
        );
        // No Ascend product reduces this type.
        let refused = crate::group(|group| {
            let rank = group.on(comm, stream).dynamic().all_reduce(&x, &mut z, ReduceKind::Sum);
            rank.typed().all_reduce_in_place(&mut sum, Sum);
            Ok(())
        });
        let Error::Refused { cause, .. } = refused.unwrap_err() else { panic!("no refusal") };
        assert!(matches!(*cause, Error::NotReduced { dtype: DType::U16, .. }), "{cause}");
        // Nothing was issued, so no operation waits for the other rank.
        assert_eq!(sum.to_vec(stream).wait().unwrap(), [3.0]);
    });
}

#[test]
fn ranks_of_a_group_that_disagree_about_the_type_are_told_and_keep_their_elements() {
    let runtime = runtime_with(2);
    let (devices, mut comms, streams) = pair(&runtime);
    let x = DynBuffer::from(devices[0].upload(&[1.0_f32, 2.0], &streams[0]).unwrap());
    let y = DynBuffer::from(devices[1].upload(&[3_i32, 4], &streams[1]).unwrap());
    let mut buffers = [x, y];
    let outcome = crate::group(|group| {
        for ((comm, stream), x) in comms.iter_mut().zip(&streams).zip(&mut buffers) {
            group.on(comm, stream).dynamic().all_reduce_in_place(x, ReduceKind::Sum);
        }
        Ok(())
    });
    let text = outcome.unwrap_err().to_string();
    assert!(text.contains("f32") && text.contains("i32"), "{text}");
    assert!(text.contains("all_reduce #1"), "{text}");
    // On new streams, because the failed operation was on the old ones.
    let again = devices.iter().map(|device| device.stream().unwrap()).collect::<Vec<_>>();
    let x = buffers[0].typed::<f32>().unwrap().to_vec(&again[0]).wait().unwrap();
    let y = buffers[1].typed::<i32>().unwrap().to_vec(&again[1]).wait().unwrap();
    assert_eq!((&x[..], &y[..]), (&[1.0, 2.0][..], &[3, 4][..]));
}
