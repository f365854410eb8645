//! A multilayer perceptron with ReLU between its layers, softmax and cross-entropy at its end.
//!
//! Nothing here depends on ranks. The backward pass handles one layer at a time, and writes its
//! gradient into memory of the caller. So the caller can send the gradient before the next layer
//! begins. All sums are made in a fixed order: the same numbers give the same bits.

use ndarray::linalg::general_mat_mul;
use ndarray::{
    Array1, Array2, ArrayView1, ArrayView2, ArrayViewMut1, ArrayViewMut2, Axis, ShapeError, Zip,
};

/// Weights and bias of one layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// The weights: a row for each input, a column for each output.
    pub weights: Array2<f32>,
    /// The bias: a value for each output.
    pub bias: Array1<f32>,
}

impl Layer {
    /// Makes a layer without a bias. Its weights are uniform, with a variance that keeps the size
    /// of the signal through a ReLU (He).
    fn new(inputs: usize, outputs: usize, random: &mut fastrand::Rng) -> Self {
        let bound = (6.0 / inputs as f32).sqrt();
        Self {
            weights: Array2::from_shape_simple_fn((inputs, outputs), || {
                bound * (2.0 * random.f32() - 1.0)
            }),
            bias: Array1::zeros(outputs),
        }
    }

    /// Returns the number of parameters: weights and bias.
    pub fn parameters(&self) -> usize {
        self.weights.len() + self.bias.len()
    }

    /// Returns the outputs, one row for each image. Those of all layers but the last go through a
    /// ReLU.
    pub fn forward(&self, inputs: &ArrayView2<f32>, is_last: bool) -> Array2<f32> {
        let mut outputs = inputs.dot(&self.weights) + &self.bias;
        if !is_last {
            outputs.mapv_inplace(|value| value.max(0.0));
        }
        outputs
    }

    /// Writes `scale` times the gradient of this layer's parameters: first the weights, row by row,
    /// then the bias. The layer was given `inputs`, and `delta` is the gradient of its outputs.
    ///
    /// `gradient` has [`Layer::parameters`] elements.
    pub fn backward(
        &self,
        inputs: &ArrayView2<f32>,
        delta: &Array2<f32>,
        scale: f32,
        gradient: &mut [f32],
    ) -> Result<(), ShapeError> {
        let (weights, bias) = gradient.split_at_mut(self.weights.len());
        let mut weights = ArrayViewMut2::from_shape(self.weights.dim(), weights)?;
        let mut bias = ArrayViewMut1::from_shape(self.bias.dim(), bias)?;
        general_mat_mul(scale, &inputs.t(), delta, 0.0, &mut weights);
        bias.assign(&(delta.sum_axis(Axis(0)) * scale));
        Ok(())
    }

    /// Returns the gradient of the inputs, which are the outputs of a ReLU.
    pub fn delta_before(&self, inputs: &ArrayView2<f32>, delta: &Array2<f32>) -> Array2<f32> {
        let mut before = delta.dot(&self.weights.t());
        Zip::from(&mut before).and(inputs).for_each(|gradient, &input| {
            if input <= 0.0 {
                *gradient = 0.0;
            }
        });
        before
    }
}

/// The layers, from the pixels to the digits.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// The layers, at least one.
    pub layers: Vec<Layer>,
}

impl Network {
    /// Makes a network with `widths[0]` inputs, `widths[1]` outputs of its first layer and so on.
    pub fn new(widths: &[usize], random: &mut fastrand::Rng) -> Self {
        let pairs = widths.windows(2);
        Self { layers: pairs.map(|pair| Layer::new(pair[0], pair[1], random)).collect() }
    }

    /// Returns the number of parameters of all layers.
    pub fn parameters(&self) -> usize {
        self.layers.iter().map(Layer::parameters).sum()
    }

    /// Returns the outputs of every layer, one row for each image. The outputs of the last layer
    /// are the logits. All others have gone through a ReLU.
    pub fn forward(&self, images: ArrayView2<f32>) -> Vec<Array2<f32>> {
        let mut outputs: Vec<Array2<f32>> = Vec::with_capacity(self.layers.len());
        for (index, layer) in self.layers.iter().enumerate() {
            let inputs = outputs.last().map_or(images, |previous| previous.view());
            let output = layer.forward(&inputs, index + 1 == self.layers.len());
            outputs.push(output);
        }
        outputs
    }

