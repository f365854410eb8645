//! The kernels of the examples as Ascend C: their text, their compilation, and their requests to
//! the server when they run on the host. With `HCCL_TEST_FULL=1` all of them are compiled, else
//! some of them.

use std::path::Path;
use std::{env, fs};

use ascend_program::{Program, ascend_c};
use hccl::kernel::*;
use hccl_examples::kernels::*;
use hccl_tests::full;

use ascend_program_testing::compiler::{Directory, complaints, sources};
use ascend_program_testing::run::{self, Launch, bytes, numbers, tiling};

fn all() -> Vec<(&'static str, Program)> {
    macro_rules! programs {
        ($($name:literal: $module:ident::$kernel:ident),* $(,)?) => {
            vec![$(($name, $module::$kernel::record().unwrap().program().clone())),*]
        };
    }
    programs! {
        "all_to_all": all_to_all::all_to_all_custom,
        "all_to_all_rounds": all_to_all::all_to_all_rounds,
        "reduce_scatter": reduce_scatter::reduce_scatter_custom,
        "reduce_scatter_rounds": reduce_scatter::reduce_scatter_rounds,
        "all_to_all_v": all_to_all_v::all_to_all_v_custom,
        "vadd": vadd::vadd,
        "matmul_all_reduce": matmul_all_reduce::matmul_all_reduce,
        "all_gather_matmul": all_gather_matmul::all_gather_matmul,
    }
}

#[test]
fn the_kernels_of_the_examples_are_printed_as_a_person_would_write_them() {
    for (name, program) in all() {
        let found = ascend_c::kernel(&program).unwrap();
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/all/kernels/{name}.cpp"));
        if env::var_os("HCCL_TEST_BLESS").is_some() {
            fs::write(&path, &found).unwrap();
        }
        let expected = fs::read_to_string(&path).unwrap();
        assert_eq!(found, expected, "{name} is printed differently");
    }
}

/// Computes the sums of pairs, by way of two parts of the workspace.
#[kernel(mix = "aiv_1_0")]
fn by_way_of_the_workspace(k: Kernel, x: Input<f32>, y: Output<f32>) {
    let sums = k.workspace::<f32>(0);
    let counts = k.workspace::<u64>(1024);
    let scratch = k.scratch::<f32>(64).get();
    k.when(k.block_index().eq(0), || {
        k.copy_in(&scratch, x, 64);
        k.wait_for(Pipe::Out, Pipe::In);
        k.copy_out(sums.at(64), &scratch, 64);
        k.range(..32u64, |i| {
            let pair = x.get(i * 2) + x.get(i * 2 + 1);
            sums.set(i, pair);
            sums.clean(i);
            counts.set(i, i);
            counts.clean(i);
        });
        k.wait_for(Pipe::Scalar, Pipe::Out);
        k.range(..32u64, |i| {
            sums.clean(i + 64);
            let first = sums.get(i + 64);
            let number = counts.get(i);
            y.set(number, sums.get(i) + first);
            y.clean(number);
        });
    });
}

#[test]
fn parts_of_the_workspace_have_their_names_and_hold_what_is_written() {
    let program = by_way_of_the_workspace::record().unwrap().program().clone();
    let source = ascend_c::kernel(&program).unwrap();
    for text in [
        "GlobalTensor<float> sums;\n    sums.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(userWorkspace));",
        "counts.SetGlobalBuffer(reinterpret_cast<__gm__ uint64_t*>(userWorkspace + 1024));",
        "DataCopyPad(sums[64], ",
        "sums.SetValue(i, pair);",
        "DataCacheCleanAndInvalid<float, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(sums[i]);",
        "const float first = sums.GetValue(i + 64);",
    ] {
        assert!(source.contains(text), "{text} is not in\n{source}");
    }
    let floats: Vec<f32> = (0..64).map(|at| element(0, at)).collect();
    let launch = Launch {
        ranks: 1,
        blocks: 2,
        tilings: Vec::new(),
        inputs: vec![vec![floats.iter().flat_map(|x| x.to_le_bytes()).collect()]],
        outputs: vec![128],
    };
    let Some(outcome) = run::run(&program, &launch) else { return };
    let expected = (0..32).map(|at| floats[2 * at] + floats[2 * at + 1] + floats[at]);
    let expected: Vec<u8> = expected.flat_map(f32::to_le_bytes).collect();
    assert_eq!(outcome.outputs[0][0], expected);
}

