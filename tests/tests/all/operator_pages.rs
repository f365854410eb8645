//! The pages of the book about operators match the examples and their output.

use std::fs;
use std::path::Path;

use hccl::operator::*;
use hccl::prelude::*;
use hccl_examples::operators::all_gather::{hasty, mesh};
use hccl_examples::operators::line::line_all_reduce;
use hccl_examples::operators::point_to_point::{FROM, TO, point_to_point};

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)).unwrap()
}

/// Asserts that the page has this block, in this language.
#[track_caller]
fn has(page: &str, language: &str, block: &str) {
    let fenced = format!("```{language}\n{}\n```", block.trim_end());
    assert!(page.contains(&fenced), "the page lacks this block:\n{fenced}");
}

/// Returns a function of an example with its comment, as the source has it.
fn function(source: &str, name: &str) -> String {
    let lines: Vec<&str> = source.lines().collect();
    let at = lines.iter().position(|line| line.starts_with(&format!("pub fn {name}(")));
    let at = at.unwrap_or_else(|| panic!("there is no `pub fn {name}`"));
    let start = lines[..at].iter().rposition(|line| !line.starts_with("///")).unwrap() + 1;
    let end = at + lines[at..].iter().position(|line| *line == "}").unwrap();
    lines[start..=end].join("\n")
}

#[test]
fn the_page_about_one_message_shows_the_example_and_what_it_prints() {
    let page = read("docs/src/learn/operators.md");
    let source = read("examples/src/operators/point_to_point.rs");
    assert!(page.contains(&function(&source, "point_to_point")), "another function");
    let send = Operator::send("point_to_point", FROM, TO, point_to_point);
    let recorded = send.record::<f32>(2, 1000).unwrap();
    has(&page, "text", &recorded.to_string());
    has(&page, "text", &recorded.plan(Engine::CpuTs).to_string());
    let report = recorded.check();
    assert!(report.is_good() && page.contains(&format!("`{report}`")), "{report}");
}

#[test]
fn the_page_about_the_all_gather_shows_both_versions_and_the_finding() {
    let page = read("docs/src/learn/own-all-gather.md");
    let source = read("examples/src/operators/all_gather.rs");
    for name in ["hasty", "mesh"] {
        assert!(page.contains(&function(&source, name)), "another `{name}`");
    }
    let record = |function: fn(&Recorder<'_>, &mut MainThread<'_>)| {
        Operator::all_gather("all_gather", function).record::<f32>(4, 1000).unwrap()
    };
    let wrong = record(hasty).check();
    assert!(!wrong.is_good());
    has(&page, "text", &wrong.to_string());
    let right = record(mesh);
    let report = right.check();
    assert!(report.is_good() && page.contains(&format!("`{report}`")), "{report}");
    has(&page, "text", &right.plan(Engine::CpuTs).to_string());
    let tasks = right.tasks().ranks[0].threads.iter().map(Vec::len).sum::<usize>();
    assert!(page.contains(&format!("made {tasks} tasks for each rank")), "{tasks} tasks");
}

#[test]
fn the_page_about_the_line_shows_the_example_and_its_proof() {
    let page = read("docs/src/learn/new-all-reduce.md");
    let source = read("examples/src/operators/line.rs");
    assert!(page.contains(&function(&source, "line_all_reduce")), "another function");
    for ranks in 1..=17 {
        for (slices, count) in [(1, 100), (3, 100), (8, 1000), (4, 2), (4, 0)] {
            let line = Operator::all_reduce("line_all_reduce", Sum, line_all_reduce(slices));
            let report = line.record::<f32>(ranks, count).unwrap().check();
            assert!(report.is_good(), "{ranks} ranks, {slices} slices:\n{report}");
        }
    }
    let line = Operator::all_reduce("line_all_reduce", Sum, line_all_reduce(8));
    let recorded = line.record::<f32>(7, 70_000).unwrap();
    has(&page, "text", &recorded.plan(Engine::CpuTs).to_string());
    for (rank, tasks) in (0_u32..).zip(&recorded.tasks().ranks) {
        assert!(tasks.channels.iter().all(|(peer, _)| peer.abs_diff(rank) == 1), "of rank {rank}");
    }
    let model = Model::new(2e-6, 1.0 / 25e9, 1.0 / 100e9);
    let cost = |slices| {
        let line = Operator::all_reduce("line_all_reduce", Sum, line_all_reduce(slices));
        let time = line.record::<f32>(7, 70_000).unwrap().cost(&model).time;
        format!("{slices:2} slices  {:6.1} us", time * 1e6)
    };
    let picture = read("docs/src/images/operator-line-time.svg");
    assert!(
        picture == recorded.timeline(&model),
        "draw it again: example 13 writes it as line_time.svg"
    );
    let costs: Vec<String> = [1, 2, 4, 8, 16, 32].map(cost).into();
    has(&page, "text", &costs.join("\n"));
}

#[test]
fn one_notify_for_all_slices_is_found_as_the_page_says() {
    let page = read("docs/src/learn/new-all-reduce.md");
    let source = read("tests/tests/all/operator_pages.rs");
    assert!(
        page.contains(&function(&source.replace("\nfn middle", "\npub fn middle"), "middle")[4..])
    );
    let nothing = Operator::other("middle", 0, 0, |_, main| middle(main));
    let report = nothing.record::<f32>(1, 0).unwrap().check();
    // The page has the lines of its own block, and the report has those of this file.
    let text = report
        .to_string()
        .lines()
        .filter(|line| !line.contains("-->"))
        .collect::<Vec<_>>()
        .join("\n");
    let shown = page.lines().filter(|line| !line.contains("-->")).collect::<Vec<_>>().join("\n");
    has(&shown, "text", &text);
}

fn middle(main: &mut MainThread<'_>) {
    main.fork(2, |threads| {
        let [up, down] = threads.array();
        let mut summed = down.notify();
        for _slice in 0..3 {
            summed = down.wait(up.record(summed));
        }
    });
}
