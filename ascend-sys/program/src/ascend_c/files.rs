//! The operator project around a kernel: the files from which CANN's build makes an installable
//! package.

use super::names::upper_camel;
use super::operator;
use super::project::Project;
use super::text::Text;
use crate::program::Program;

/// Returns the files of the project, each with its path.
///
/// # Errors
///
/// Fails where [`kernel`](super::kernel) does, for a tiling that is not as long as the struct, and
/// for names that a build could misread.
pub(super) fn files(program: &Program, project: &Project) -> Result<Vec<(String, String)>, String> {
    let name = &program.name;
    let kernel = super::kernel(program)?;
    let plain = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    for text in project.products.iter().chain([&project.package]) {
        if !plain(text) {
            return Err(format!(
                "\"{}\" cannot be a name in a build; use letters, digits and underscores",
                text.escape_debug()
            ));
        }
    }
    // The build finds a kernel by the name of its operator.
    let operator = upper_camel(name);
    if snake(&operator) != *name {
        let found = snake(&operator);
        return Err(format!(
            "the operator {operator} would have its kernel in {found}, not in {name}: call the kernel {found}"
        ));
    }
    let host = operator::source(program, project, &operator)?;
    let mut files = vec![
        ("CMakeLists.txt".to_owned(), top(project)),
        ("op_host/CMakeLists.txt".to_owned(), host_build(name, project)),
        (format!("op_host/{name}.cpp"), host),
        ("op_kernel/CMakeLists.txt".to_owned(), kernel_build(name, &operator, project)),
        (format!("op_kernel/{name}.cpp"), kernel),
    ];
    if let Some(layout) = &program.tiling {
        files.push((format!("op_kernel/{}", super::names::tiling_file(program)), layout.header()));
    }
    Ok(files)
}

/// Returns a name in snake case, as CANN's build makes it: `reduce_scatter_custom` for
/// `ReduceScatterCustom`, and `conv2_d_custom` for `Conv2DCustom`.
fn snake(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(c.to_ascii_lowercase());
    }
    text
}

fn top(project: &Project) -> String {
    let mut text = Text::default();
    let package = &project.package;
    text.line("cmake_minimum_required(VERSION 3.16)");
    text.line(&format!("project({package})"));
    text.blank();
    text.line("find_package(ASC REQUIRED)");
    text.blank();
    text.line(&format!("set(ASCEND_COMPUTE_UNIT {})", project.products.join(" ")));
    text.line(&format!(
        "npu_op_package({package} TYPE RUN CONFIG INSTALL_PATH ${{CMAKE_BINARY_DIR}})"
    ));
    text.blank();
    text.line("add_subdirectory(op_host)");
    text.line("add_subdirectory(op_kernel)");
    text.finish()
}

fn host_build(name: &str, project: &Project) -> String {
    let package = &project.package;
    format!(
        "\
# The prototype and the tiling function, and the aclnn functions that are generated from the prototype.
npu_op_code_gen(SRC {name}.cpp PACKAGE {package} OUT_DIR ${{ASCEND_AUTOGEN_PATH}})
npu_op_library(cust_optiling TILING {name}.cpp)

file(GLOB aclnn_sources ${{ASCEND_AUTOGEN_PATH}}/aclnn_*.cpp)
set_source_files_properties(${{aclnn_sources}} PROPERTIES GENERATED TRUE)
npu_op_library(cust_opapi ACLNN ${{aclnn_sources}})

file(GLOB prototype_sources ${{ASCEND_AUTOGEN_PATH}}/op_proto.cc)
set_source_files_properties(${{prototype_sources}} PROPERTIES GENERATED TRUE)
npu_op_library(cust_op_proto GRAPH {name}.cpp ${{prototype_sources}})

npu_op_package_add({package} LIBRARY cust_optiling cust_opapi cust_op_proto)
"
    )
}

fn kernel_build(name: &str, operator: &str, project: &Project) -> String {
    let package = &project.package;
    format!(
        "\
npu_op_kernel_sources(ascendc_kernels OP_TYPE {operator} KERNEL_FILE {name}.cpp)
npu_op_kernel_library(ascendc_kernels SRC_BASE ${{CMAKE_CURRENT_SOURCE_DIR}} TILING_LIBRARY cust_optiling)
npu_op_package_add({package} LIBRARY ascendc_kernels)
"
    )
}
