//! Tests divided layers: their outputs, their gradients, and the errors of mistakes.

use candle_core::{DType, Device, Tensor, Var};
use candle_nn::{Linear, Module, VarBuilder, VarMap};
use hccl_candle::{ColumnLinear, DataParallel, Group, RowLinear};

use crate::{assert_near, numbers, on_ranks};

/// Returns the parameters of two whole layers, and a whole batch of tokens.
fn whole() -> ([Var; 4], Tensor) {
    let var = |rows, columns, seed| Var::from_tensor(&numbers(rows, columns, seed)).unwrap();
    let flat = |var: Var| Var::from_tensor(&var.flatten_all().unwrap()).unwrap();
    let vars = [var(8, 5, 1), flat(var(1, 8, 2)), var(3, 8, 3), flat(var(1, 3, 4))];
    (vars, numbers(8, 5, 5))
}

/// Returns the mean of the squares of the layers' outputs.
fn loss(outputs: &Tensor) -> candle_core::Result<Tensor> {
    outputs.sqr()?.mean_all()
}

/// Returns the loss, and the gradients of the parameters and of the inputs.
fn expected() -> (Tensor, Vec<Tensor>) {
    let (vars, inputs) = whole();
    let inputs = Var::from_tensor(&inputs).unwrap();
    let [weight, bias, next, last] = &vars;
    let layer = |weight: &Var, bias: &Var| {
        Linear::new(weight.as_tensor().clone(), Some(bias.as_tensor().clone()))
    };
    let hidden = layer(weight, bias).forward(&inputs).unwrap().tanh().unwrap();
    let loss = loss(&layer(next, last).forward(&hidden).unwrap()).unwrap();
    let gradients = loss.backward().unwrap();
    let all = vars.iter().chain([&inputs]);
    (loss, all.map(|var| gradients.get(var).unwrap().clone()).collect())
}

#[test]
fn divided_layers_compute_what_whole_ones_do_forward_and_backward() {
    for ranks in [1, 2, 4] {
        on_ranks(ranks, |rank, comm, stream| {
            let group = Group::new(comm, stream);
            assert_eq!((group.rank(), group.ranks()), (rank.index() as usize, ranks as usize));
            let (vars, inputs) = whole();
            let part = |at: usize, dim| Var::from_tensor(&group.part(&vars[at], dim)?);
            let own = [part(0, 0)?, part(1, 0)?, part(2, 1)?, vars[3].clone()];
            let tensor = |at: usize| own[at].as_tensor().clone();
            let column = ColumnLinear::new(tensor(0), Some(tensor(1)), &group);
            let row = RowLinear::new(tensor(2), Some(tensor(3)), &group);
            let inputs = Var::from_tensor(&inputs)?;
            // A batch of sequences, whose tokens are the rows of the whole layer.
            let sequences = inputs.reshape((2, 4, 5))?;
            let outputs = row.forward(&column.forward(&sequences)?.tanh()?)?;
            let loss = loss(&outputs)?;
            let gradients = loss.backward()?;

            let (expected_loss, expected) = expected();
            assert_near(&loss, &expected_loss);
            let dims = [Some(0), Some(0), Some(1), None, None];
            for (at, var) in own.iter().chain([&inputs]).enumerate() {
                let part = match dims[at] {
                    Some(dim) => group.part(&expected[at], dim)?,
                    None => expected[at].clone(),
                };
                assert_near(gradients.get(var).unwrap(), &part);
            }
            Ok(())
        });
    }
}

#[test]
fn each_function_of_a_group_has_the_backward_of_its_forward() {
    for ranks in [1, 2, 4] {
        on_ranks(ranks, |rank, comm, stream| {
            let (own, all) = (rank.index() as usize, ranks as usize);
            let group = Group::new(comm, stream);
            let of = |rank| numbers(4, 3, rank);
            let sum = |of: &dyn Fn(usize) -> Tensor| {
                (1..all).fold(of(0), |sum, rank| (sum + of(rank)).unwrap())
            };
            let share = |whole: &Tensor| group.part(whole, 0).unwrap();
            let gathered = |of: &dyn Fn(usize) -> Tensor| {
                Tensor::cat(&(0..all).map(of).collect::<Vec<_>>(), 0)
            };
            // The gradient of `sum(outputs * weight)` with respect to the outputs is the weight.
            let check = |go: &dyn Fn(&Tensor) -> candle_core::Result<Tensor>,
                         outputs: Tensor,
                         weight: Tensor,
                         inputs: Tensor|
             -> candle_core::Result<()> {
                let own = Var::from_tensor(&of(own))?;
                // Two transpositions store the elements in another order than row by row.
                let given = go(&own.t()?.contiguous()?.t()?)?;
                assert_near(&given, &outputs);
                let gradients = (given * weight)?.sum_all()?.backward()?;
                assert_near(gradients.get(&own).unwrap(), &inputs);
                Ok(())
            };
            let weight = |rank: usize| numbers(4, 3, 50 + rank);
            check(&|x| group.copy_in(x), of(own), weight(own), sum(&weight))?;
            check(&|x| group.reduce_out(x), sum(&of), weight(own), weight(own))?;
            let long = |rank: usize| numbers(4 * all, 3, 70 + rank);
            check(&|x| group.gather_in(x), gathered(&of)?, long(own), share(&sum(&long)))?;
            let short = |rank: usize| numbers(4 / all, 3, 90 + rank);
            check(&|x| group.scatter_out(x), share(&sum(&of)), short(own), gathered(&short)?)?;
            Ok(())
        });
    }
}

