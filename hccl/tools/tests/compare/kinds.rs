//! Tests that each kind of operation other than a single collective is recorded.

use hccl::f16;
use hccl::kernel::tiling::{CmdType, DataType, Mc2CcTilingConfig, Mc2InitTilingConfig};
use hccl::kernel::*;
use hccl::operator::{Operator, algorithms::mesh};
use hccl_examples::kernels::reduce_scatter::{ReduceScatterTiling, reduce_scatter_custom};

use super::*;

/// The operation to which rank 1 gives another element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Batch,
    Group,
    Operator,
    Kernel,
}

fn kinds(rank: &Rank, changed: Option<Kind>) -> hccl::Result<()> {
    let device = rank.device();
    let stream = device.stream()?;
    let mut comm = rank.communicator()?;
    let (me, n) = (rank.index(), rank.world_size());
    let own = |kind| if changed == Some(kind) && me == 1 { 9.0 } else { me as f32 };

    let sent = device.upload(&[own(Kind::Batch); 4], &stream)?;
    let mut got = device.zeros::<f32>(4, &stream)?;
    let (next, before) = ((me + 1) % n, (me + n - 1) % n);
    comm.batch().send(&sent, next).recv(&mut got, before).submit(&stream)?.wait()?;

    let x = device.upload(&[own(Kind::Group); 4], &stream)?;
    let mut sum = device.zeros::<f32>(4, &stream)?;
    hccl::group(|group| {
        group.on(&mut comm, &stream).all_reduce(&x, &mut sum, Sum);
        Ok(())
    })?
    .wait()?;

    let gather = Operator::all_gather("gather", mesh::all_gather);
    let x = device.upload(&[own(Kind::Operator); 4], &stream)?;
    let mut all = device.zeros::<f32>(4 * n as usize, &stream)?;
    comm.run(&gather).input(&x).output(&mut all).submit(&stream)?.wait()?;

    let mut tiling = ReduceScatterTiling { recv_count: 16, ..ReduceScatterTiling::zeroed() };
    let config = Mc2CcTilingConfig::builder().group_name(comm.name());
    let config = config.op_type(CmdType::ReduceScatter).source_type(DataType::F16);
    let config = config.reduce_op(hccl::dtype::ReduceKind::Sum).build();
    let product = hccl::Product::A3;
    Mc2InitTilingConfig::builder().product(product).build().fill(&mut tiling, &[config])?;
    let x = vec![f16::from_f32(own(Kind::Kernel)); 16 * n as usize];
    let x = device.upload(&x, &stream)?;
    let mut y = device.zeros::<f16>(16, &stream)?;
    let mut kernel = reduce_scatter_custom::record()?.load(device)?;
    let launch = kernel.launch(8).tiling(&tiling).group(&mut comm);
    launch.input(&x).output(&mut y).submit(&stream)?.wait()
}

fn recorded_kinds(changed: Option<Kind>) -> PathBuf {
    let directory = directory("kinds");
    let runtime = Runtime::emulator(RANKS as usize).unwrap();
    let recording = runtime.record_run(RunRecord::new(&directory)).unwrap();
    runtime.run_ranks(RANKS, |rank| kinds(&rank, changed)).unwrap();
    recording.finish().unwrap();
    directory
}

#[test]
fn messages_of_a_batch_groups_operators_and_kernels_leave_lines() {
    let plain = recorded_kinds(None);
    // Two messages, a collective, an operator, and the two tensors of a kernel, on each rank.
    says(compare(&plain, &recorded_kinds(None)), 0, &["the same: 18 operations of 3 ranks"]);
    for (kind, operation) in [
        (Kind::Batch, "world batch send to 2 1"),
        (Kind::Group, "world all_reduce 1"),
        (Kind::Operator, "world gather 2"),
        (Kind::Kernel, "world kernel reduce_scatter_custom x 1"),
    ] {
        let said = format!("`{operation}`, in its input, on rank 1");
        says(compare(&plain, &recorded_kinds(Some(kind))), 1, &[&said]);
    }
    // The recorded lines hold the results, too.
    let text = std::fs::read_dir(&plain).unwrap().map(|entry| entry.unwrap().path());
    let text: String = text.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    for (operation, parts) in [
        ("world batch recv from 1 1\tf32", ["\t-\t", "\t16:"]),
        ("world all_reduce 1\tf32", ["\t16:", "\t16:"]),
        ("world gather 2\tf32", ["\t16:", "\t48:"]),
        ("world kernel reduce_scatter_custom x 1\tf16", ["\t96:", "\t-"]),
        ("world kernel reduce_scatter_custom y 1\tf16", ["\t-\t", "\t32:"]),
    ] {
        let line = text.lines().find(|line| line.contains(operation)).expect(operation);
        let values = &line[line.find(operation).unwrap() + operation.len()..];
        assert!(values.starts_with(parts[0].trim_end_matches('\t')), "{line}");
        assert!(values[1..].contains(parts[1]), "{line}");
    }
}
