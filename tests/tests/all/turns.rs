//! Pictures show the moves of each turn, in the book and beside the methods of the client. They
//! match the moves of four emulated ranks.
//!
//! `HCCL_TEST_BLESS=1 cargo test -p hccl-tests --test all turns::` draws them anew.

mod draw;
mod moves;

use std::path::Path;

use draw::{Legend, draw};
use moves::{AllGather, AllReduce, AllToAll, Blocks, ReduceScatter, Tiles, moved, moved_blocks};

/// Returns the root of the repository.
fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Compares a picture with the one in the book and the one in the documentation of the methods, or
/// draws both.
fn is_in_the_docs(name: &str, picture: &str) {
    is_in(&format!("docs/src/images/turns-{}.svg", name.replace('_', "-")), picture);
    is_in(&format!("hccl/src/kernel/prepare/{name}.svg"), picture);
}

fn is_in(file: &str, picture: &str) {
    let path = repository().join(file);
    if std::env::var_os("HCCL_TEST_BLESS").is_some() {
        std::fs::write(&path, picture).unwrap();
    }
    let drawn = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(drawn == picture, "{file} differs; HCCL_TEST_BLESS=1 draws it anew");
}

/// Each block of 300 elements has two turns of 128 elements, and the remaining elements.
const OF_300: Tiles = Tiles { tile: 128, turns: 2, tail: 44, stride: 300 };

/// The legend of an operation whose rest is another task.
const WITH_TAIL: Legend = &["tiles, first turn", "tiles, second turn", "tail"];

#[test]
fn all_gather() {
    let code = [
        "let tiles = hccl.all_gather(x, y, 128).stride(300).repeat(2).commit_all();",
        "let tail = hccl.all_gather(x.at(256), y.at(256), 44).stride(300).commit_all();",
    ];
    let moves = moved::<AllGather>(OF_300, [300, 1200]);
    is_in_the_docs("all_gather", &draw(&code, WITH_TAIL, &moves));
}

#[test]
fn reduce_scatter() {
    let code = [
        "let tiles = hccl.reduce_scatter(x, y, 128, Sum).stride(300).repeat(2).commit_all();",
        "let tail = hccl.reduce_scatter(x.at(256), y.at(256), 44, Sum).stride(300).commit_all();",
    ];
    let moves = moved::<ReduceScatter>(OF_300, [1200, 300]);
    is_in_the_docs("reduce_scatter", &draw(&code, WITH_TAIL, &moves));
}

#[test]
fn all_reduce() {
    let code = [
        "let tiles = hccl.all_reduce(x, y, 128, Sum).repeat(2).commit_all();",
        "let tail = hccl.all_reduce(x.at(256), y.at(256), 44, Sum).commit_all();",
    ];
    let moves = moved::<AllReduce>(OF_300, [300, 300]);
    is_in_the_docs("all_reduce", &draw(&code, WITH_TAIL, &moves));
}

#[test]
fn all_to_all() {
    let code = [
        "let tiles = hccl.all_to_all(x, y, 128).stride(356).repeat(2).commit_all();",
        "let tail = hccl.all_to_all(x.at(256), y.at(256), 100).stride(356).commit_all();",
    ];
    let tiles = Tiles { tail: 100, stride: 356, ..OF_300 };
    let moves = moved::<AllToAll>(tiles, [1424, 1424]);
    is_in_the_docs("all_to_all", &draw(&code, WITH_TAIL, &moves));
}

#[test]
fn all_to_all_v() {
    let counts = [[3, 3, 3, 3], [2, 2, 3, 2], [1, 4, 4, 4], [3, 3, 3, 3]];
    let code = ["let task = hccl.all_to_all_v(x, (counts, displs), y, (..)).commit_all();"];
    let blocks = Blocks { counts, turns: 1 };
    is_in_the_docs("all_to_all_v", &draw(&code, &[], &moved_blocks(blocks)));
    let code =
        ["let task = hccl.all_to_all_v(x, (counts, displs), y, (..)).repeat(2).commit_all();"];
    let blocks = Blocks { counts, turns: 2 };
    is_in_the_docs(
        "all_to_all_v_turns",
        &draw(&code, &["first turn", "second turn"], &moved_blocks(blocks)),
    );
}

/// Draws two turns without a stride. They are refused as one task. As two tasks they show the
/// reason.
#[test]
fn without_a_stride_the_second_turn_overwrites_the_first() {
    let code =
        ["let task = hccl.all_gather(x, y, 128).repeat(2).commit_all(); // no stride: refused"];
    let tiles = Tiles { tile: 128, turns: 1, tail: 128, stride: 0 };
    let moves = moved::<AllGather>(tiles, [256, 640]);
    let picture = draw(&code, &["first turn", "second turn"], &moves);
    is_in("docs/src/images/turns-overlap.svg", &picture);
}