#[test]
fn new_layers_have_the_shapes_of_their_parts_and_what_is_whole_can_be_made_the_same() {
    let biases = on_ranks(2, |rank, comm, stream| {
        let group = Group::new(comm, stream);
        let map = VarMap::new();
        let vb = VarBuilder::from_varmap(&map, DType::F32, &Device::Cpu);
        let column = ColumnLinear::load(3, 8, vb.pp("column"), &group)?;
        let row = RowLinear::load(8, 5, vb.pp("row"), &group)?;
        assert_eq!(column.linear().weight().dims(), [4, 3]);
        assert_eq!(column.linear().bias().unwrap().dims(), [4]);
        assert_eq!(row.weight().dims(), [5, 4]);
        let bias = Var::from_tensor(&(row.bias().unwrap() + f64::from(rank.index() + 1))?)?;
        group.broadcast(std::slice::from_ref(&bias))?;
        Ok(crate::flat(&bias))
    });
    assert_eq!(biases, [[1.0; 5]; 2]);
}

#[test]
fn weights_of_a_new_layer_are_as_wide_as_those_of_the_whole_layer() {
    on_ranks(4, |_, comm, stream| {
        let group = Group::new(comm, stream);
        let map = VarMap::new();
        let vb = VarBuilder::from_varmap(&map, DType::F32, &Device::Cpu);
        let row = RowLinear::load(1024, 128, vb, &group)?;
        let weights = crate::flat(row.weight());
        let squares: f32 = weights.iter().map(|weight| weight * weight).sum();
        let variance = squares / weights.len() as f32;
        // For 32768 numbers the standard error of the variance is a tenth of these bounds.
        assert!((0.92..1.08).contains(&(variance * 1024.0 / 2.0)), "{variance}");
        Ok(())
    });
}

#[test]
fn what_cannot_be_divided_is_told() {
    on_ranks(2, |_, comm, stream| {
        let group = Group::new(comm, stream);
        let said = |outcome: candle_core::Result<()>, piece: &str| {
            let text = outcome.expect_err(piece).to_string();
            assert!(text.contains(piece), "{piece:?} is not in: {text}");
        };
        let vb = VarBuilder::zeros(DType::F32, &Device::Cpu);
        let made = ColumnLinear::load(3, 5, vb.clone(), &group).map(drop);
        said(made, "the number of outputs, 5, cannot be divided evenly among 2 ranks");
        let made = RowLinear::load(3, 5, vb, &group).map(drop);
        said(made, "the number of inputs, 3, cannot be divided evenly among 2 ranks");
        let odd = numbers(3, 2, 0);
        said(group.part(&odd, 0).map(drop), "elements of the dimension, 3, cannot be divided");
        said(group.scatter_out(&odd).map(drop), "tokens, 3, cannot be divided");
        let one = Tensor::new(1f32, &Device::Cpu)?;
        said(group.gather_in(&one).map(drop), "a tensor without dimensions has no tokens");
        let whole = Tensor::new(&[1u32, 2], &Device::Cpu)?;
        said(group.reduce_out(&whole).map(drop), "ranks cannot sum U32");
        Ok(())
    });
}

#[test]
fn replicas_of_divided_layers_have_the_gradients_of_the_whole_batch() {
    on_ranks(4, |rank, mut comm, stream| {
        let (replica, part) = (rank.index() / 2, rank.index() % 2);
        let group = comm.split(Some(replica), part).wait()?.unwrap();
        let group = Group::new(group, rank.device().stream()?);
        let replicas = comm.split(Some(part), replica).wait()?.unwrap();
        let (vars, inputs) = whole();
        let map = VarMap::new();
        let names = ["column.weight", "column.bias", "row.weight", "row.bias"];
        let dims = [Some(0), Some(0), Some(1), None];
        let own = |at: usize, whole: &Tensor| match dims[at] {
            Some(dim) => group.part(whole, dim),
            None => Ok(whole.clone()),
        };
        for (at, name) in names.into_iter().enumerate() {
            let var = Var::from_tensor(&own(at, vars[at].as_tensor())?.force_contiguous()?)?;
            map.data().lock().unwrap().insert(name.into(), var);
        }
        let of_model = group.clone();
        let model = move |vb: VarBuilder| {
            let column = ColumnLinear::load(5, 8, vb.pp("column"), &of_model)?;
            Ok((column, RowLinear::load(8, 3, vb.pp("row"), &of_model)?))
        };
        let mut parallel = DataParallel::new(&map, DType::F32, replicas, stream, model)?;
        let rows = inputs.narrow(0, 3 * replica as usize, 3 + 2 * replica as usize)?;
        let step = parallel.step(rows.dim(0)?, 8, |(column, row)| {
            loss(&row.forward(&column.forward(&rows)?.tanh()?)?)
        })?;
        let (expected_loss, expected) = expected();
        assert!((step.loss - crate::flat(&expected_loss)[0]).abs() < 1e-5);
        for (at, var) in parallel.vars().iter().enumerate() {
            assert_near(step.gradients.get(var).unwrap(), &own(at, &expected[at])?);
        }
        Ok(())
    });
}
