//! Tests of layers that are divided among the ranks.

use hccl_train::Error;
use hccl_train::tensor_parallel::{ColumnLinear, RowLinear, TensorParallel};
use ndarray::{Array1, Array2};

use crate::on_ranks;

/// Returns a matrix of whole numbers, whose sums and products are exact.
fn matrix(rows: usize, columns: usize, seed: usize) -> Array2<f32> {
    let value = |(row, column)| ((row * 7 + column * 3 + seed) % 11) as f32 - 5.0;
    Array2::from_shape_fn((rows, columns), value)
}

fn vector(length: usize, seed: usize) -> Array1<f32> {
    Array1::from_shape_fn(length, |at| ((at * 5 + seed) % 7) as f32 - 3.0)
}

#[test]
fn divided_layers_compute_what_whole_ones_do() {
    on_ranks(|rank, comm, stream| {
        let ranks = rank.world_size() as usize;
        let (tokens, width, hidden) = (3, 5, 2 * ranks);
        let inputs = matrix(tokens, width, 1);
        let (first, first_bias) = (matrix(width, hidden, 2), vector(hidden, 3));
        let (second, second_bias) = (matrix(hidden, width, 4), vector(width, 5));
        let delta = matrix(tokens, width, 6);
        // The results of the whole layers.
        let middle = inputs.dot(&first) + &first_bias;
        let outputs = middle.dot(&second) + &second_bias;
        let middle_delta = delta.dot(&second.t());
        let inputs_delta = middle_delta.dot(&first.t());
        // The results of the divided layers.
        let mut group = TensorParallel::new(comm, stream);
        let column = ColumnLinear::part_of(&first, &first_bias, &group)?;
        let row = RowLinear::part_of(&second, &second_bias, &group)?;
        let own = rank.index() as isize * 2..rank.index() as isize * 2 + 2;
        let own_middle = column.forward(inputs.view());
        assert_eq!(own_middle, middle.slice(ndarray::s![.., own.clone()]));
        assert_eq!(row.forward(own_middle.view(), &mut group)?, outputs);
        let of_row = row.backward(own_middle.view(), delta.view());
        assert_eq!(of_row.inputs, middle_delta.slice(ndarray::s![.., own.clone()]));
        let weight = middle.t().dot(&delta);
        assert_eq!(of_row.weight, weight.slice(ndarray::s![own.clone(), ..]));
        assert_eq!(of_row.bias, delta.sum_axis(ndarray::Axis(0)));
        let of_column = column.backward(inputs.view(), of_row.inputs.view(), &mut group)?;
        assert_eq!(of_column.inputs, inputs_delta);
        let weight = inputs.t().dot(&middle_delta);
        assert_eq!(of_column.weight, weight.slice(ndarray::s![.., own.clone()]));
        let bias = middle_delta.sum_axis(ndarray::Axis(0));
        assert_eq!(of_column.bias, bias.slice(ndarray::s![own]));
        if ranks > 1 {
            let odd =
                ColumnLinear::part_of(&matrix(2, ranks + 1, 0), &vector(ranks + 1, 0), &group);
            assert!(matches!(odd, Err(Error::NotDivisible { what: "outputs", .. })));
            let odd = RowLinear::part_of(&matrix(ranks + 1, 2, 0), &vector(2, 0), &group);
            assert!(matches!(odd, Err(Error::NotDivisible { what: "inputs", .. })));
        }
        assert!(RowLinear::part_of(&matrix(ranks, 2, 0), &vector(3, 0), &group).is_err());
        Ok(())
    });
}

#[test]
fn each_pair_has_the_backward_of_its_forward() {
    on_ranks(|rank, comm, stream| {
        let (me, ranks) = (rank.index() as usize, rank.world_size() as usize);
        let mut group = TensorParallel::new(comm, stream);
        let of = |rank: usize, length: usize| -> Vec<f32> {
            (0..length).map(|at| (at + 100 * rank) as f32).collect()
        };
        let sum: Vec<f32> = (0..6 * ranks)
            .map(|at| (0..ranks).map(|rank| (at + 100 * rank) as f32).sum())
            .collect();
        let own = of(me, 6 * ranks);
        assert_eq!(group.reduce_out(&own)?, sum);
        assert_eq!(group.copy_in_backward(&own)?, sum);
        assert_eq!(group.scatter_out(&own)?, sum[6 * me..6 * me + 6]);
        assert_eq!(group.gather_in_backward(&own)?, sum[6 * me..6 * me + 6]);
        let all: Vec<f32> = (0..ranks).flat_map(|rank| of(rank, 4)).collect();
        assert_eq!(group.gather_in(&of(me, 4))?, all);
        assert_eq!(group.scatter_out_backward(&of(me, 4))?, all);
        assert!(group.gather_in::<f32>(&[])?.is_empty());
        assert!(group.scatter_out::<f32>(&[])?.is_empty());
        assert!(group.reduce_out::<f32>(&[])?.is_empty());
        if ranks > 1 {
            let odd = group.scatter_out(&of(0, ranks + 1));
            assert!(matches!(odd, Err(Error::NotDivisible { .. })));
        }
        Ok(())
    });
}
