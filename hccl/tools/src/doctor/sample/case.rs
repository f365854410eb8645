//! The cases of the sample. A case is an operation with a type and a size; each rank runs its part.

use std::time::{Duration, Instant};

use hccl::dtype::{DType, Reduce, ReduceKind, ReduceOp, bf16, f16};
use hccl::prelude::*;

use super::element::{Sample, WithReduction};

/// An operation of the sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SampleOp {
    Barrier,
    Broadcast,
    AllGather,
    AllGatherV,
    Scatter,
    AllToAll,
    AllToAllV,
    AllToAllVC,
    /// Each rank with an even number sends to the next one.
    SendRecv,
    /// A ring of messages as one batch.
    Batch,
    AllReduce(ReduceKind),
    AllReduceInPlace(ReduceKind),
    Reduce(ReduceKind),
    ReduceScatter(ReduceKind),
    ReduceScatterV(ReduceKind),
}

use SampleOp::*;

const MOVEMENTS: [SampleOp; 9] =
    [Broadcast, AllGather, AllGatherV, Scatter, AllToAll, AllToAllV, AllToAllVC, SendRecv, Batch];

const KINDS: [ReduceKind; 4] =
    [ReduceKind::Sum, ReduceKind::Max, ReduceKind::Min, ReduceKind::Prod];

impl SampleOp {
    fn kind(self) -> Option<ReduceKind> {
        match self {
            AllReduce(kind)
            | AllReduceInPlace(kind)
            | Reduce(kind)
            | ReduceScatter(kind)
            | ReduceScatterV(kind) => Some(kind),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Barrier => "barrier",
            Broadcast => "broadcast",
            AllGather => "all_gather",
            AllGatherV => "all_gather_v",
            Scatter => "scatter",
            AllToAll => "all_to_all",
            AllToAllV => "all_to_all_v",
            AllToAllVC => "all_to_all_vc",
            SendRecv => "send_recv",
            Batch => "batch",
            AllReduce(_) => "all_reduce",
            AllReduceInPlace(_) => "all_reduce_in_place",
            Reduce(_) => "reduce",
            ReduceScatter(_) => "reduce_scatter",
            ReduceScatterV(_) => "reduce_scatter_v",
        }
    }
}

/// A case of the sample: an operation, a type and a number of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) op: SampleOp,
    pub(crate) dtype: DType,
    /// The number of elements that a rank gives, or the number of elements in the part of each
    /// rank.
    pub(crate) elements: usize,
}

impl Case {
    /// Returns the case as text for a report.
    pub(crate) fn text(&self, ranks: u32) -> String {
        let op = self.op.name();
        let kind = self.op.kind().map_or("-".to_owned(), |kind| kind.name().to_owned());
        format!(
            "{op:<20} {kind:<4} {:<4} {:>8} elements {ranks:>3} ranks",
            self.dtype.name(),
            self.elements
        )
    }
}

/// Returns all cases for this product, the most important ones first.
pub(crate) fn cases(product: Option<Product>) -> Vec<Case> {
    let mut cases = vec![Case { op: Barrier, dtype: DType::F32, elements: 0 }];
    let mut add = |types: &[DType], elements: usize| {
        for &dtype in types {
            let of = |op| Case { op, dtype, elements };
            cases.extend(MOVEMENTS.map(of));
            for kind in KINDS.into_iter().filter(|kind| is_reduced(dtype, *kind, product)) {
                let ops =
                    [AllReduce(kind), AllReduceInPlace(kind), Reduce(kind), ReduceScatter(kind)];
                cases.extend(ops.map(of));
                // The A2 and the A3 compute no products in this operation, and the A2 no sums of
                // i64.
                if matches!(kind, ReduceKind::Sum)
                    && !matches!(dtype, DType::I64 | DType::U64 | DType::F64)
                {
                    cases.push(of(ReduceScatterV(kind)));
                }
            }
        }
    };
    let first = [DType::F32, DType::I32];
    let rest: Vec<DType> =
        DType::ALL.iter().copied().filter(|dtype| !first.contains(dtype)).collect();
    add(&first, 1000);
    add(&rest, 1000);
    add(&first, 1);
    add(&[DType::F32, DType::BF16, DType::F16], 65_537);
    add(&rest, 1);
    add(&[DType::F32, DType::U8], 1 << 18);
    cases
}