#[test]
fn doc_comments_are_carried_over() {
    let kernel = weighted_sum::weighted_sum::record().unwrap();
    let source = kernel.ascend_c().unwrap();
    let documented = "\n// `y = sum of weight * x over the ranks`. While the server sums one tile, the cores scale the next.\nextern";
    assert!(source.contains(documented), "{source}");
    let header = kernel.program().tiling.as_ref().unwrap().header();
    for documented in [
        "\n// Sizes of `weighted_sum()`, and the weight of this rank.\nstruct WeightedSumTiling {\n",
        "\n    // The number of elements of a tile.\n    uint64_t tileLen;",
    ] {
        assert!(header.contains(documented), "{header}");
    }
    // A comment may contain any text.
    let mut program = kernel.program().clone();
    program.doc = format!("First \\\n\n{} */ last \\ ", "word ".repeat(40));
    let source = ascend_c::kernel(&program).unwrap();
    let comment = source.split("\nextern").next().unwrap().split("\n\n").last().unwrap();
    let lines: Vec<_> = comment.lines().collect();
    assert_eq!(lines[..2], ["// First", "//"]);
    assert_eq!(lines[lines.len() - 1].split("word").last(), Some(" */ last"));
    assert!(lines.iter().all(|line| line.starts_with("//") && line.len() <= 120), "{comment}");
}

#[test]
fn a_recorded_kernel_comes_with_its_operator_project() {
    let kernel = reduce_scatter::reduce_scatter_rounds::record().unwrap();
    let mut bytes = tiling(kernel.program().tiling.as_ref().unwrap(), 7, &ROUNDS);
    let files = kernel.project(&Project::new(bytes.clone())).unwrap();
    let file = |end: &str| files.iter().find(|(path, _)| path.ends_with(end)).map(|file| &file.1);
    assert_eq!(file("op_kernel/reduce_scatter_rounds.cpp"), Some(&kernel.ascend_c().unwrap()));
    assert!(file("op_host/reduce_scatter_rounds.cpp").is_some(), "{files:?}");
    bytes.pop();
    let error = kernel.project(&Project::new(bytes)).unwrap_err().to_string();
    assert!(
        error.contains("the size of the tiling is 607, but that of its struct is 608"),
        "{error}"
    );
}

#[test]
fn the_kernels_of_the_examples_compile_as_ascend_c() {
    let some = ["vadd", "all_gather_matmul"];
    for (name, program) in all() {
        if !full() && !some.contains(&name) {
            continue;
        }
        let directory = Directory::new(&format!("example-{name}"));
        let Some(said) = complaints(&[], &sources(&program, &directory)) else { return };
        assert!(said.is_empty(), "{name}: {said}");
    }
}

/// Runs a program on four ranks with two blocks, and checks that each rank makes these calls.
/// Returns the output of each rank, or `None` without a compiler.
fn on_four_ranks(
    program: &Program,
    operation: u32,
    fields: &[(&str, &[u64])],
    [input, output]: [usize; 2],
    calls: &[&str],
) -> Option<Vec<Vec<f32>>> {
    let of = |rank: usize| bytes((0..input).map(|at| element(rank, at)));
    let launch = Launch {
        ranks: 4,
        blocks: 2,
        tilings: vec![tiling(program.tiling.as_ref().unwrap(), operation, fields)],
        inputs: vec![(0..4).map(of).collect()],
        outputs: vec![2 * output],
    };
    let outcome = run::run(program, &launch)?;
    for of_rank in outcome.calls {
        let (first, rest) = of_rank.split_at(2);
        assert_eq!(first, ["InitV2 group=0", "SetCcTilingV2 offset=64"]);
        let (rest, last) = rest.split_at(rest.len() - 2);
        assert_eq!(rest, calls);
        assert_eq!(last, ["SyncAll<true>", "Finalize"]);
    }
    Some(outcome.outputs[0].iter().map(|bytes| numbers(bytes)).collect())
}

/// Returns the initial value of an element of rank `rank`.
fn element(rank: usize, at: usize) -> f32 {
    ((rank * 7 + at * 3) % 61) as f32
}

const ROUNDS: [(&str, &[u64]); 3] = [("tileNum", &[2]), ("tileLen", &[128]), ("tailNum", &[1])];

