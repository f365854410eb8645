//! Tests of the rules of barriers and flags between cores.

use ascend_program::check::Product;
use ascend_program::step::*;
use ascend_program::*;

use crate::check::harness::rules;
use ascend_program_testing::build::Builder;

fn raise(b: &mut Builder, mode: Mode, pipe: Pipe, flag: u16) {
    b.sync(Sync::Raise { mode, pipe, flag });
}

/// Makes all vector cores meet at flag 8.
fn meet(b: &mut Builder) {
    raise(b, Mode::Kind, Pipe::Out, 8);
    b.sync(Sync::Await { flag: 8 });
}

rules! {
    cores_that_meet_run_at_the_same_time, "cores", MixAiv10, |k, broken| {
        k.blocks = if broken { 49 } else { 48 };
        k.sync_vectors();
    };

    cores_of_both_kinds_that_meet_run_at_the_same_time, "cores", MixAic12, |k, broken| {
        k.blocks = if broken { 25 } else { 24 };
        k.sync(Sync::All { vector: false });
    };

    cores_that_raise_a_flag_for_their_kind_run_at_the_same_time, "cores", MixAic10, |k, broken| {
        k.setting.product = Product::Ascend950;
        k.blocks = if broken { 33 } else { 32 };
        k.sync(Sync::Raise { mode: Mode::Kind, pipe: Pipe::Fix, flag: 8 });
        k.sync(Sync::Await { flag: 8 });
    };

    all_cores_get_to_a_barrier, "hang", MixAiv10, |k, broken| {
        k.blocks = 4;
        if broken {
            k.on_block(2, |b| b.sync_vectors());
        } else {
            k.sync_vectors();
        }
    };

    cores_get_to_a_barrier_equally_often, "hang", MixAiv10, |k, broken| {
        let index = k.block_index();
        let four = k.n(4);
        let rounds = if broken { index } else { four };
        k.range("i", rounds, |b, _| b.sync_vectors());
    };

    a_kernel_of_vector_cores_only_cannot_synchronise, "mix", AivOnly, |k, broken| {
        if broken {
            k.sync_vectors();
        }
    };

    a_kernel_of_vector_cores_only_has_no_flags, "mix", AivOnly, |k, broken| {
        if broken {
            meet(k);
        }
    };

    a_barrier_of_vector_cores_is_called_by_them, "mix", MixAic12, |k, broken| {
        if broken {
            k.sync_vectors();
        } else {
            k.on(Core::Aiv, |b| b.sync_vectors());
        }
    };

    a_barrier_of_all_needs_both_kinds, "mix", MixAiv10, |k, broken| {
        k.sync(Sync::All { vector: !broken });
    };

    every_core_raises_a_flag_of_its_kind, "hang", MixAiv10, |k, broken| {
        k.blocks = 3;
        if broken {
            k.on_block(1, |b| raise(b, Mode::Kind, Pipe::Out, 8));
        } else {
            raise(k, Mode::Kind, Pipe::Out, 8);
        }
        k.sync(Sync::Await { flag: 8 });
    };

    both_vector_cores_raise_a_flag_for_their_cube_core, "hang", MixAic12, |k, broken| {
        k.on(Core::Aiv, |b| {
            if broken {
                b.on_block(0, |b| raise(b, Mode::Block, Pipe::Out, 8));
            } else {
                raise(b, Mode::Block, Pipe::Out, 8);
            }
        });
        k.on(Core::Aic, |b| b.sync(Sync::Await { flag: 8 }));
    };

    a_cube_core_raises_a_flag_for_its_vector_cores, "hang", MixAic12, |k, broken| {
        k.on(Core::Aic, |b| {
            b.on_block(0, |b| raise(b, Mode::Block, Pipe::Fix, 8));
            if !broken {
                b.on_block(1, |b| raise(b, Mode::Block, Pipe::Fix, 8));
            }
        });
        k.on(Core::Aiv, |b| b.sync(Sync::Await { flag: 8 }));
    };

    a_flag_is_awaited, "unawaited", MixAiv10, |k, broken| {
        raise(k, Mode::Kind, Pipe::Out, 8);
        if !broken {
            k.sync(Sync::Await { flag: 8 });
        }
    };

    a_flag_counts_to_15, "flag-count", MixAiv10, |k, broken| {
        let times = if broken { 16 } else { 15 };
        k.times(times, |b| raise(b, Mode::Kind, Pipe::Out, 8));
        k.times(times, |b| b.sync(Sync::Await { flag: 8 }));
    };

    a_flag_keeps_its_mode, "flag-mode", MixAic12, |k, broken| {
        let second = if broken { 8 } else { 9 };
        k.on(Core::Aiv, |b| {
            raise(b, Mode::Kind, Pipe::Out, 8);
            raise(b, Mode::Pair, Pipe::Out, second);
            b.sync(Sync::Await { flag: 8 });
            b.sync(Sync::Await { flag: second });
        });
    };

    flags_8_to_10_are_free, "flag", MixAiv10, |k, broken| {
        let flag = if broken { 11 } else { 10 };
        raise(k, Mode::Kind, Pipe::Out, flag);
        k.sync(Sync::Await { flag });
    };

    other_flags_get_a_note, "flag", MixAiv10, |k, broken| {
        let flag = if broken { 7 } else { 8 };
        raise(k, Mode::Kind, Pipe::Out, flag);
        k.sync(Sync::Await { flag });
    };

    a_pair_is_two_vector_cores, "flag", MixAic11, |k, broken| {
        k.on(Core::Aiv, |b| {
            raise(b, if broken { Mode::Pair } else { Mode::Kind }, Pipe::Out, 8);
            b.sync(Sync::Await { flag: 8 });
        });
    };

    a_block_has_both_kinds, "flag", MixAiv10, |k, broken| {
        raise(k, if broken { Mode::Block } else { Mode::Kind }, Pipe::Out, 8);
        k.sync(Sync::Await { flag: 8 });
    };

    a_flag_is_raised_after_a_unit, "flag", MixAiv10, |k, broken| {
        raise(k, Mode::Kind, if broken { Pipe::Scalar } else { Pipe::Out }, 8);
        k.sync(Sync::Await { flag: 8 });
    };

    a_cube_core_raises_flags_after_fix, "flag", MixAic10, |k, broken| {
        k.setting.product = Product::Ascend950;
        k.setting.tolerant = true;
        raise(k, Mode::Kind, if broken { Pipe::Out } else { Pipe::Fix }, 8);
        k.sync(Sync::Await { flag: 8 });
    };

    a_core_has_the_units_that_wait, "core", MixAiv10, |k, broken| {
        let first = if broken { Pipe::Fix } else { Pipe::In };
        k.sync(Sync::Units(first, Pipe::Vector));
    };

    a_barrier_is_not_of_the_scalar_unit, "core", MixAiv10, |k, broken| {
        k.sync(Sync::Pipe(if broken { Pipe::Scalar } else { Pipe::All }));
    };
}

