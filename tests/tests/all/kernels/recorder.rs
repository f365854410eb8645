//! The recorder itself: names, threads, nesting, large expressions.

use ascend_program::Program;
use hccl::kernel::*;

#[derive(Tiling, Clone, Copy)]
#[repr(C)]
struct Sizes {
    length: u64,
}

#[kernel(mix = "aiv_only")]
fn names(k: Kernel<Sizes>, y: Output<u64>) {
    let t = k.tiling();
    let plain = 5u64; // a plain Rust variable
    let (left, right) = (t.length + plain, t.length * 2);
    let [only]: [Value<u64>; 1] = [left - right];
    let text = "not a value";
    let same = only;
    for _ in 0..2 {
        let repeated = only + text.len() as u64;
        y.set(0, repeated);
    }
    let _hidden = t.length + 9;
    y.set(1, _hidden + same);
}

#[test]
fn what_let_binds_keeps_its_name() {
    let text = names::record().unwrap().to_string();
    for line in [
        "let left = length + 5",
        "let right = length * 2",
        "let only = left - right",
        "let repeated = only + 11",
        "let repeated_2 = only + 11",
        "= length + 9 + only",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
    assert!(!text.contains("hidden") && !text.contains("same"), "{text}");
}

/// Uses a value after the branch that named it. The name is invalid there, so the value is computed
/// again.
#[kernel(mix = "aiv_only")]
fn leaves_a_branch(k: Kernel<Sizes>, y: Output<u64>) {
    let t = k.tiling();
    let mut kept = None;
    k.when(t.length.gt(1), || {
        let inner = t.length * 3;
        y.set(0, inner + 1);
        kept = Some(inner);
    });
    let outer = kept.unwrap();
    y.set(1, outer);
}

#[test]
fn a_value_that_leaves_its_branch_goes_on_without_its_name() {
    let text = leaves_a_branch::record().unwrap().to_string();
    let inside = text.find("let inner = length * 3").unwrap();
    let behind = text.rfind("length * 3").unwrap();
    assert!(behind > inside, "{text}");
}

#[kernel(mix = "aiv_only")]
fn doubles(k: Kernel<Sizes>, y: Output<u64>) {
    let mut value = k.tiling().length;
    for _ in 0..64 {
        value = value + value;
    }
    y.set(0, value);
}

/// Checks a value that would take 2^64 additions as a single expression, because values are
/// computed anew at each use.
#[test]
fn a_value_made_of_itself_many_times_is_cut_into_variables() {
    let recorded = doubles::record().unwrap();
    assert!(recorded.program().variables.len() >= 6);
    assert_eq!(Program::from_bytes(&recorded.to_bytes()).as_ref(), Ok(recorded.program()));
}

#[kernel(mix = "aiv_only")]
fn outer(k: Kernel<Sizes>, y: Output<u64>) {
    let before = k.tiling().length + 1;
    let inner = names::record().unwrap();
    assert_eq!(inner.program().name, "names");
    y.set(0, before + 1);
}

#[test]
fn a_kernel_may_record_another_one_while_it_is_recorded() {
    let program = outer::record().unwrap();
    assert_eq!(program.program().blocks[0].len(), 2);
}

#[kernel(mix = "aiv_only")]
fn panics(k: Kernel<Sizes>, y: Output<u64>) {
    y.set(0, k.tiling().length);
    panic!("on purpose");
}

#[test]
fn a_panic_in_a_kernel_leaves_nothing_behind() {
    assert!(std::panic::catch_unwind(|| panics::record().map(drop)).is_err());
    assert_eq!(names::record().unwrap().program(), names::record().unwrap().program());
}

#[test]
fn threads_record_at_the_same_time() {
    let expected = names::record().unwrap().to_bytes();
    let threads: Vec<_> =
        (0..8).map(|_| std::thread::spawn(|| names::record().unwrap().to_bytes())).collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), expected);
    }
}

#[kernel(mix = "aiv_only")]
fn generic<E: hccl::prelude::Element, const TIMES: usize>(k: Kernel, x: Input<E>, y: Output<E>) {
    for time in 0..TIMES {
        y.at(time).clean(0);
    }
    let queue = k.queue::<E>(Position::VecIn, 1, 16);
    let tensor = queue.alloc();
    k.copy_in(&tensor, x, 16);
    queue.enqueue(tensor);
}

#[test]
fn a_kernel_has_the_parameters_of_its_function() {
    let recorded = generic::record::<i8, 3>().unwrap();
    let text = recorded.to_string();
    assert!(text.contains("input x: i8") && recorded.program().tiling.is_none(), "{text}");
    assert_eq!(recorded.program().blocks[0].len(), 3 + 4, "{text}");
}

/// Checks that the layout of the struct belongs to the program, so that the bytes of another struct
/// cannot be launched.
#[test]
fn the_layout_of_the_tiling_struct_is_in_the_program() {
    let recorded = names::record().unwrap();
    assert_eq!(recorded.program().tiling.as_ref(), Some(Sizes::LAYOUT));
    let read = Program::from_bytes(&recorded.to_bytes()).unwrap();
    assert_eq!(read.tiling.unwrap().hash(), Sizes::LAYOUT_HASH);
}