    /// Returns `scale` times the gradient of some rows, layer after layer, and after it `scale`
    /// times their loss.
    pub fn gradient(
        &self,
        images: ArrayView2<f32>,
        labels: &[u8],
        scale: f32,
    ) -> Result<Vec<f32>, ShapeError> {
        let outputs = self.forward(images);
        let mut all = vec![0.0; self.parameters() + 1];
        let Some(logits) = outputs.last() else { return Ok(all) };
        let (loss, mut delta) = softmax_cross_entropy(logits, labels);
        let mut end = self.parameters();
        all[end] = loss * scale;
        for (index, layer) in self.layers.iter().enumerate().rev() {
            let start = end - layer.parameters();
            let inputs = if index == 0 { images } else { outputs[index - 1].view() };
            layer.backward(&inputs, &delta, scale, &mut all[start..end])?;
            if index > 0 {
                delta = layer.delta_before(&inputs, &delta);
            }
            end = start;
        }
        Ok(all)
    }

    /// Returns a hash of all bits of the parameters (64-bit FNV-1a).
    pub fn hash(&self) -> u64 {
        let parameters =
            self.layers.iter().flat_map(|layer| layer.weights.iter().chain(&layer.bias));
        let bytes = parameters.flat_map(|parameter| parameter.to_bits().to_le_bytes());
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    }

    /// Returns the share of images, from 0 to 1, whose largest logit is that of their label.
    pub fn accuracy(&self, images: ArrayView2<f32>, labels: &[u8]) -> f64 {
        let outputs = self.forward(images);
        let Some(logits) = outputs.last() else { return 0.0 };
        let right = logits.outer_iter().zip(labels).filter(|(row, label)| {
            let largest = (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b]));
            largest == Some(usize::from(**label))
        });
        right.count() as f64 / labels.len() as f64
    }
}

/// Returns the sum over the rows of the cross-entropy between softmax(logits) and the labels, and
/// the gradient of that sum with respect to the logits.
pub fn softmax_cross_entropy(logits: &Array2<f32>, labels: &[u8]) -> (f32, Array2<f32>) {
    let mut delta = logits.clone();
    let mut loss = 0.0;
    for (mut row, &label) in delta.outer_iter_mut().zip(labels) {
        let label = usize::from(label);
        let largest = row.fold(f32::NEG_INFINITY, |a, &b| a.max(b));
        let logit = row[label] - largest;
        row.mapv_inplace(|value| (value - largest).exp());
        let sum = row.sum();
        loss += sum.ln() - logit;
        row /= sum;
        row[label] -= 1.0;
    }
    (loss, delta)
}

/// Gradient descent with momentum, for one layer.
#[derive(Clone, Debug)]
pub struct Momentum {
    velocity: Array1<f32>,
    keep: f32,
}

impl Momentum {
    /// Makes the optimiser, with a velocity of zero. `keep` is the share of the velocity that a
    /// step keeps.
    pub fn new(layer: &Layer, keep: f32) -> Self {
        Self { velocity: Array1::zeros(layer.parameters()), keep }
    }