fn is_reduced(dtype: DType, kind: ReduceKind, product: Option<Product>) -> bool {
    // Only the Ascend 950 reduces these types.
    let is_wide = matches!(dtype, DType::U64 | DType::F64);
    dtype.is_reduced_by(kind) && (!is_wide || product == Some(Product::Ascend950))
}

/// The observations of one rank in a case.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The first element that differs, and the number of elements that differ.
    pub(crate) difference: Option<Difference>,
    /// The time from the call to its completion in the first run; `again` is that of the second
    /// run.
    pub(crate) first: Duration,
    pub(crate) again: Duration,
}

/// An element that differs from the expected one.
#[derive(Clone, Debug)]
pub(crate) struct Difference {
    pub(crate) element: usize,
    pub(crate) expected: String,
    pub(crate) got: String,
    pub(crate) count: usize,
}

/// The communicator and the stream of a rank.
pub(crate) struct Bench<'a> {
    pub(crate) comm: &'a mut Communicator,
    pub(crate) stream: &'a Stream,
}

/// Runs one rank's part of a case, twice.
pub(crate) fn run(case: &Case, bench: &mut Bench<'_>) -> hccl::Result<Seen> {
    match case.dtype {
        DType::I8 => run_of::<i8>(case, bench),
        DType::I16 => run_of::<i16>(case, bench),
        DType::I32 => run_of::<i32>(case, bench),
        DType::I64 => run_of::<i64>(case, bench),
        DType::U8 => run_of::<u8>(case, bench),
        DType::U16 => run_of::<u16>(case, bench),
        DType::U32 => run_of::<u32>(case, bench),
        DType::U64 => run_of::<u64>(case, bench),
        DType::F16 => run_of::<f16>(case, bench),
        DType::BF16 => run_of::<bf16>(case, bench),
        DType::F32 => run_of::<f32>(case, bench),
        _ => run_of::<f64>(case, bench),
    }
}

fn run_of<T: Sample>(case: &Case, bench: &mut Bench<'_>) -> hccl::Result<Seen> {
    let mut time = Duration::ZERO;
    let (got, expected) = once::<T>(case, bench, &mut time)?;
    let first = time;
    let mut difference = compare(&got, &expected);
    let (got, expected) = once::<T>(case, bench, &mut time)?;
    difference = difference.or_else(|| compare(&got, &expected));
    Ok(Seen { difference, first, again: time })
}

fn compare<T: Sample>(got: &[T], expected: &[T]) -> Option<Difference> {
    if got.len() != expected.len() {
        let element = got.len().min(expected.len());
        let [expected, got] = [expected, got].map(|it| format!("{} elements", it.len()));
        return Some(Difference { element, expected, got, count: 1 });
    }
    let differs = |(got, expected): (&T, &T)| got.into_bits() != expected.into_bits();
    let element = got.iter().zip(expected).position(differs)?;
    let count = got.iter().zip(expected).filter(|pair| differs(*pair)).count();
    let (expected, got) = (expected[element].text(), got[element].text());
    Some(Difference { element, expected, got, count })
}

/// Runs a call until its operation is complete, and sets `time` to the time that this takes.
fn timed<R>(time: &mut Duration, run: impl FnOnce() -> hccl::Result<R>) -> hccl::Result<R> {
    let begin = Instant::now();
    let result = run();
    *time = begin.elapsed();
    result
}

/// Waits for an operation, and returns its buffer.
fn wait_for<B>((buffer, work): (B, Work)) -> hccl::Result<B> {
    work.wait()?;
    Ok(buffer)
}