/// A flag to the cube cores, a flag among them, and a flag back: the pattern of production kernels.
#[test]
fn a_chain_of_flags_orders_cores() {
    use crate::check::harness::{Kernel, all_reduce};
    let findings = |whole: bool| {
        let mut k = Kernel::new(Mix::MixAic12);
        let x = k.input("x", ascend_program::layout::Number::F16);
        let y = k.output("y", ascend_program::layout::Number::F16);
        let mut task = None;
        let operation = all_reduce(&mut k, x, y);
        k.operations = vec![2];
        k.builder.program.tiling = Some(ascend_program_testing::build::tiling_layout(1));
        let hccl = k.client("hccl", 0, None);
        k.on(Core::Aiv, |b| {
            b.hccl(Hccl::Init(hccl, 0));
            b.hccl(Hccl::Configure(hccl, 64, "cc0".into()));
            let t = b.task("tiles", hccl);
            task = Some(t);
            b.prepare(t, operation, 1, true);
            b.wait(t);
            raise(b, Mode::Block, Pipe::Out, 8);
        });
        k.on(Core::Aic, |b| {
            b.sync(Sync::Await { flag: 8 });
            if whole {
                raise(b, Mode::Kind, Pipe::Fix, 9);
                b.sync(Sync::Await { flag: 9 });
            }
            raise(b, Mode::Block, Pipe::Fix, 10);
        });
        k.on(Core::Aiv, |b| {
            b.sync(Sync::Await { flag: 10 });
            b.finalize(hccl);
        });
        k.findings()
    };
    assert_eq!(findings(true), []);
    // Without the flag among cube cores, core 0 is not ordered after block 1.
    let wrong = findings(false);
    assert_eq!(wrong.len(), 1, "{wrong:#?}");
    assert_eq!(wrong[0].rule, "finalize-sync");
    assert_eq!(wrong[0].cores.as_deref(), Some("aiv 2 and 1 more"));
}