    /// Moves the parameters one step down the gradient. `gradient` is laid out as
    /// [`Layer::backward`] writes it.
    pub fn step(
        &mut self,
        layer: &mut Layer,
        gradient: &[f32],
        rate: f32,
    ) -> Result<(), ShapeError> {
        let gradient = ArrayView1::from_shape(self.velocity.dim(), gradient)?;
        let keep = self.keep;
        Zip::from(&mut self.velocity)
            .and(gradient)
            .for_each(|velocity, &gradient| *velocity = keep * *velocity + gradient);
        let shape = layer.weights.dim();
        let (weights, bias) = self.velocity.view().split_at(Axis(0), layer.weights.len());
        layer.weights.scaled_add(-rate, &weights.into_shape_with_order(shape)?);
        layer.bias.scaled_add(-rate, &bias);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTHS: [usize; 4] = [6, 9, 8, 3];

    fn network(seed: u64) -> Network {
        Network::new(&WIDTHS, &mut fastrand::Rng::with_seed(seed))
    }

    fn images() -> (Array2<f32>, Vec<u8>) {
        let mut random = fastrand::Rng::with_seed(7);
        (Array2::from_shape_simple_fn((5, 6), || random.f32()), vec![0, 2, 1, 1, 0])
    }

    fn loss(network: &Network, images: &Array2<f32>, labels: &[u8]) -> f32 {
        softmax_cross_entropy(network.forward(images.view()).last().unwrap(), labels).0
    }

    /// Returns the gradient of every layer, first layer first.
    fn gradients(network: &Network, images: ArrayView2<f32>, labels: &[u8]) -> Vec<Vec<f32>> {
        let outputs = network.forward(images);
        let (_, mut delta) = softmax_cross_entropy(outputs.last().unwrap(), labels);
        let mut gradients = Vec::new();
        for (index, layer) in network.layers.iter().enumerate().rev() {
            let inputs = if index == 0 { images } else { outputs[index - 1].view() };
            let mut gradient = vec![f32::NAN; layer.parameters()];
            layer.backward(&inputs, &delta, 1.0, &mut gradient).unwrap();
            gradients.insert(0, gradient);
            delta = layer.delta_before(&inputs, &delta);
        }
        gradients
    }

    #[test]
    fn gradients_are_the_slopes_of_the_loss() {
        let (images, labels) = images();
        let network = network(3);
        let gradients = gradients(&network, images.view(), &labels);
        for (index, gradient) in gradients.iter().enumerate() {
            let columns = WIDTHS[index + 1];
            for (at, &slope) in gradient.iter().enumerate() {
                let moved = |by: f32| {
                    let mut network = network.clone();
                    let layer = &mut network.layers[index];
                    match at.checked_sub(layer.weights.len()) {
                        None => layer.weights[[at / columns, at % columns]] += by,
                        Some(bias) => layer.bias[bias] += by,
                    }
                    loss(&network, &images, &labels)
                };
                let measured = (moved(5e-3) - moved(-5e-3)) / 1e-2;
                assert!(
                    (measured - slope).abs() < 2e-2,
                    "layer {index}, parameter {at}: {slope} computed, {measured} measured"
                );
            }
        }
    }

    #[test]
    fn gradients_of_shards_add_up_to_that_of_the_batch() {
        let (images, labels) = images();
        let network = network(3);
        let whole = gradients(&network, images.view(), &labels);
        // The last shard is empty, as it is when a batch has fewer rows than there are ranks.
        let shards: Vec<_> = [(0, 2), (2, 5), (5, 5)]
            .map(|(from, to)| {
                let rows = images.slice(ndarray::s![from..to, ..]);
                gradients(&network, rows, &labels[from..to])
            })
            .into();
        for (layer, gradient) in whole.iter().enumerate() {
            for (at, &value) in gradient.iter().enumerate() {
                let sum: f32 = shards.iter().map(|shard| shard[layer][at]).sum();
                assert!((sum - value).abs() < 1e-5, "{sum} instead of {value}");
            }
        }
    }

    #[test]
    fn an_undecided_network_loses_the_logarithm_of_the_classes() {
        let (loss, delta) = softmax_cross_entropy(&Array2::zeros((2, 10)), &[3, 4]);
        assert!((loss - 2.0 * 10f32.ln()).abs() < 1e-5);
        assert!((delta[[0, 3]] + 0.9).abs() < 1e-6 && (delta[[0, 0]] - 0.1).abs() < 1e-6);
    }

    #[test]
    fn huge_logits_do_not_overflow() {
        let logits = Array2::from_shape_vec((1, 2), vec![1e30, -1e30]).unwrap();
        let (loss, delta) = softmax_cross_entropy(&logits, &[0]);
        assert_eq!(loss, 0.0);
        assert!(delta.iter().all(|value| value.is_finite()));
    }

    #[test]
    fn momentum_adds_to_the_next_step() {
        let mut layer = Layer { weights: Array2::zeros((1, 2)), bias: Array1::zeros(2) };
        let mut momentum = Momentum::new(&layer, 0.5);
        momentum.step(&mut layer, &[1.0, 2.0, 3.0, 4.0], 1.0).unwrap();
        assert_eq!(layer.weights.as_slice().unwrap(), [-1.0, -2.0]);
        momentum.step(&mut layer, &[0.0; 4], 1.0).unwrap();
        assert_eq!(layer.weights.as_slice().unwrap(), [-1.5, -3.0]);
        assert_eq!(layer.bias.as_slice().unwrap(), [-4.5, -6.0]);
    }

    #[test]
    fn the_seed_decides_the_weights() {
        assert_eq!(network(1), network(1));
        assert_ne!(network(1), network(2));
    }

    #[test]
    fn accuracy_counts_the_right_rows() {
        let network =
            Network { layers: vec![Layer { weights: Array2::eye(3), bias: Array1::zeros(3) }] };
        assert_eq!(network.accuracy(Array2::eye(3).view(), &[0, 1, 2]), 1.0);
        assert_eq!(network.accuracy(Array2::eye(3).view(), &[0, 1, 0]), 2.0 / 3.0);
    }
}
