//! The walk-through in the book shows the code, the output and the files of its example. The page
//! before it shows the kernels of the examples.

use std::path::Path;

use ascend_program::check::{Setting, check};
use ascend_program::flow::Launch;
use hccl::kernel::{Project, Recorded, Tiling};
use hccl::prelude::*;
use hccl_examples::kernels::reduce_scatter;
use hccl_examples::kernels::weighted_sum::*;
use hccl_tests::{is_loaded, own_devices, runtime_with};

const WEIGHTS: [f32; 4] = [0.5, 0.25, 0.125, 0.125];

fn read(file: &str) -> String {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    std::fs::read_to_string(root.join(file)).unwrap()
}

const WALK: &str = "docs/src/learn/kernel-walkthrough.md";

/// Returns the blocks of a page in one language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let page = read(page);
    let opening = format!("\n```{language}\n");
    let block = |rest: &str| rest.split("\n```").next().unwrap().to_owned();
    let blocks: Vec<String> = page.split(&opening).skip(1).map(block).collect();
    assert!(!blocks.is_empty(), "the page has no {language}");
    blocks
}

/// Asserts that all code of the page is in one of the texts, with any spaces.
fn are_in(blocks: &[String], texts: &[String]) {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines = |text: &str| text.lines().map(words).collect::<Vec<_>>();
    let texts: Vec<_> = texts.iter().map(|text| lines(text)).collect();
    for block in blocks {
        // A line with only an ellipsis stands for any lines.
        for part in lines(block).split(|line| line == "...").filter(|part| !part.is_empty()) {
            let found = texts.iter().any(|text| text.windows(part.len()).any(|at| at == part));
            assert!(found, "the page has what is nowhere:\n{}", part.join("\n"));
        }
    }
}

fn number(rank: usize, i: usize) -> f32 {
    (rank + i % 100) as f32
}

fn on_all_ranks(
    runtime: &Runtime,
    kernel: &Recorded<WeightedSumTiling>,
) -> hccl::Result<Vec<Vec<f32>>> {
    runtime.run_ranks(4, |rank| {
        let index = rank.index() as usize;
        let x: Vec<f32> = (0..LENGTH).map(|i| number(index, i)).collect();
        launch(&rank, kernel, &x, WEIGHTS[index])
    })
}

fn runtime() -> Runtime {
    if is_loaded() {
        return runtime_with(4);
    }
    let devices = own_devices().devices(4);
    devices.product(Product::A3).checked(true).build().unwrap()
}

#[test]
fn its_code_is_in_the_example() {
    let sources = ["examples/src/kernels/weighted_sum.rs", "examples/10_walkthrough.rs"];
    are_in(&blocks(WALK, "rust,ignore"), &sources.map(read));
    let examples = read("examples/Cargo.toml");
    for line in blocks(WALK, "sh").iter().flat_map(|block| block.lines()) {
        let name = line.strip_prefix("cargo run --release --example ").unwrap();
        let name = name.split(' ').next().unwrap();
        assert!(examples.contains(&format!("name = \"{name}\"")), "there is no example {name}");
    }
}

#[test]
fn what_it_prints_is_what_is_found_and_recorded() {
    let refused = on_all_ranks(&runtime(), &weighted_sum_at_first::record().unwrap());
    let kernel = weighted_sum::record().unwrap();
    let texts = [refused.unwrap_err().to_string(), kernel.to_string()];
    are_in(&blocks(WALK, "text"), &texts);
}

#[test]
fn its_source_is_in_the_project() {
    let kernel = weighted_sum::record().unwrap();
    let example = tiling(WEIGHTS[0], "group").unwrap();
    let project = Project { blocks: 4, ..Project::new(example.as_bytes()) };
    let files: Vec<String> =
        kernel.project(&project).unwrap().into_iter().map(|(_, text)| text).collect();
    are_in(&blocks(WALK, "cpp"), &files);
}

#[test]
fn the_numbers_that_it_proposes_at_the_end_are_refused() {
    let kernel = weighted_sum::record().unwrap();
    let good = tiling(WEIGHTS[0], "group").unwrap();
    let found = |tiling: WeightedSumTiling| {
        let launch = Launch { blocks: 4, tiling: tiling.as_bytes().to_vec(), groups: vec![(0, 4)] };
        let bytes = Some(4 * LENGTH as u64);
        let a3 = Setting::strict(ascend_program::check::Product::A3);
        let setting = Setting { parameters: vec![bytes, bytes], ..a3 };
        let findings = check(kernel.program(), &launch, &setting);
        findings.err().into_iter().flatten().map(|finding| finding.to_string()).collect::<String>()
    };
    assert_eq!(found(good), "");
    for (tiling, rule) in [
        (WeightedSumTiling { piece_len: 65536, ..good }, "error[memory]"),
        (WeightedSumTiling { tile_len: 300_000, ..good }, "error[bounds]"),
    ] {
        let found = found(tiling);
        assert!(found.contains(rule) && found.contains("weighted_sum.rs:"), "{found}");
    }
}

#[test]
fn the_page_before_shows_programs_and_sources_as_they_are() {
    const PAGE: &str = "docs/src/learn/kernels.md";
    let kernel = reduce_scatter::reduce_scatter_rounds::record().unwrap();
    // The next block has the mistakes of another kernel.
    are_in(&blocks(PAGE, "text")[..1], &[kernel.to_string()]);
    are_in(&blocks(PAGE, "cpp"), &[kernel.ascend_c().unwrap()]);
    let sources = ["matmul_all_reduce", "all_gather_matmul"];
    let sources = sources.map(|name| read(&format!("examples/src/kernels/{name}.rs")));
    are_in(&blocks(PAGE, "rust,ignore")[..1], &sources);
}

#[test]
fn its_kernel_computes_the_formula() {
    let found = on_all_ranks(&runtime(), &weighted_sum::record().unwrap()).unwrap();
    // The weights are fractions of small numbers, so every order of additions gives the same sum.
    let expected = |i: usize| (0..4).map(|rank| WEIGHTS[rank] * number(rank, i)).sum::<f32>();
    let expected: Vec<f32> = (0..LENGTH).map(expected).collect();
    assert!(found.iter().all(|y| *y == expected));
}
