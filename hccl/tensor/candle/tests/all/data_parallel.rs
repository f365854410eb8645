//! Tests replicas: their gradients, and the errors of mistakes.

use std::sync::{Arc, Mutex};

use candle_core::{DType, Device, Tensor, Var};
use candle_nn::{Init, Linear, Module, SGD, VarBuilder, VarMap, linear, linear_no_bias};
use candle_nn::{Optimizer, loss::mse};
use hccl_candle::{DataParallel, Error};
use hccl_train::BucketOptions;

use crate::{assert_near, flat, numbers, on_ranks, said};

/// A model of two layers and a parameter that no loss depends on. The first layer is used twice.
struct Model {
    first: Linear,
    last: Linear,
}

fn model(vb: VarBuilder) -> candle_core::Result<Model> {
    let first = linear(3, 3, vb.pp("first"))?;
    let last = linear_no_bias(3, 2, vb.pp("last"))?;
    vb.get(4, "unused")?;
    Ok(Model { first, last })
}

impl Module for Model {
    fn forward(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        let x = self.first.forward(x)?.tanh()?;
        self.last.forward(&self.first.forward(&x)?.tanh()?)
    }
}

const NAMES: [&str; 4] = ["first.weight", "first.bias", "last.weight", "unused"];

/// Makes parameters that depend on the seed.
fn map(seed: usize) -> VarMap {
    let map = VarMap::new();
    let shapes: [&[usize]; 4] = [&[3, 3], &[3], &[2, 3], &[4]];
    for (at, (name, shape)) in NAMES.into_iter().zip(shapes).enumerate() {
        let values = numbers(1, shape.iter().product(), seed + at).reshape(shape).unwrap();
        map.data().lock().unwrap().insert(name.into(), Var::from_tensor(&values).unwrap());
    }
    map
}

/// Returns some rows of a batch, with their inputs and their expected outputs.
fn rows(from: usize, to: usize) -> (Tensor, Tensor) {
    let part = |all: Tensor| all.narrow(0, from, to - from).unwrap();
    (part(numbers(7, 3, 100)), part(numbers(7, 2, 200)))
}

/// Returns the loss of the whole batch and its gradients, as candle computes them.
fn whole() -> (f32, Vec<Tensor>) {
    let map = map(0);
    let model = model(VarBuilder::from_varmap(&map, DType::F32, &Device::Cpu)).unwrap();
    let (x, y) = rows(0, 7);
    let loss = mse(&model.forward(&x).unwrap(), &y).unwrap();
    let gradients = loss.backward().unwrap();
    let vars = map.data().lock().unwrap();
    let of = |name| gradients.get(&vars[name]).cloned();
    let zeros = || Tensor::zeros(4, DType::F32, &Device::Cpu).unwrap();
    let gradients = NAMES.map(|name| of(name).unwrap_or_else(zeros)).to_vec();
    (loss.to_scalar().unwrap(), gradients)
}

/// The rows of each rank: parts of different sizes, one of them empty.
const PARTS: [&[(usize, usize)]; 3] =
    [&[(0, 7)], &[(0, 2), (2, 7)], &[(0, 1), (1, 1), (1, 4), (4, 7)]];

#[test]
fn a_step_has_the_gradients_of_the_whole_batch_however_it_is_divided() {
    let (loss, gradients) = whole();
    for parts in PARTS {
        for bytes in [1, 25_000_000] {
            on_ranks(parts.len() as u32, |rank, comm, stream| {
                let (from, to) = parts[rank.index() as usize];
                let options = BucketOptions::default().bytes(bytes);
                let map = map(0);
                let with = DataParallel::with(options, &map, DType::F32, comm, stream, model);
                let mut parallel = with?;
                assert_eq!(parallel.names(), NAMES);
                for _ in 0..2 {
                    let (x, y) = rows(from, to.max(from));
                    let step = parallel.step(to - from, 7, |model| mse(&model.forward(&x)?, &y))?;
                    assert!((step.loss - loss).abs() < 1e-5, "{} is not {loss}", step.loss);
                    for (var, expected) in parallel.vars().iter().zip(&gradients) {
                        assert_near(step.gradients.get(var).unwrap(), expected);
                    }
                }
                Ok(())
            });
        }
    }
}