/// Runs a case once, and sets `time` to the time from the call to its completion. A rank that has
/// no peer for a message does not set it. Returns the elements that this rank gets, and the
/// expected ones.
fn once<T: Sample>(
    case: &Case,
    bench: &mut Bench<'_>,
    time: &mut Duration,
) -> hccl::Result<(Vec<T>, Vec<T>)> {
    let Bench { comm, stream } = bench;
    let (me, ranks, n) = (comm.rank(), comm.world_size(), case.elements);
    let device = stream.device();
    let own: Vec<T> = (0..n).map(|index| T::moved(me, index)).collect();
    let of_ranks =
        |rank: u32, from: usize| (from..from + n).map(move |index| T::moved(rank, index));
    // The size of a part depends on the number of the rank, so that parts differ.
    let parts = |rank: u32| n / 2 + rank as usize % 3;
    let root = ranks - 1;
    if let Some(kind) = case.op.kind() {
        return reduction(case.op, kind, n, bench, time);
    }
    match case.op {
        Barrier => {
            timed(time, || comm.barrier(stream)?.wait())?;
            Ok((Vec::new(), Vec::new()))
        }
        Broadcast => {
            let mut buffer = device.upload(&own, stream)?;
            timed(time, || comm.broadcast(&mut buffer, root, stream)?.wait())?;
            Ok((buffer.to_vec(stream).wait()?, of_ranks(root, 0).collect()))
        }
        AllGather => {
            let send = device.upload(&own, stream)?;
            let all = device.alloc(n * ranks as usize)?;
            let all = timed(time, || wait_for(comm.all_gather(&send, all, stream)?))?;
            Ok((
                all.to_vec(stream).wait()?,
                (0..ranks).flat_map(|rank| of_ranks(rank, 0)).collect(),
            ))
        }
        AllGatherV => {
            let partition = Partition::packed((0..ranks).map(parts))?;
            let own: Vec<T> = (0..parts(me)).map(|index| T::moved(me, index)).collect();
            let send = device.upload(&own, stream)?;
            let mut all = device.zeros(partition.extent(), stream)?;
            timed(time, || comm.all_gather_v(&send, &mut all, &partition, stream)?.wait())?;
            let expected = (0..ranks)
                .flat_map(|rank| (0..parts(rank)).map(move |index| T::moved(rank, index)));
            Ok((all.to_vec(stream).wait()?, expected.collect()))
        }
        Scatter => {
            let whole: Vec<T> =
                (0..n * ranks as usize).map(|index| T::moved(root, index)).collect();
            let send = if me == root { Some(device.upload(&whole, stream)?) } else { None };
            let part = device.alloc(n)?;
            let part =
                timed(time, || wait_for(comm.scatter(send.as_ref(), part, root, stream)?))?;
            Ok((part.to_vec(stream).wait()?, of_ranks(root, n * me as usize).collect()))
        }
        AllToAll => {
            let whole: Vec<T> = (0..n * ranks as usize).map(|index| T::moved(me, index)).collect();
            let send = device.upload(&whole, stream)?;
            let came = device.alloc(whole.len())?;
            let came = timed(time, || wait_for(comm.all_to_all(&send, came, stream)?))?;
            let expected = (0..ranks).flat_map(|rank| of_ranks(rank, n * me as usize));
            Ok((came.to_vec(stream).wait()?, expected.collect()))
        }
        AllToAllV | AllToAllVC => {
            // The number of elements from one rank to another depends on the sum of their numbers.
            let count = |from: u32, to: u32| parts(from + to);
            let to = Partition::packed((0..ranks).map(|rank| count(me, rank)))?;
            let from = Partition::packed((0..ranks).map(|rank| count(rank, me)))?;
            let own: Vec<T> = (0..to.extent()).map(|index| T::moved(me, index)).collect();
            let send = device.upload(&own, stream)?;
            let mut came = device.zeros(from.extent(), stream)?;
            let pairs = (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to)));
            let counts: Vec<u64> = pairs.map(|(from, to)| count(from, to) as u64).collect();
            let counts = CountMatrix::new(ranks, counts)?;
            timed(time, || match case.op {
                AllToAllV => comm.all_to_all_v(&send, &mut came, &to, &from, stream)?.wait(),
                _ => comm.all_to_all_vc(&send, &mut came, &counts, stream)?.wait(),
            })?;
            let expected = (0..ranks).flat_map(|rank| {
                let begin: usize = (0..me).map(|to| count(rank, to)).sum();
                (begin..begin + count(rank, me)).map(move |index| T::moved(rank, index))
            });
            Ok((came.to_vec(stream).wait()?, expected.collect()))
        }
        SendRecv => {
            let mut buffer = device.upload(&own, stream)?;
            if me % 2 == 0 && me + 1 < ranks {
                timed(time, || comm.send(&buffer, me + 1, stream)?.wait())?;
            } else if me % 2 == 1 {
                timed(time, || comm.recv(&mut buffer, me - 1, stream)?.wait())?;
            }
            let sender = if me % 2 == 1 { me - 1 } else { me };
            Ok((buffer.to_vec(stream).wait()?, of_ranks(sender, 0).collect()))
        }
        _ => {
            // A rank sends nothing to itself.
            if ranks == 1 {
                return Ok((own.clone(), own));
            }
            let send = device.upload(&own, stream)?;
            let mut came = device.zeros(n, stream)?;
            let (next, before) = ((me + 1) % ranks, (me + ranks - 1) % ranks);
            let batch = comm.batch().send(&send, next).recv(&mut came, before);
            timed(time, || batch.submit(stream)?.wait())?;
            Ok((came.to_vec(stream).wait()?, of_ranks(before, 0).collect()))
        }
    }
}

