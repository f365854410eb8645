//! Operators that are not issued: the error comes before anything moves, and no number is used.

use std::ffi::c_void;

use ascend_sys::{Api, ChannelHandle, Functions, HcclComm, HcclResult};
use hccl::operator::*;
use hccl::prelude::*;
use hccl::{Error, Result};

use crate::operators::algorithms::*;
use hccl_tests::{Devices, products, runtime_with};

/// Runs an operator on two ranks. Returns the text of the error of one rank, and its cause. Asserts
/// that a later operation gets the first number.
fn refused(
    run: impl Fn(&mut Communicator, &Device, &Stream) -> Result<Work> + Sync,
) -> (String, Error) {
    on(Product::A3, run)
}

fn on(
    product: Product,
    run: impl Fn(&mut Communicator, &Device, &Stream) -> Result<Work> + Sync,
) -> (String, Error) {
    let runtime = Devices::new(2).product(product).runtime();
    let errors = runtime.run_ranks(2, |rank| -> Result<Error> {
        let (device, stream) = (rank.device(), rank.device().stream()?);
        let mut comm = rank.communicator()?;
        let error = run(&mut comm, device, &stream).expect_err("it must be refused");
        assert_eq!(error.context().unwrap().sequence, 1, "{error}");
        // The refused operation took no number and did no harm.
        let mut x = device.upload(&[1.0f32; 4], &stream)?;
        comm.run(&mesh_all_reduce(Sum)).in_place(&mut x).submit(&stream)?.wait()?;
        assert_eq!(x.to_vec(&stream).wait()?, [2.0; 4]);
        Ok(error)
    });
    let error = errors.unwrap().swap_remove(1);
    let text = error.to_string();
    let Error::Refused { cause, .. } = error else { panic!("{text}") };
    (text, *cause)
}

fn ones<E: Element>(device: &Device, stream: &Stream, length: usize) -> Result<DeviceBuffer<E>> {
    device.zeros(length, stream)
}

#[test]
fn mistakes_in_the_function_are_told_with_their_lines() {
    let wrong = Operator::all_gather("wrong", |op, main| {
        main.copy(op.input(), op.output());
        let _forgotten = main.expose(op.channel(1 - op.rank()));
    });
    let (text, cause) = refused(|comm, device, stream| {
        let (x, mut y) = (ones::<f32>(device, stream, 4)?, ones::<f32>(device, stream, 8)?);
        comm.run(&wrong).input(&x).output(&mut y).submit(stream)
    });
    let Error::Operator(mistakes) = cause else { panic!("{text}") };
    assert_eq!(mistakes.mistakes().count(), 2, "{text}");
    for piece in [
        "the operator `wrong` cannot be recorded [wrong #1 on `world` (rank ",
        "the source has 4 elements, but the destination has 8",
        "never reclaimed",
        "refused.rs:",
        "= on rank 1",
    ] {
        assert!(text.contains(piece), "{piece}: {text}");
    }
}

#[test]
fn an_input_is_not_written() {
    let wrong = Operator::all_gather("wrong", |op, main| {
        main.copy(op.input(), op.output().block(op.rank(), op.count()));
        main.copy(op.output().block(0, op.count()), op.input());
    });
    let (text, cause) = refused(|comm, device, stream| {
        let (x, mut y) = (ones::<f32>(device, stream, 4)?, ones::<f32>(device, stream, 8)?);
        comm.run(&wrong).input(&x).output(&mut y).submit(stream)
    });
    assert!(matches!(cause, Error::Operator(_)), "{text}");
    assert!(text.contains("writes bytes 0..16 of the input of rank 1"), "{text}");
    assert!(text.contains("refused.rs:"), "{text}");
}