#[test]
fn replicas_begin_with_the_parameters_of_rank_0_and_stay_the_same_bits() {
    let of_ranks = on_ranks(3, |rank, comm, stream| {
        let own = rank.index() as usize;
        let mut parallel = DataParallel::new(&map(own), DType::F32, comm, stream, model)?;
        let flats = |vars: &[Var]| vars.iter().flat_map(|var| flat(var)).collect::<Vec<_>>();
        let first = flats(parallel.vars());
        let mut optimiser = SGD::new(parallel.vars().to_vec(), 0.1)?;
        let (x, y) = rows(own, own + 2);
        for _ in 0..3 {
            let step = parallel.step(2, 6, |model| mse(&model.forward(&x)?, &y))?;
            optimiser.step(&step.gradients)?;
        }
        Ok((first, flats(parallel.vars()), flat(&parallel.model().forward(&rows(0, 7).0)?)))
    });
    let of_rank_0 = flat(&map(0).data().lock().unwrap()["first.weight"]);
    assert_eq!(of_ranks[0].0[..9], of_rank_0);
    assert_ne!(of_ranks[0].0, of_ranks[0].1);
    assert!(of_ranks.iter().all(|rank| *rank == of_ranks[0]));
}

#[test]
fn accumulated_parts_join_the_next_step_once() {
    let (loss, gradients) = whole();
    on_ranks(2, |rank, comm, stream| {
        let mut parallel = DataParallel::new(&map(0), DType::F32, comm, stream, model)?;
        let parts = [[(0, 1), (1, 3)], [(3, 6), (6, 7)]][rank.index() as usize];
        for _ in 0..2 {
            let (x, y) = rows(parts[0].0, parts[0].1);
            let more = parts[0].1 - parts[0].0;
            parallel.accumulate(more, 7, |model| mse(&model.forward(&x)?, &y))?;
            parallel.accumulate(0, 7, |_| panic!("there are no rows"))?;
            let (x, y) = rows(parts[1].0, parts[1].1);
            let rest = parts[1].1 - parts[1].0;
            let step = parallel.step(rest, 7, |model| mse(&model.forward(&x)?, &y))?;
            assert!((step.loss - loss).abs() < 1e-5);
            for (var, expected) in parallel.vars().iter().zip(&gradients) {
                assert_near(step.gradients.get(var).unwrap(), expected);
            }
        }
        Ok(())
    });
}

#[test]
fn clipping_brings_the_norm_of_all_gradients_down_and_leaves_smaller_ones_and_the_loss() {
    let (loss, gradients) = whole();
    let norm = |gradients: &[Tensor]| {
        gradients.iter().flat_map(flat).map(|x| f64::from(x).powi(2)).sum::<f64>().sqrt()
    };
    let before = norm(&gradients);
    for (most, after) in [(before / 4.0, before / 4.0), (before * 4.0, before)] {
        on_ranks(2, |rank, comm, stream| {
            let mut parallel =
                DataParallel::new(&map(0), DType::F32, comm, stream, model)?.clip_norm(most);
            let (from, to) = PARTS[1][rank.index() as usize];
            let (x, y) = rows(from, to);
            let step = parallel.step(to - from, 7, |model| mse(&model.forward(&x)?, &y))?;
            let of = |var: &Var| step.gradients.get(var).unwrap().clone();
            let clipped: Vec<Tensor> = parallel.vars().iter().map(of).collect();
            assert!((norm(&clipped) - after).abs() < 1e-5, "{} is not {after}", norm(&clipped));
            assert!((step.loss - loss).abs() < 1e-5);
            Ok(())
        });
    }
}

#[test]
fn a_limit_that_is_none_is_refused_before_anything_is_sent() {
    for most in [-1.0, f64::NAN] {
        on_ranks(1, |_, comm, stream| {
            let mut parallel =
                DataParallel::new(&map(0), DType::F32, comm, stream, model)?.clip_norm(most);
            let (x, y) = rows(0, 7);
            let refused = parallel.step(7, 7, |model| mse(&model.forward(&x)?, &y)).map(drop);
            said(refused, "pass a number from 0");
            Ok(())
        });
    }
}