fn reduction<T: Sample>(
    op: SampleOp,
    kind: ReduceKind,
    n: usize,
    bench: &mut Bench<'_>,
    time: &mut Duration,
) -> hccl::Result<(Vec<T>, Vec<T>)> {
    let (me, ranks) = (bench.comm.rank(), bench.comm.world_size());
    let root = ranks - 1;
    let parts: Vec<usize> = (0..ranks as usize).map(|rank| n / 2 + rank % 3 + 1).collect();
    let own_part: usize = parts[..me as usize].iter().sum();
    // The elements that this rank gives, and those of them whose result it gets.
    let (gives, gets) = match op {
        ReduceScatter(_) => (n * ranks as usize, n * me as usize..n * (me as usize + 1)),
        ReduceScatterV(_) => (parts.iter().sum(), own_part..own_part + parts[me as usize]),
        Reduce(_) if me != root => (n, 0..0),
        _ => (n, 0..n),
    };
    let given: Vec<T> = (0..gives).map(|index| T::given(kind, me, ranks, index)).collect();
    let expected: Vec<T> = gets.map(|index| T::reduced(kind, ranks, index)).collect();
    let call = Reduction { op, given, parts, gets: expected.len(), bench, time };
    // The list of cases contains only reductions that the type has.
    Ok((T::with(kind, call)?.unwrap_or_default(), expected))
}

struct Reduction<'a, 'b, T> {
    op: SampleOp,
    given: Vec<T>,
    parts: Vec<usize>,
    gets: usize,
    bench: &'a mut Bench<'b>,
    time: &'a mut Duration,
}

impl<T: Sample> WithReduction<T> for Reduction<'_, '_, T> {
    fn call<Op: ReduceOp>(self, op: Op) -> hccl::Result<Option<Vec<T>>>
    where
        T: Reduce<Op>,
    {
        let Reduction { op: which, given, parts, gets, bench, time } = self;
        let Bench { comm, stream } = bench;
        let root = comm.world_size() - 1;
        let device = stream.device();
        let mut send = device.upload(&given, stream)?;
        let mut recv = device.zeros(gets, stream)?;
        let partition = Partition::packed(parts)?;
        timed(time, || {
            let work = match which {
                AllReduceInPlace(_) => comm.all_reduce_in_place(&mut send, op, stream)?,
                Reduce(_) => {
                    let recv = (comm.rank() == root).then_some(&mut recv);
                    comm.reduce(&send, recv, op, root, stream)?
                }
                ReduceScatter(_) => comm.reduce_scatter(&send, &mut recv, op, stream)?,
                ReduceScatterV(_) => {
                    comm.reduce_scatter_v(&send, &mut recv, op, &partition, stream)?
                }
                _ => comm.all_reduce(&send, &mut recv, op, stream)?,
            };
            work.wait()
        })?;
        let result = if let AllReduceInPlace(_) = which { send } else { recv };
        result.to_vec(stream).wait().map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_case_is_there_once_and_reduces_what_its_type_reduces() {
        for product in [None, Some(Product::A2), Some(Product::Ascend950)] {
            let cases = cases(product);
            for (at, case) in cases.iter().enumerate() {
                assert!(!cases[..at].contains(case), "{case:?}");
                let kind = case.op.kind();
                assert!(kind.is_none_or(|kind| is_reduced(case.dtype, kind, product)), "{case:?}");
            }
            let wide =
                cases.iter().any(|case| case.dtype == DType::F64 && case.op.kind().is_some());
            assert_eq!(wide, product == Some(Product::Ascend950));
            assert!(cases.len() > 300, "{}", cases.len());
        }
    }

    #[test]
    fn a_difference_is_the_first_one() {
        let found = compare(&[1.0f32, 2.0, 4.0, 5.0], &[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!((found.element, found.count), (2, 2));
        assert!(found.expected.starts_with("3 ") && found.got.starts_with("4 "), "{found:?}");
        assert!(compare(&[f32::NAN], &[f32::NAN]).is_none());
        assert_eq!(compare(&[1u8], &[1, 2]).unwrap().element, 1);
    }
}
