//! Converts between burn's parameters, of any number of dimensions, and lists of numbers.
//!
//! The trainable parameters are numbered in the order in which a model visits them.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Tensor, TensorData};

use crate::error::{Error, Result};

/// Returns whether gradients of a parameter are summed. Frozen parameters have no gradients.
fn learns<const D: usize>(param: &Param<Tensor<D>>) -> bool {
    param.is_require_grad()
}

fn numbers<const D: usize>(parameter: usize, tensor: Tensor<D>) -> Result<Vec<f32>> {
    let unreadable = |error| Error::Unreadable { parameter, problem: format!("{error:?}") };
    tensor.try_into_vec_as::<f32>().map_err(unreadable)
}

/// The number of elements of each trainable parameter.
#[derive(Default)]
pub(crate) struct Lengths(pub(crate) Vec<usize>);

impl ModuleVisitor for Lengths {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if learns(param) {
            self.0.push(param.val().shape().num_elements());
        }
    }
}

/// Returns the number of elements of each trainable parameter.
pub(crate) fn lengths(model: &impl Module) -> Vec<usize> {
    let mut lengths = Lengths::default();
    model.visit(&mut lengths);
    lengths.0
}

struct Values(Vec<Result<Vec<f32>>>);

impl ModuleVisitor for Values {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.push(numbers(self.0.len(), param.val()));
    }
}

/// Returns the values of all parameters, also of those that are frozen.
pub(crate) fn values(model: &impl Module) -> Result<Vec<Vec<f32>>> {
    let mut values = Values(Vec::new());
    model.visit(&mut values);
    values.0.into_iter().collect()
}

struct WithValues<I>(I);

impl<I: Iterator<Item = Vec<f32>>> ModuleMapper for WithValues<I> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(values) = self.0.next() else { return param };
        param.map(|tensor| {
            let learns = tensor.is_require_grad();
            let data = TensorData::new(values, tensor.shape());
            let options = (&tensor.device(), tensor.dtype());
            Tensor::from_data(data, options).set_require_grad(learns)
        })
    }
}

/// Returns the model with other values, in the order of [`values`].
pub(crate) fn with_values<M: Module>(model: M, values: Vec<Vec<f32>>) -> M {
    model.map(&mut WithValues(values.into_iter()))
}

struct Taken<'a> {
    gradients: &'a mut GradientsParams,
    taken: Vec<Result<Option<Vec<f32>>>>,
}

impl ModuleVisitor for Taken<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if learns(param) {
            let gradient = self.gradients.remove::<D>(param.id);
            let at = self.taken.len();
            self.taken.push(gradient.map(|gradient| numbers(at, gradient)).transpose());
        }
    }
}

/// Takes the gradient of each trainable parameter, if it has one.
pub(crate) fn take_gradients(
    model: &impl Module,
    mut gradients: GradientsParams,
) -> Result<Vec<Option<Vec<f32>>>> {
    let mut taken = Taken { gradients: &mut gradients, taken: Vec::new() };
    model.visit(&mut taken);
    taken.taken.into_iter().collect()
}

struct Given<I> {
    gradients: GradientsParams,
    given: I,
}

impl<I: Iterator<Item = Option<Vec<f32>>>> ModuleVisitor for Given<I> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if !learns(param) {
            return;
        }
        let Some(Some(gradient)) = self.given.next() else { return };
        let value = param.val().inner();
        let data = TensorData::new(gradient, value.shape());
        let gradient = Tensor::<D>::from_data(data, (&value.device(), value.dtype()));
        self.gradients.register(param.id, gradient);
    }
}

/// Converts gradients of the trainable parameters into those for an optimiser of burn.
pub(crate) fn give_gradients(model: &impl Module, given: Vec<Option<Vec<f32>>>) -> GradientsParams {
    let mut given = Given { gradients: GradientsParams::new(), given: given.into_iter() };
    model.visit(&mut given);
    given.gradients
}
