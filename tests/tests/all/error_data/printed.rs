//! `{:?}` of an error prints its type and the text of `Display`. `unwrap` shows this form.

use std::fmt::{Debug, Display};

use hccl::kernel::{Input, Kernel, Output, Tiling, kernel};
use hccl::operator::Operator;
use hccl::prelude::*;
use hccl::{Error, Result};
use hccl_tests::own_devices;

fn check<E: Debug + Display + std::error::Error>(name: &str, error: &E) {
    assert_eq!(format!("{error:?}"), format!("{name}: {error}"));
}

#[derive(Debug, Tiling)]
#[repr(C)]
struct Sizes {
    length: u64,
}

#[kernel(mix = "aiv_only")]
fn mistaken(k: Kernel<Sizes>, x: Input<u64>, y: Output<u64>) {
    y.set(-1, k.tiling().length);
    let _ = x;
}

#[test]
fn every_error_type_is_debugged_as_its_text() {
    let runtime = own_devices().devices(2).product(Product::Ascend950).build().unwrap();
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let comms = Communicator::init_all(std::slice::from_ref(&device)).wait().unwrap();
    let [mut comm] = <[_; 1]>::try_from(comms).unwrap();
    let x = device.zeros::<u64>(4, &stream).unwrap();

    check("RecordError", &mistaken::record().unwrap_err());
    let long = |op: &hccl::operator::Recorder<'_>, main: &mut hccl::operator::MainThread<'_>| {
        main.copy(op.input(), op.output().slice(..9));
    };
    check("RecordError", &Operator::other("long", 1, 1, long).record::<f32>(1, 8).unwrap_err());
    check("DecodeError", &ascend_program::Program::from_bytes(&[]).unwrap_err());
    check("HeaderError", &Sizes::LAYOUT.macro_header("no name").unwrap_err());
    check("LoadError", &ascend_sys::Api::load_from("/nowhere").unwrap_err());
    check("Refused", &comm.all_gather(&x, device.alloc(1).unwrap(), &stream).unwrap_err());
    let own = comm.batch().send(&x, 0).submit(&stream).unwrap_err();
    let Error::Refused { cause, .. } = &own else { panic!("{own}") };
    let Error::Batch(batch) = &**cause else { panic!("{cause}") };
    check("BatchError", batch);
    check("Unchanged", &comm.suspend().unwrap_err());

    let counts = CountMatrix::new(2, vec![1; 3]).map(drop).map_err(Error::from);
    let tiling = Sizes::from_bytes(&[0; 3]).map(drop);
    let root = RootInfo::new(&device).unwrap();
    let config = CommConfig::builder().buffer_mib(0).build();
    let builder = Communicator::builder().device(&device).rank(0).world_size(1);
    let config = builder.root_info(&root).config(config).build().wait().map(drop);
    let config = config.map_err(|error| match error {
        Error::Refused { context, cause } => {
            assert_eq!((context.operation, context.rank), ("Communicator::builder", Some(0)));
            *cause
        }
        other => other,
    });
    let rank = runtime.run_ranks(1, |_| -> Result<()> { Err(own.clone()) }).map(drop);
    for outcome in [counts, tiling, config, rank] {
        let error = outcome.unwrap_err();
        let variant = match &error {
            Error::Counts(inner) => {
                check("CountsError", inner);
                "Counts"
            }
            Error::Tiling(inner) => {
                check("TilingError", inner);
                "Tiling"
            }
            Error::Config(inner) => {
                check("ConfigError", inner);
                "Config"
            }
            Error::Rank(inner) => {
                check("RankError", inner);
                "Rank"
            }
            other => panic!("{other}"),
        };
        check(variant, &error);
    }
}
