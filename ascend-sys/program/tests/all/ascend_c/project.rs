//! The project around a kernel: its files, and runs of its tiling function.

use std::process::Command;

use ascend_program::ascend_c::{self, Project};

use super::golden::expect;
use ascend_program_testing::compiler::{Directory, compiler, include, succeed};
use ascend_program_testing::kernels;
use ascend_program_testing::run::tiling;

/// Returns the bytes of a tiling struct with groups and algorithms, as a host side fills it.
fn bytes_of(program: &ascend_program::Program, operation: u32, algorithm: &str) -> Vec<u8> {
    let numbers: [(&str, &[u64]); 7] = [
        ("m", &[512]),
        ("n", &[640]),
        ("k", &[5120]),
        ("tileRows", &[448]),
        ("tileCount", &[1]),
        ("tailRows", &[64]),
        ("tailCount", &[1]),
    ];
    let layout = program.tiling.as_ref().unwrap();
    let known = numbers.iter().copied().filter(|(name, _)| layout.field(name).is_some());
    let mut bytes = tiling(layout, operation, &known.collect::<Vec<_>>());
    bytes[64 + 3] = 1;
    bytes[64 + 16..][..5].copy_from_slice(b"world");
    bytes[64 + 144..][..algorithm.len()].copy_from_slice(algorithm.as_bytes());
    for field in layout.fields() {
        if field.item.size() == 200 {
            // The fields that CANN's library fills itself are zero, because the test does not
            // imitate the library.
            let cube = &mut bytes[field.offset as usize..][..200];
            cube.fill(0);
            for (at, number) in
                [(0, 20), (4, 448), (8, 640), (12, 5120), (16, 5120), (32, 128), (36, 256)]
            {
                cube[at..at + 4].copy_from_slice(&i32::to_le_bytes(number));
            }
        }
    }
    bytes
}

#[test]
fn a_project_looks_as_a_person_would_write_it() {
    let program = kernels::reduce_scatter_in_rounds();
    let bytes = bytes_of(&program, 7, "ReduceScatter=level0:doublering");
    for (path, text) in ascend_c::project(&program, &Project::new(bytes)).unwrap() {
        expect(&format!("project/{path}"), &text);
    }
    let program = kernels::all_gather_matmul();
    let bytes = bytes_of(&program, 6, "AllGather=level0:doublering");
    let files =
        ascend_c::project(&program, &Project { blocks: 20, ..Project::new(bytes) }).unwrap();
    let host = files.iter().find(|(path, _)| path == "op_host/all_gather_matmul.cpp").unwrap();
    expect("all_gather_matmul_host.cpp", &host.1);
}

/// Compiles the host side of a project and lets it fill the struct.
fn tile(program: &ascend_program::Program, project: &Project) -> Option<(Vec<String>, Vec<u8>)> {
    let mut command = compiler()?;
    let directory = Directory::new(&format!("project-{}", program.name));
    for (path, text) in ascend_c::project(program, project).unwrap() {
        std::fs::create_dir_all(directory.0.join(&path).parent().unwrap()).unwrap();
        directory.write(&path, text);
    }
    let (stub, run) = (include().with_file_name("operator"), directory.0.join("run"));
    command.args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-I"]).arg(&stub);
    command.arg("-I").arg(include()).arg("-I").arg(&directory.0);
    command.arg(format!("-DOPERATOR=\"op_host/{}.cpp\"", program.name));
    command.arg("-o").arg(&run).arg(stub.join("main.cpp"));
    succeed(command);
    let output = Command::new(run).arg("world").output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let hex = lines.pop().unwrap().strip_prefix("tiling ").unwrap().to_owned();
    let byte = |at: usize| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap();
    Some((lines, (0..hex.len() / 2).map(byte).collect()))
}

#[test]
fn a_tiling_function_fills_the_struct_with_the_given_bytes() {
    let program = kernels::all_to_all_v();
    let mut bytes = bytes_of(&program, 8, "AlltoAll=level0:fullmesh;level1:pairwise");
    let at = program.tiling.as_ref().unwrap().field("recvCounts").unwrap().offset as usize;
    for (i, byte) in bytes[at..at + 32].iter_mut().enumerate() {
        *byte = i as u8;
    }
    let project = Project { blocks: 3, workspace: 1000, ..Project::new(bytes.clone()) };
    let Some((said, filled)) = tile(&program, &project) else { return };
    assert!(filled == bytes);
    assert_eq!(
        said,
        [
            "input x",
            "output y",
            "attribute group",
            "group group",
            "product ascend910b",
            "product ascend910_93",
            "blocks 3",
            "mode 1",
            "workspace 16778216",
        ]
    );
}

#[test]
fn a_tiling_function_asks_the_library_for_the_tiling_of_a_product() {
    let program = kernels::all_gather_matmul();
    let bytes = bytes_of(&program, 6, "AllGather=level0:doublering");
    let Some((_, filled)) = tile(&program, &Project::new(bytes.clone())) else { return };
    assert!(filled == bytes);
}

#[test]
fn what_a_build_could_not_find_or_fill_is_refused() {
    let program = kernels::all_gather_matmul();
    let good = Project::new(bytes_of(&program, 6, "AllGather=level0:doublering"));
    let refused = |program: &ascend_program::Program, project: &Project| {
        ascend_c::project(program, project).unwrap_err()
    };
    let mut short = good.clone();
    short.tiling.pop();
    assert_eq!(
        refused(&program, &short),
        "the size of the tiling is 1031, but that of its struct is 1032; pass the whole struct"
    );
    let none = Project { blocks: 0, ..good.clone() };
    assert_eq!(refused(&program, &none), "the number of blocks is 0; pass 1 to 65535");
    let odd = Project { package: "a b".into(), ..good.clone() };
    assert_eq!(
        refused(&program, &odd),
        "\"a b\" cannot be a name in a build; use letters, digits and underscores"
    );
    let empty = Project::new(vec![0; good.tiling.len()]);
    let why = "tile has no M, N, Ka, baseM or baseN, so there is nothing to make a tiling from: \
               pass the tiling of a launch that works";
    assert_eq!(refused(&program, &empty), format!("tiling->{why}"));
    let renamed = ascend_program::Program { name: "gather__2".into(), ..program };
    assert_eq!(
        refused(&renamed, &good),
        "the operator Gather2 would have its kernel in gather2, not in gather__2: call the kernel gather2"
    );
}
