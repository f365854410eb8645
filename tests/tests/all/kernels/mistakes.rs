//! `record` returns all mistakes that are wrong on every product, each with its line.

use hccl::kernel::symbol::{CcMember, CubeMember};
use hccl::kernel::*;
use hccl::{f16, kernel};

use crate::kernels::golden::golden;

#[derive(Tiling, Clone, Copy)]
#[repr(C)]
struct Sizes {
    init: Mc2InitTiling,
    gather: Mc2CcTiling,
    cube: TCubeTiling,
    table: [u64; 4],
    length: u64,
}

#[kernel(mix = "aiv_only")]
fn values(k: Kernel<Sizes>, x: Input<f16>, y: Output<f16>, late: Input<f16>) {
    let t = k.tiling();
    let mut last = k.value(0u64);
    k.range(..t.length, |i| last = i);
    y.set(last, t.table.at(4).cast::<f16>());
    y.set(-1, f16::ONE);
    k.range_by(..t.length, 0, |_| {});
    let _ = (x, late);
}

#[kernel(mix = "aiv_only")]
fn cores(k: Kernel<Sizes>, x: Input<u8>, y: Output<f16>) {
    let t = k.tiling();
    k.sync_all_aiv();
    k.sync_all();
    k.on_aic(|| k.pipe_barrier(Pipe::Scalar));
    k.cross_core_set_flag(Mode::Kind, Pipe::All, 16);
    k.cross_core_wait_flag(8);
    k.wait_for(Pipe::Vector, Pipe::Vector);
    let product = k.matmul::<u8, u8, f16>(&t.cube).bias::<f16>();
    product.multiply(x.matrix(16), x.matrix(16), y.matrix(16), (16, 16, 16));
}

#[kernel(mix = "aic_1_2")]
fn mixed(k: Kernel<Sizes>) {
    k.on_aic(|| {
        k.on_aiv(|| {});
        let _ = k.scratch::<f16>(16);
        k.sync_all_aiv();
    });
    k.on_aiv(|| k.sync_all_aic(8));
}

#[kernel(mix = "aiv_1_0")]
fn memory(k: Kernel<Sizes>, y: Output<u64>) {
    let bytes = k.scratch::<u8>(64).get();
    k.div(&bytes, &bytes, &bytes, 64);
    k.exp(&bytes, &bytes, 64);
    let queue = k.queue::<u64>(Position::VecOut, 9, 64);
    let tensor = queue.alloc();
    let part = tensor.at(4);
    queue.enqueue(tensor);
    k.copy_out_add(y, part, 4);
}

#[kernel(mix = "aiv_1_0")]
fn clients(k: Kernel<Sizes>, x: Input<f16>, y: Output<f16>) {
    let t = k.tiling();
    let world = k.hccl(0).init().configure(&t.gather);
    let again = k.hccl(0).init().configure(&t.gather);
    let third = k.hccl(2).init();
    let gathered = world.all_gather(x, y, 16).repeat(256).commit_all();
    let _ = world.all_gather(x, y, 16).repeat(0).commit_all();
    let _ = world.all_gather(x, y, 16);
    again.wait(&gathered);
    world.after(&gathered);
    third.finalise();
    again.finalise();
    world.finalise();
}

#[test]
fn each_mistake_has_its_line_and_says_what_to_do() {
    let texts = [
        values::record().unwrap_err().to_string(),
        cores::record().unwrap_err().to_string(),
        mixed::record().unwrap_err().to_string(),
        memory::record().unwrap_err().to_string(),
        clients::record().unwrap_err().to_string(),
    ];
    golden("mistakes", &(texts.join("\n\n") + "\n"));
}

thread_local! {
    static KEPT: std::cell::Cell<Option<(Value<u64>, Output<f16>)>> =
        const { std::cell::Cell::new(None) };
}

#[kernel(mix = "aiv_only")]
fn keeps(k: Kernel<Sizes>, y: Output<f16>) {
    KEPT.set(Some((k.tiling().length, y)));
}

#[kernel(mix = "aiv_only")]
fn uses(k: Kernel<Sizes>, y: Output<f16>) {
    let (length, other) = KEPT.get().unwrap();
    k.range(..length, |_| {});
    y.set(length * 2, f16::ONE);
    other.set(0, f16::ONE);
}

/// Checks that the use of a handle in a later recording is a mistake of that recording. Outside of
/// recordings such a use does nothing.
#[test]
fn handles_of_another_recording_are_refused() {
    keeps::record().unwrap();
    let error = uses::record().unwrap_err();
    let lines: Vec<u32> = error.mistakes().iter().map(Mistake::line).collect();
    let first = error.mistakes()[0].line();
    assert_eq!(lines, [first, first + 1, first + 1, first + 2], "{error}");
    assert!(error.mistakes()[0].text().contains("belongs to another recording"), "{error}");
    assert!(error.mistakes()[0].file().ends_with("mistakes.rs"));
    assert_eq!(error.kernel(), "uses");

    let (length, other) = KEPT.get().unwrap();
    other.set(length + 1, f16::ONE);
}

/// Uses the types that a helper of kernels can name.
#[kernel(inline)]
fn helper(k: Kernel<Sizes>, member: &CcMember, cube: &CubeMember) -> Value<i32> {
    let hccl = k.hccl(0).init().configure(member);
    hccl.finalise();
    cube.m + 1
}

#[kernel(mix = "aiv_1_0")]
fn calls(k: Kernel<Sizes>) {
    let t = k.tiling();
    let rows = helper(k, &t.gather, &t.cube);
    k.range(..rows, |_| {});
}

#[test]
fn what_a_helper_does_is_recorded_where_it_is_called() {
    let recorded: Result<kernel::Recorded<Sizes>, RecordError> = calls::record();
    let text = recorded.unwrap().to_string();
    assert!(text.contains("client hccl") && text.contains("let rows = cube.M + 1"), "{text}");
}