#[test]
fn lengths_are_those_of_the_goal() {
    let (text, cause) = refused(|comm, device, stream| {
        let (x, mut y) = (ones::<f32>(device, stream, 4)?, ones::<f32>(device, stream, 9)?);
        comm.run(&mesh_all_gather()).input(&x).output(&mut y).submit(stream)
    });
    assert!(
        matches!(cause, Error::WrongLength { what: "the output", expected: 8, found: 9, .. }),
        "{text}"
    );
    let (text, cause) = refused(|comm, device, stream| {
        let mut x = ones::<f32>(device, stream, 5)?;
        comm.run(&mesh_all_gather()).in_place(&mut x).submit(stream)
    });
    assert!(matches!(cause, Error::Uneven { length: 5, world_size: 2, .. }), "{text}");
    let (text, cause) = refused(|comm, device, stream| {
        let (x, mut y) = (ones::<f32>(device, stream, 4)?, ones::<f32>(device, stream, 4)?);
        comm.run(&mesh_all_reduce(Sum)).input(&x).output(&mut y).count::<f32>(3).submit(stream)
    });
    assert!(
        matches!(cause, Error::WrongLength { what: "the input", expected: 3, found: 4, .. }),
        "{text}"
    );
    let other = Operator::other("other", 3, 5, |_, _| {});
    let (text, cause) = refused(|comm, device, stream| {
        let (x, mut y) = (ones::<f32>(device, stream, 3)?, ones::<f32>(device, stream, 4)?);
        comm.run(&other).input(&x).output(&mut y).submit(stream)
    });
    assert!(matches!(cause, Error::WrongLength { expected: 5, found: 4, .. }), "{text}");
}

#[test]
fn each_rank_gives_the_buffers_that_it_has_a_use_for() {
    let (text, _) = refused(|comm, device, stream| {
        let mut x = ones::<f32>(device, stream, 4)?;
        comm.run(&mesh_all_gather()).output(&mut x).submit(stream)
    });
    assert!(text.contains("needs the input on rank 1, but the call has none"), "{text}");
    let (text, _) = refused(|comm, device, stream| {
        let (x, mut y) = (ones::<f32>(device, stream, 4)?, ones::<f32>(device, stream, 4)?);
        comm.run(&hand_over(0, 1)).input(&x).output(&mut y).submit(stream)
    });
    assert!(text.contains("has no use for the input on rank 1: leave it out there"), "{text}");
    let (text, _) = refused(|comm, device, stream| {
        let (x, mut y) = (ones::<f32>(device, stream, 4)?, ones::<f16>(device, stream, 8)?);
        comm.run(&mesh_all_gather()).input(&x).output(&mut y).submit(stream)
    });
    assert!(text.contains("the input has type f32, but the output has type f16"), "{text}");
    let (text, _) = refused(|comm, device, stream| {
        let mut x = ones::<f32>(device, stream, 4)?;
        let scatter = Operator::scatter("scatter", 0, |_, _| {});
        comm.run(&scatter).in_place(&mut x).submit(stream)
    });
    assert!(text.contains("`scatter` does not run in place"), "{text}");
    let (text, _) = refused(|comm, device, stream| {
        let (x, mut y) = (ones::<f32>(device, stream, 4)?, ones::<f32>(device, stream, 4)?);
        comm.run(&mesh_all_reduce(Sum)).input(&x).in_place(&mut y).submit(stream)
    });
    assert!(text.contains("pass only one of the two"), "{text}");
}

#[test]
fn ranks_that_are_not_there_are_found() {
    let (text, cause) = refused(|comm, device, stream| {
        let mut x = ones::<f32>(device, stream, 4)?;
        comm.run(&chain_broadcast(2)).output(&mut x).submit(stream)
    });
    assert!(matches!(cause, Error::NoSuchRank { rank: 2, world_size: 2, .. }), "{text}");
    let counts = CountMatrix::new(3, vec![1; 9]).unwrap();
    let (text, _) = refused(|comm, device, stream| {
        let (x, mut y) = (ones::<f32>(device, stream, 3)?, ones::<f32>(device, stream, 3)?);
        let operator = Operator::all_to_all_v("other", &counts, |_, _| {});
        comm.run(&operator).input(&x).output(&mut y).submit(stream)
    });
    assert!(text.contains("for 3 ranks, but the communicator has 2"), "{text}");
}

#[test]
fn what_no_task_reduces_is_found_before_anything_moves() {
    fn reduce<E: Element>(product: Product, operator: &Operator) -> String {
        let (text, cause) = on(product, |comm, device, stream| {
            let mut x = ones::<E>(device, stream, 4)?;
            comm.run(operator).in_place(&mut x).submit(stream)
        });
        assert!(matches!(cause, Error::NotSupported { .. }), "{text}");
        text
    }
    for product in products() {
        assert!(reduce::<f32>(product, &mesh_all_reduce(Prod)).contains("f32 (prod)"));
        assert!(reduce::<i64>(product, &mesh_all_reduce(Sum)).contains("i64 (sum)"));
        assert!(reduce::<f64>(product, &mesh_all_reduce(Max)).contains("f64 (max)"));
        reduce::<u8>(product, &mesh_all_reduce(Min));
    }
}

