//! A small model with parameters of all kinds.

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, TensorData};
use burn::train::{InferenceStep, TrainOutput, TrainStep};

/// A batch: rows of three numbers.
pub type Batch = Tensor<2>;

#[derive(Module, Debug)]
pub struct Toy {
    pub weight: Param<Tensor<2>>,
    pub bias: Param<Tensor<1>>,
    /// A parameter on which no loss depends.
    unused: Param<Tensor<1>>,
    /// A parameter that does not learn.
    frozen: Param<Tensor<1>>,
}

impl Toy {
    pub fn new(seed: f32, device: &Device) -> Self {
        let numbers =
            |at: f32| (0..6).map(|i| (i as f32 * 1.7 + at + seed).sin()).collect::<Vec<f32>>();
        let tensor = |mut data: Vec<f32>| {
            data.truncate(2);
            Tensor::<1>::from_data(TensorData::new(data, [2]), device)
        };
        let weight = Tensor::from_data(TensorData::new(numbers(0.0), [3, 2]), device);
        Self {
            weight: Param::from_tensor(weight),
            bias: Param::from_tensor(tensor(numbers(1.0))),
            unused: Param::from_tensor(tensor(numbers(2.0))),
            frozen: Param::from_tensor(tensor(numbers(3.0))).set_require_grad(false),
        }
    }

    /// Returns all parameters, one after the other.
    pub fn numbers(&self) -> Vec<f32> {
        let mut all = self.weight.val().try_into_vec_as::<f32>().unwrap();
        for param in [&self.bias, &self.unused, &self.frozen] {
            all.extend(param.val().try_into_vec_as::<f32>().unwrap());
        }
        all
    }

    fn loss(&self, rows: Batch) -> Tensor<1> {
        let outputs = rows.matmul(self.weight.val()) + self.bias.val().unsqueeze();
        (outputs.tanh() * self.frozen.val().unsqueeze()).mean()
    }
}

impl TrainStep for Toy {
    type Input = Batch;
    type Output = ();

    fn step(&self, rows: Batch) -> TrainOutput<()> {
        TrainOutput::new(self, self.loss(rows).backward(), ())
    }
}

impl InferenceStep for Toy {
    type Input = Batch;
    type Output = ();

    fn step(&self, rows: Batch) {
        self.loss(rows);
    }
}
