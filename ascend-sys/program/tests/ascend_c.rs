//! Printed kernels: as they are expected to look, for compilers, and running on the host.

#[path = "ascend_c/anything.rs"]
mod anything;
mod common;
#[path = "ascend_c/compiler.rs"]
mod compiler;
#[path = "ascend_c/defined.rs"]
mod defined;
#[path = "ascend_c/golden.rs"]
mod golden;
#[path = "ascend_c/host.rs"]
mod host;
#[path = "ascend_c/kernels.rs"]
mod kernels;
#[path = "ascend_c/project.rs"]
mod project;
#[path = "common/random.rs"]
mod random;
#[path = "ascend_c/run.rs"]
mod run;
#[path = "ascend_c/syntax.rs"]
mod syntax;
#[path = "ascend_c/values.rs"]
mod values;

use ascend_program::Program;
use common as build;

/// Each with the name of its file.
fn all() -> Vec<(&'static str, Program)> {
    vec![
        ("all_to_all", kernels::all_to_all()),
        ("all_to_all_in_rounds", kernels::all_to_all_in_rounds()),
        ("reduce_scatter", kernels::reduce_scatter()),
        ("reduce_scatter_in_rounds", kernels::reduce_scatter_in_rounds()),
        ("all_to_all_v", kernels::all_to_all_v()),
        ("vadd", kernels::vadd()),
        ("matmul_all_reduce", kernels::matmul_all_reduce()),
        ("all_gather_matmul", kernels::all_gather_matmul()),
    ]
}
