//! The recorded form of each example, line for line.

use std::path::Path;
use std::{env, fs};

use hccl_examples::kernels::*;

/// Compares with the text that is checked in, or rewrites it.
pub fn golden(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/all/kernels/{name}.txt"));
    if env::var_os("HCCL_TEST_BLESS").is_some() {
        fs::write(&path, found).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap();
    assert_eq!(found, expected, "{name} is recorded differently");
}

#[test]
fn the_kernels_of_the_examples_are_recorded_as_they_are_written() {
    golden("all_to_all", &all_to_all::all_to_all_custom::record().unwrap().to_string());
    golden("all_to_all_rounds", &all_to_all::all_to_all_rounds::record().unwrap().to_string());
    let recorded = reduce_scatter::reduce_scatter_custom::record().unwrap();
    golden("reduce_scatter", &recorded.to_string());
    let recorded = reduce_scatter::reduce_scatter_rounds::record().unwrap();
    golden("reduce_scatter_rounds", &recorded.to_string());
    golden("all_to_all_v", &all_to_all_v::all_to_all_v_custom::record().unwrap().to_string());
    golden("vadd", &vadd::vadd::record().unwrap().to_string());
    let recorded = matmul_all_reduce::matmul_all_reduce::record().unwrap();
    golden("matmul_all_reduce", &recorded.to_string());
    let recorded = all_gather_matmul::all_gather_matmul::record().unwrap();
    golden("all_gather_matmul", &recorded.to_string());
}
