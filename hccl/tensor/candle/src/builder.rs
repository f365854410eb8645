//! The backends that give a model its parameters: one records their order, the other adds hooks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use candle_core::{DType, Device, Shape, Tensor, Var};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Init, VarMap};

use crate::error::{Error, to_candle};
use crate::lane::{PushGradient, SharedLane, lock};

/// The names of parameters, in the order in which a model requests them.
pub(crate) type Names = Arc<Mutex<Vec<String>>>;

/// A backend that makes the parameters that are not in the map, and records the order of all
/// parameters.
pub(crate) struct Recorder {
    pub(crate) map: VarMap,
    pub(crate) names: Names,
}

impl SimpleBackend for Recorder {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        init: Init,
        dtype: DType,
        device: &Device,
    ) -> candle_core::Result<Tensor> {
        let tensor = self.map.get(shape, name, init, dtype, device)?;
        let mut names = lock(&self.names);
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
        Ok(tensor)
    }

    fn get_unchecked(&self, name: &str, _: DType, _: &Device) -> candle_core::Result<Tensor> {
        without_shape(name)
    }

    fn contains_tensor(&self, name: &str) -> bool {
        lock(self.map.data()).contains_key(name)
    }
}

/// A backend whose parameters push their gradients in the backward pass of one step.
pub(crate) struct Hooks {
    pub(crate) vars: Arc<HashMap<String, (usize, Var)>>,
    /// The parameters with a hook. Each has one hook, however often the model requests it.
    pub(crate) hooked: Mutex<HashMap<String, Tensor>>,
    pub(crate) lane: SharedLane,
    pub(crate) number: u64,
}

impl SimpleBackend for Hooks {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        _: Init,
        dtype: DType,
        _: &Device,
    ) -> candle_core::Result<Tensor> {
        let unknown = || to_candle(Error::UnknownParameter { name: name.to_owned() });
        let (tensor, var) = self.vars.get(name).ok_or_else(unknown)?;
        if (&shape, dtype) != (var.shape(), var.dtype()) {
            let (is, has) = (var.shape(), var.dtype());
            candle_core::bail!(
                "parameter {name} is {is:?} of {has:?}, not {shape:?} of {dtype:?}: request the \
                 same shape and type in each step"
            )
        }
        let mut hooked = lock(&self.hooked);
        if let Some(tensor) = hooked.get(name) {
            return Ok(tensor.clone());
        }
        let (tensor, number, lane) = (*tensor, self.number, self.lane.clone());
        let parameter = var.apply_op1(PushGradient { tensor, number, lane })?;
        hooked.insert(name.to_owned(), parameter.clone());
        Ok(parameter)
    }

    fn get_unchecked(&self, name: &str, _: DType, _: &Device) -> candle_core::Result<Tensor> {
        without_shape(name)
    }

    fn contains_tensor(&self, name: &str) -> bool {
        self.vars.contains_key(name)
    }
}

fn without_shape(name: &str) -> candle_core::Result<Tensor> {
    candle_core::bail!("parameter {name} was requested without its shape: use `get`")
}
