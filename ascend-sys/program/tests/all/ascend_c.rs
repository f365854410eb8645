//! Printed kernels: their text is compared, they are compiled, and they run on the host.

mod anything;
mod barriers;
mod defined;
mod folded;
mod golden;
mod hidden;
mod host;
mod project;
mod reasons;
mod syntax;
mod values;
mod views;

use ascend_program::Program;
use ascend_program_testing::kernels;

/// Returns all kernels, each with the name of its file.
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

#[test]
fn a_kernel_that_is_called_like_a_word_of_cpp_is_refused() {
    for name in ["double", "int", "union", "tiling"] {
        let program = Program { name: name.to_owned(), ..kernels::vadd() };
        let refused = ascend_program::ascend_c::kernel(&program).unwrap_err();
        assert!(refused.contains(&format!("can be called `{name}`")), "{refused}");
    }
}