#[test]
fn a_channel_has_as_many_notifies_as_its_first_operator_has_room_for() {
    let with_signals = |signals: u32| {
        Operator::other("signals", 0, 0, move |op, main| {
            let channel = op.channel(1 - op.rank());
            (0..signals).for_each(|index| main.signal(channel, index));
            (0..signals).for_each(|index| main.await_signal(channel, index));
        })
    };
    let (text, _) = refused(|comm, _, stream| comm.run(&with_signals(63)).submit(stream));
    assert!(text.contains("65 notifies at each end, but a channel has at most 64"), "{text}");
    let runtime = runtime_with(2);
    runtime
        .run_ranks(2, |rank| -> Result<()> {
            let (stream, mut comm) = (rank.device().stream()?, rank.communicator()?);
            comm.run(&with_signals(3)).submit(&stream)?;
            // Without the barrier a signal could be set again before the peer has waited for the
            // first one.
            comm.barrier(&stream)?;
            comm.run(&with_signals(6)).submit(&stream)?.wait()?;
            comm.barrier(&stream)?;
            let error = comm.run(&with_signals(7)).submit(&stream).expect_err("there are 8");
            let text = error.to_string();
            assert!(text.contains("8 notifies at each end, but this operator uses 9"), "{text}");
            comm.run(&with_signals(6)).submit(&stream)?.wait()
        })
        .unwrap();
}

#[test]
fn an_operator_is_where_its_communicator_is() {
    let (text, cause) = refused(|comm, device, stream| {
        let elsewhere = device.runtime().device(1 - device.index())?;
        let mut x = elsewhere.zeros::<f32>(4, &elsewhere.stream()?)?;
        let _ = stream;
        comm.run(&mesh_all_reduce(Sum)).in_place(&mut x).submit(stream)
    });
    assert!(matches!(cause, Error::WrongDevice { what: "the buffer", .. }), "{text}");
}

/// Behaves like `HcclChannelGetHcclBuffer` of a peer whose buffer has 64 bytes.
unsafe extern "C" fn short_buffer(
    comm: HcclComm,
    channel: ChannelHandle,
    start: *mut *mut c_void,
    bytes: *mut u64,
) -> HcclResult {
    let ask = ascend_emulator::table().HcclChannelGetHcclBuffer.expect("the emulator has it");
    // SAFETY: the arguments are those of the caller, and the last one may be written.
    unsafe {
        let told = ask(comm, channel, start, bytes);
        *bytes = 64;
        told
    }
}

#[test]
fn buffers_of_different_sizes_are_refused() {
    let table =
        Functions { HcclChannelGetHcclBuffer: Some(short_buffer), ..ascend_emulator::table() };
    // SAFETY: it does what CANN documents.
    let runtime = Runtime::from_api(unsafe { Api::from_table(table) }).unwrap();
    let texts = runtime.run_ranks(2, |rank| -> Result<String> {
        let (device, stream) = (rank.device(), rank.device().stream()?);
        let mut comm = rank.communicator()?;
        let (x, mut y) = (ones::<f32>(device, &stream, 4)?, ones::<f32>(device, &stream, 8)?);
        // The error is known when there is a channel, for which a helper waits.
        let run = comm.run(&mesh_all_gather()).input(&x).output(&mut y).submit(&stream)?;
        // No check of this rank refuses the next operator, but its tasks never get to a thread.
        let mut z = ones::<f32>(device, &stream, 8)?;
        let behind = comm.run(&mesh_all_gather()).input(&x).output(&mut z).submit(&stream);
        let error = behind.and_then(|behind| behind.wait()).unwrap_err();
        let Error::Refused { cause, .. } = &error else { panic!("{error}") };
        assert!(matches!(**cause, Error::OperatorFailed { sequence: 1, .. }), "{error}");
        assert_eq!(error.is_communicator_usable(), Some(false));
        assert!(error.to_string().contains("`mesh_all_gather` #1 has failed before"), "{error}");
        let error = run.wait().expect_err("the ranks would work in different rounds");
        assert!(matches!(error, Error::Refused { .. }), "{error}");
        Ok(error.to_string())
    });
    for piece in [
        "the communication buffer of rank 0 has 64 bytes",
        "that of this rank has 419430400",
        "give all ranks the same `buffer_mib`",
    ] {
        let text = &texts.as_ref().unwrap()[1];
        assert!(text.contains(piece), "{piece}: {text}");
    }
}
