//! Each call that makes units or cores wait has its reason as a comment.

use ascend_program::layout::Number::F32;
use ascend_program::step::*;
use ascend_program::*;

use ascend_program_testing::build::Builder;
use ascend_program_testing::kernels;

/// Returns the source of a kernel for both kinds of cores. It has a tensor in global memory and one
/// in local memory.
fn source(build: impl FnOnce(&mut Builder, Base, Local)) -> String {
    let mut b = Builder::new(Mix::MixAic12);
    let y = b.output("y", F32);
    let length = b.n(64);
    let buffer = b.scratch("buffer", F32, length);
    let tensor = b.local("a", F32);
    b.buffer(Buffer::InitScratch(buffer));
    b.buffer(Buffer::Get(buffer, tensor));
    build(&mut b, y, Local { tensor, offset: None });
    ascend_c::kernel(&b.done()).unwrap()
}

fn has(source: &str, line: &str) {
    assert!(source.contains(&format!("{line}\n")), "{line} is not in\n{source}");
}

fn pieces(b: &mut Builder) -> Pieces {
    Pieces { length: b.n(64), count: None, gap: None }
}

fn copy_in(b: &mut Builder, from: Base, to: Local) {
    let (from, pieces) = (b.at(from, 0), pieces(b));
    b.step(Step::Copy(Copy::In { to, from, pieces }));
}

fn copy_out(b: &mut Builder, from: Local, to: Base) {
    let (to, pieces) = (b.at(to, 0), pieces(b));
    b.step(Step::Copy(Copy::Out { to, from, pieces, add: false }));
}

fn fill(b: &mut Builder, to: Local) {
    let (value, count) = (b.float(F32, 1.0), b.n(64));
    b.step(Step::Vector(Vector::Fill { to, value, count }));
}

#[test]
fn a_unit_waits_for_the_memory_that_both_use() {
    let found = source(|b, y, a| {
        copy_in(b, y, a);
        b.sync(Sync::Units(Pipe::In, Pipe::Vector));
        fill(b, a);
        b.sync(Sync::Units(Pipe::Vector, Pipe::Out));
        copy_out(b, a, y);
        b.sync(Sync::Units(Pipe::Out, Pipe::Vector));
        fill(b, a);
        b.sync(Sync::Pipe(Pipe::Out));
        copy_out(b, a, y);
        b.sync(Sync::Units(Pipe::Scalar, Pipe::In));
    });
    has(&found, "SyncUnits<HardEvent::MTE2_V>(pipe); // V writes a, which MTE2 has written");
    has(&found, "SyncUnits<HardEvent::V_MTE3>(pipe); // MTE3 reads a, which V has written");
    has(&found, "SyncUnits<HardEvent::MTE3_V>(pipe); // V writes a, which MTE3 has read");
    has(&found, "PipeBarrier<PIPE_MTE3>(); // MTE3 has used y before");
    has(&found, "SyncUnits<HardEvent::S_MTE2>(pipe); // MTE2 goes on when S is done");
}

#[test]
fn a_turn_of_a_loop_waits_for_the_turn_before() {
    let found = source(|b, y, a| {
        b.times(4, |b| {
            b.sync(Sync::Units(Pipe::Out, Pipe::In));
            copy_in(b, y, a);
            b.sync(Sync::Units(Pipe::In, Pipe::Out));
            copy_out(b, a, y);
        });
    });
    has(&found, "SyncUnits<HardEvent::MTE3_MTE2>(pipe); // MTE2 reads y, which MTE3 has written");
    has(&found, "SyncUnits<HardEvent::MTE2_MTE3>(pipe); // MTE3 reads a, which MTE2 has written");
}

#[test]
fn tensors_of_a_queue_share_their_memory() {
    let found = source(|b, y, _| {
        let length = b.n(64);
        let queue = b.queue("q", F32, Position::VecIn, 1, length);
        let [first, second] = ["first", "second"].map(|name| b.local(name, F32));
        let whole = |tensor| Local { tensor, offset: None };
        b.buffer(Buffer::InitQueue(queue));
        b.buffer(Buffer::Alloc(queue, first));
        copy_in(b, y, whole(first));
        b.buffer(Buffer::Enqueue(queue, first));
        b.buffer(Buffer::Dequeue(queue, second));
        b.sync(Sync::Units(Pipe::In, Pipe::Out));
        copy_out(b, whole(second), y);
        b.buffer(Buffer::Free(queue, second));
    });
    has(&found, "(pipe); // MTE3 reads second, which MTE2 has written");
}

#[test]
fn cores_meet_for_what_they_use_together() {
    let all = Sync::All { vector: true };
    let found = source(|b, y, a| {
        b.on(Core::Aiv, |b| {
            b.sync(all);
            copy_out(b, a, y);
            b.sync(all);
            copy_in(b, y, a);
            b.sync(all);
            copy_out(b, a, y);
        });
    });
    let reasons: Vec<_> = (found.lines())
        .filter_map(|line| line.trim().strip_prefix("SyncAll<true>(); // "))
        .collect();
    let expected = [
        "all cores have come here",
        "y is read, which all cores have written",
        "y is written, which all cores have read",
    ];
    assert_eq!(reasons, expected);
}

#[test]
fn flags_say_what_is_there() {
    let found = source(|b, y, a| {
        b.on(Core::Aiv, |b| {
            copy_out(b, a, y);
            b.sync(Sync::Raise { mode: Mode::Pair, pipe: Pipe::Out, flag: 8 });
            b.sync(Sync::Await { flag: 8 });
            copy_in(b, y, a);
            b.sync(Sync::Raise { mode: Mode::Block, pipe: Pipe::Vector, flag: 9 });
        });
        b.on(Core::Aic, |b| b.sync(Sync::Await { flag: 9 }));
    });
    has(&found, "CrossCoreSetFlag<1, PIPE_MTE3>(8); // y is there when MTE3 is done");
    has(&found, "CrossCoreWaitFlag(8); // y is used, which other cores have written");
    has(&found, "CrossCoreSetFlag<2, PIPE_V>(9); // raised when V is done");
    has(&found, "CrossCoreWaitFlag(9); // until V of the other cores is done");
}

#[test]
fn a_comment_of_the_kernel_is_the_reason() {
    let found = source(|b, y, a| {
        copy_in(b, y, a);
        b.step(Step::Comment("The copy has to be there.".into()));
        b.sync(Sync::Units(Pipe::In, Pipe::Vector));
    });
    has(&found, "    // The copy has to be there.\n    SyncUnits<HardEvent::MTE2_V>(pipe);");
}

#[test]
fn every_call_that_waits_has_a_reason() {
    let calls = ["SyncUnits<HardEvent", "PipeBarrier<", "SyncAll<", "CrossCoreSetFlag<"];
    let mut seen = 0;
    for (name, program) in
        super::all().into_iter().chain([("write", kernels::all_to_all_v_write())])
    {
        let source = ascend_c::kernel(&program).unwrap();
        let lines: Vec<_> = source.lines().map(str::trim).collect();
        for (at, line) in lines.iter().enumerate() {
            if calls.iter().any(|call| line.starts_with(call)) {
                seen += 1;
                let told = line.contains("; // ") || lines[at - 1].starts_with("// ");
                assert!(told, "{name}: {line} has no reason:\n{source}");
            }
        }
    }
    assert!(seen > 10, "{seen}");
}