fn exchanged(output: Option<Vec<Vec<f32>>>, each: usize) {
    for (rank, output) in output.into_iter().flatten().enumerate() {
        let wanted = (0..4 * each).map(|at| element(at / each, rank * each + at % each));
        assert!(output.into_iter().eq(wanted), "rank {rank}");
    }
}

fn summed(output: Option<Vec<Vec<f32>>>, each: usize) {
    for (rank, output) in output.into_iter().flatten().enumerate() {
        let sum = |at: usize| (0..4).map(|from| element(from, rank * each + at)).sum::<f32>();
        assert!(output.into_iter().eq((0..each).map(sum)), "rank {rank}");
    }
}

/// Compares the calls with the listings on the pages of AlltoAll and ReduceScatter, with their
/// sizes.
#[test]
fn kernels_in_rounds_make_the_calls_of_their_pages() {
    let program = all_to_all::all_to_all_rounds::record().unwrap().program().clone();
    let calls = [
        "AlltoAll commit=1 send=x+0 recv=y+0 count=128 dtype=3 op=0 stride=356 repeat=2 handle=0",
        "AlltoAll commit=1 send=x+512 recv=y+512 count=100 dtype=3 op=0 stride=356 repeat=1 handle=1",
        "Wait handle=0",
        "Wait handle=0",
        "Wait handle=1",
    ];
    let fields = [&ROUNDS[..], &[("tailLen", &[100])]].concat();
    exchanged(on_four_ranks(&program, 10, &fields, [4 * 356; 2], &calls), 356);

    let program = reduce_scatter::reduce_scatter_rounds::record().unwrap().program().clone();
    let calls = [
        "ReduceScatter commit=1 send=x+0 recv=y+0 count=128 dtype=3 op=0 stride=300 repeat=2 handle=0",
        "ReduceScatter commit=1 send=x+512 recv=y+512 count=44 dtype=3 op=0 stride=300 repeat=1 handle=1",
        "Wait handle=0",
        "Wait handle=0",
        "Wait handle=1",
    ];
    let fields = [&ROUNDS[..], &[("tailLen", &[44])]].concat();
    summed(on_four_ranks(&program, 7, &fields, [4 * 300, 300], &calls), 300);
}

/// Checks a kernel with a task without turns. Such a task does not exist: its handle is invalid.
#[test]
fn a_kernel_whose_task_is_refused_leaves_on_all_cores_before_it_waits() {
    let program = reduce_scatter::reduce_scatter_rounds::record().unwrap().program().clone();
    let run = |turns: [u64; 2]| {
        let fields: [(&str, &[u64]); 4] = [
            ("tileNum", &turns[..1]),
            ("tileLen", &[128]),
            ("tailNum", &turns[1..]),
            ("tailLen", &[44]),
        ];
        let launch = Launch {
            ranks: 2,
            blocks: 2,
            tilings: vec![tiling(program.tiling.as_ref().unwrap(), 7, &fields)],
            inputs: vec![vec![bytes([0.0; 600]); 2]],
            outputs: vec![600],
        };
        run::run(&program, &launch)
    };
    let Some(outcome) = run([0, 1]) else { return };
    for calls in outcome.calls {
        assert_eq!(calls, ["InitV2 group=0", "SetCcTilingV2 offset=64"]);
    }
    // The second task is refused after the first one has been prepared, and no core waits for the
    // first one.
    for calls in run([2, 0]).unwrap().calls {
        assert!(calls.len() == 3 && calls[2].starts_with("ReduceScatter commit=1"), "{calls:?}");
    }
}

#[test]
fn kernels_at_once_make_the_calls_of_their_pages() {
    if !full() {
        return;
    }
    let program = all_to_all::all_to_all_custom::record().unwrap().program().clone();
    let calls = [
        "AlltoAll commit=1 send=x+0 recv=y+0 count=128 dtype=3 op=0 stride=0 repeat=1 handle=0",
        "Wait handle=0",
    ];
    let sizes = [4 * 128; 2];
    exchanged(on_four_ranks(&program, 10, &[("dataCount", &[128])], sizes, &calls), 128);

    let program = reduce_scatter::reduce_scatter_custom::record().unwrap().program().clone();
    let calls = [
        "ReduceScatter commit=1 send=x+0 recv=y+0 count=300 dtype=3 op=0 stride=0 repeat=1 handle=0",
        "Wait handle=0",
    ];
    let fields = [("recvCount", &[300][..])];
    summed(on_four_ranks(&program, 7, &fields, [4 * 300, 300], &calls), 300);
}