#[test]
fn gradients_of_16_bits_keep_their_type_and_are_summed_in_32() {
    for dtype in [DType::BF16, DType::F16] {
        on_ranks(3, |rank, comm, stream| {
            let weight = |vb: VarBuilder| vb.get_with_hints(2, "weight", Init::Const(1.0));
            let mut parallel = DataParallel::new(&VarMap::new(), dtype, comm, stream, weight)?;
            // In 16 bits, a sum of 256, 1 and 1 could lose the ones.
            let factor = [256.0, 1.0, 1.0][rank.index() as usize];
            let step = parallel.step(1, 1, |weight| (weight * factor)?.sum_all())?;
            let gradient = step.gradients.get(&parallel.vars()[0]).unwrap();
            assert_eq!(gradient.dtype(), dtype);
            assert_eq!(flat(gradient), [258.0; 2]);
            Ok(())
        });
    }
}

#[test]
fn mistakes_of_a_model_are_told_when_it_is_made() {
    on_ranks(1, |rank, comm, stream| {
        let none = |_: VarBuilder| Ok(());
        let map = VarMap::new();
        said(DataParallel::new(&map, DType::F32, comm, stream, none), "requested no parameter");
        let (comm, stream) = (rank.communicator()?, rank.device().stream()?);
        let made = DataParallel::new(&map, DType::F64, comm, stream, |vb| linear(1, 1, vb));
        assert!(matches!(made, Err(Error::ParameterType { dtype: DType::F64, .. })));
        Ok(())
    });
}

#[test]
fn mistakes_in_a_step_are_told_before_anything_moves() {
    on_ranks(2, |rank, comm, stream| {
        let mut parallel = DataParallel::new(&map(0), DType::F32, comm, stream, model)?;
        let (x, y) = rows(0, 2);
        said(parallel.step(3, 2, |_| panic!()).map(drop), "3 rows cannot be the part of a batch");
        said(parallel.step(0, 0, |_| panic!()).map(drop), "a batch of 0 rows");
        said(parallel.accumulate(3, 2, |_| panic!()), "3 rows cannot be");
        said(parallel.step(2, 4, |model| model.forward(&x)).map(drop), "has 4 elements");
        said(parallel.step(2, 4, |_| candle_core::bail!("my own")).map(drop), "my own");
        // A step still works after all these errors.
        let step = parallel.step(2, 4, |model| mse(&model.forward(&x)?, &y))?;
        assert!(step.loss > 0.0, "on rank {}", rank.index());
        Ok(())
    });
}

#[test]
fn a_model_that_asks_for_other_parameters_later_is_refused() {
    on_ranks(1, |_, comm, stream| {
        let calls = Mutex::new(0);
        let changing = move |vb: VarBuilder| {
            *calls.lock().unwrap() += 1;
            match *calls.lock().unwrap() {
                1 => vb.get(2, "one"),
                2 => vb.get(2, "two"),
                3 => vb.get(3, "one"),
                _ => vb.get_unchecked("one"),
            }
        };
        let mut parallel = DataParallel::new(&VarMap::new(), DType::F32, comm, stream, changing)?;
        let mut refused = |piece| said(parallel.step(1, 1, |one| one.sum_all()).map(drop), piece);
        refused("requests a parameter two that it did not request");
        refused("parameter one is [2] of F32, not [3] of F32");
        refused("was requested without its shape");
        Ok(())
    });
}

#[test]
fn a_backward_pass_outside_of_the_step_is_refused() {
    on_ranks(1, |_, comm, stream| {
        let one = |vb: VarBuilder| vb.get_with_hints(2, "one", Init::Const(1.0));
        let mut parallel = DataParallel::new(&VarMap::new(), DType::F32, comm, stream, one)?;
        let kept = Arc::new(Mutex::new(None));
        let keep = kept.clone();
        parallel.step(1, 1, move |one| {
            *keep.lock().unwrap() = Some(one.sum_all()?);
            one.sum_all()
        })?;
        let kept = kept.lock().unwrap().take().unwrap();
        let refused = kept.backward().unwrap_err().to_string();
        assert!(refused.contains("parameter one comes outside of its step"), "{refused}");
        // The kept tensor is also refused within the next step.
        let refused = parallel.step(1, 1, |one| one.sum_all()? + &kept);
        assert!(matches!(refused, Err(Error::OutsideOfStep { .. })), "{refused:?}");
        // Here the caller runs a backward pass inside a step, before that of the step.
        let refused = parallel.step(1, 1, |one| {
            one.sum_all()?.backward()?;
            one.sum_all()
        });
        said(refused.map(drop), "tensor 0 was already pushed");
        Ok(())
    });
}
