//! Parts of the workspace are printed by the names that the kernel gives them.

use ascend_program::layout::Number::{self, F16, F32, U8, U32, U64};
use ascend_program::step::*;
use ascend_program::*;

use ascend_program_testing::build::{Builder, tiling_layout};

/// Returns the destination of a copy that begins at a byte of the workspace. Parts of the workspace
/// have names.
fn copied_to(
    views: &[(&str, Number, u64)],
    number: Number,
    offset: impl FnOnce(&mut Builder) -> ValueId,
) -> String {
    let mut b = Builder::new(Mix::AivOnly);
    b.program.tiling = Some(tiling_layout(0));
    for (name, number, byte) in views {
        let what = WorkspaceView { number: *number, byte: *byte };
        b.program.views.push(Declared { name: (*name).into(), what });
    }
    let offset = offset(&mut b);
    let from = b.filled("a", number, 64);
    let pieces = Pieces { length: b.n(64), count: None, gap: None };
    let to = Place { base: Base::Workspace, offset };
    b.step(Step::Copy(Copy::Out { to, from, pieces, add: false }));
    let source = ascend_c::kernel(&b.done()).unwrap();
    let call = source.split("DataCopyPad(").nth(1).unwrap();
    call.split(", a").next().unwrap().to_owned()
}

fn field(b: &mut Builder, number: Number) -> ValueId {
    b.value(Of::Tiling { offset: 64, path: "f".into(), element: None }, number)
}

#[test]
fn a_place_is_an_element_of_the_last_part_that_begins_before_it() {
    let parts = [("sums", F32, 0), ("more_sums", F32, 1024), ("halves", F16, 512)];
    let at = |number, n| copied_to(&parts, number, |b| b.n(n));
    assert_eq!(at(F32, 0), "sums");
    assert_eq!(at(F32, 128), "sums[32]");
    assert_eq!(at(F32, 1028), "moreSums[1]");
    assert_eq!(at(F16, 1026), "halves[257]");
    // These parts have no name.
    assert_eq!(at(F16, 128), "TensorAt<half>(userWorkspace + 64 * sizeof(half))");
    assert_eq!(at(F32, 130), "TensorAt<float>(userWorkspace + 130)");
    assert_eq!(at(U8, 600), "TensorAt<uint8_t>(userWorkspace + 600)");
}

#[test]
fn an_index_counts_elements() {
    let parts = [("sums", F32, 0), ("tail", F32, 256)];
    let f = "tilingData.f";
    let times = |n, more: u64| {
        copied_to(&parts, F32, |b| {
            let (f, n, more) = (field(b, U64), b.n(n), b.n(more));
            let product = b.binary(Binary::Mul, f, n);
            b.binary(Binary::Add, more, product)
        })
    };
    assert_eq!(times(4, 0), format!("sums[{f}]"));
    assert_eq!(times(8, 0), format!("sums[{f} * 2]"));
    assert_eq!(times(4, 264), format!("tail[{f} + 2]"));
    assert_eq!(times(6, 0), format!("TensorAt<float>(userWorkspace + {f} * 6)"));
    // The product wraps at 32 bits, but a product in elements would not.
    let narrow = copied_to(&parts, F32, |b| {
        let f = field(b, U32);
        let four = b.value(Of::Constant(4), U32);
        b.binary(Binary::Mul, f, four)
    });
    assert_eq!(narrow, format!("TensorAt<float>(userWorkspace + {f} * 4)"));
}

#[test]
fn a_name_without_a_workspace_is_refused() {
    let mut b = Builder::new(Mix::AivOnly);
    b.program.workspace = false;
    let what = WorkspaceView { number: F32, byte: 0 };
    b.program.views.push(Declared { name: "sums".into(), what });
    assert_eq!(b.program.validate(), Err("there is no workspace".into()));
    b.program.workspace = true;
    b.program.views[0].name = "no name".into();
    assert!(b.program.validate().is_err());
}
