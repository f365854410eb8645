//! Elements of candle's tensors as slices of the host.

use candle_core::{CpuStorage, DType, Device, Layout, Shape, Storage, Tensor, Var, WithDType};
use hccl::prelude::*;

use crate::error::{Error, Result};

/// Calls `pass` with the elements of a tensor on the CPU, row by row. Copies the elements only if
/// they are stored in another order.
pub(crate) fn with_elements<T: WithDType, R>(
    what: impl Fn() -> String,
    tensor: &Tensor,
    pass: impl FnOnce(&[T]) -> R,
) -> Result<R> {
    let tensor = tensor.contiguous()?;
    let (storage, layout) = tensor.storage_and_layout();
    let Storage::Cpu(storage) = &*storage else {
        return Err(Error::NotOnCpu { what: what() });
    };
    Ok(pass(elements(storage, layout)?))
}

/// Returns the elements of a contiguous storage, or an error for any other storage.
pub(crate) fn elements<'a, T: WithDType>(
    storage: &'a CpuStorage,
    layout: &Layout,
) -> candle_core::Result<&'a [T]> {
    let all = T::cpu_storage_as_slice(storage)?;
    let of_layout = layout.contiguous_offsets().and_then(|(from, to)| all.get(from..to));
    of_layout.ok_or_else(|| {
        candle_core::Error::msg("the tensor is not stored row by row: make it contiguous")
    })
}

/// Makes a tensor of these elements on the CPU, and converts it to `dtype`.
pub(crate) fn tensor(elements: &[f32], shape: &Shape, dtype: DType) -> Result<Tensor> {
    Ok(Tensor::from_slice(elements, shape, &Device::Cpu)?.to_dtype(dtype)?)
}

/// Checks that gradients of this parameter can be summed.
pub(crate) fn check_parameter(name: &str, var: &Var) -> Result<()> {
    if !var.device().is_cpu() {
        return Err(Error::NotOnCpu { what: format!("parameter {name}") });
    }
    match var.dtype() {
        DType::F32 | DType::F16 | DType::BF16 => Ok(()),
        dtype => Err(Error::ParameterType { name: name.to_owned(), dtype }),
    }
}

/// Gives every rank the values that a variable has on rank 0. Types of 16 bits are sent as f32,
/// which can represent all their values. Blocks until all ranks have called this function.
pub(crate) fn broadcast(
    name: &str,
    var: &Var,
    comm: &mut Communicator,
    stream: &Stream,
) -> Result<()> {
    check_parameter(name, var)?;
    if var.elem_count() == 0 {
        return Ok(());
    }
    let own = var.to_dtype(DType::F32)?;
    let upload = |own: &[f32]| stream.device().upload(own, stream);
    let mut buffer = with_elements(|| name.to_owned(), &own, upload)??;
    drop(comm.broadcast(&mut buffer, 0, stream)?);
    let of_root: Vec<f32> = buffer.to_vec(stream).wait()?;
    Ok(var.set(&tensor(&of_root, var.shape(), var.dtype())?)?)
}

/// Evaluates an expression with the elements of a storage, which may have any type that ranks can
/// sum.
macro_rules! with_floats {
    ($storage:expr, $layout:expr, |$elements:ident| $computed:expr) => {
        with_floats!($storage, $layout, $elements, $computed, F32 f32, F64 f64, F16 f16, BF16 bf16)
    };
    ($storage:expr, $layout:expr, $elements:ident, $computed:expr, $($name:ident $float:ty),*) => {
        match candle_core::backend::BackendStorage::dtype($storage) {
            $(candle_core::DType::$name => {
                let $elements = $crate::host::elements::<$float>($storage, $layout)?;
                $computed
            })*
            dtype => Err(candle_core::Error::msg(format!(
                "ranks cannot sum {dtype:?}: use F32, F64, F16 or BF16"
            ))),
        }
    };
}
pub(crate) use with_floats;

/// Returns a copy of a contiguous storage, and its shape.
pub(crate) fn copy(
    storage: &CpuStorage,
    layout: &Layout,
) -> candle_core::Result<(CpuStorage, Shape)> {
    let copied = with_floats!(storage, layout, |elements| Ok(WithDType::to_cpu_storage(elements)));
    Ok((copied?, layout.shape().clone()))
}
