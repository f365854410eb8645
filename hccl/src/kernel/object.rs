//! Kernels that come from elsewhere than a recording of this process: saved ones, and compiled
//! ones.

use ascend_program::layout::Layout;
use ascend_program::{DecodeError, Program};

use super::launch::Loaded;
use super::recorded::Recorded;
use super::symbol::TilingArgument;
use crate::device::Device;
use crate::error::{Error, Result};

/// The name of loading in errors.
const LOAD: &str = "load";

impl<T: TilingArgument> Recorded<T> {
    /// Loads a kernel that was saved, as [`to_bytes`](Self::to_bytes) gives it, instead of this
    /// one: of an older build, or of another program. `self` says how it is launched. It must have
    /// the same arguments, groups and layout of the tiling struct; its steps may differ. Does not
    /// block.
    ///
    /// ```
    /// use hccl::kernel::*;
    /// use hccl::prelude::*;
    ///
    /// #[derive(Tiling)]
    /// #[repr(C)]
    /// struct Sizes { count: u64 }
    ///
    /// mod older {
    ///     use hccl::kernel::*;
    ///     #[derive(Tiling)]
    ///     #[repr(C)]
    ///     pub struct Sizes { pub count: u32, pub tiles: u32 }
    ///     #[kernel(mix = "aiv_only")]
    ///     pub fn first(k: Kernel<Sizes>, y: Output<u32>) {
    ///         y.set(0, k.tiling().count);
    ///     }
    /// }
    ///
    /// #[kernel(mix = "aiv_only")]
    /// fn first(k: Kernel<Sizes>, y: Output<u32>) {
    ///     y.set(0, k.tiling().count.cast());
    /// }
    ///
    /// # fn main() -> hccl::Result<()> {
    /// let device = Runtime::emulator(1)?.device(0)?;
    /// let saved = first::record()?.to_bytes();
    /// let _kernel = first::record()?.load_saved(&device, &saved)?;
    ///
    /// let old = older::first::record()?.to_bytes();
    /// let error = first::record()?.load_saved(&device, &old).unwrap_err();
    /// assert!(error.to_string().contains("was recorded with another tiling struct"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the bytes are no recorded kernel, or one with other arguments,
    /// groups or another layout of the tiling struct; and the errors of [`load`](Self::load).
    pub fn load_saved(&self, device: &Device, saved: &[u8]) -> Result<Loaded<T>> {
        let program = Program::from_bytes(saved).map_err(|error| {
            invalid(match error {
                DecodeError::NoProgram => format!(
                    "the bytes are no recorded kernel, and `{}` is to be loaded from them: a compiled one is loaded with `load_object`",
                    self.program().name
                ),
                other => other.to_string(),
            })
        })?;
        if let Some(problem) = differs(self.program(), &program) {
            return Err(invalid(problem));
        }
        Loaded::new(device, program.to_bytes(), program)
    }

    /// Loads the object file of the kernel for an NPU (`aclrtBinaryLoadFromData`,
    /// `aclrtBinaryGetFunction`), which `bisheng` made of [`ascend_c`](Self::ascend_c). `self` says
    /// how it is launched. Does not block.
    ///
    /// CANN does not support launching a fused kernel by hand, see [`launch`](super::launch); this
    /// is untried on hardware. The emulator takes recorded kernels only, also here.
    ///
    /// # Safety
    ///
    /// The object has a kernel of this name that takes these arguments, groups and tiling struct,
    /// and touches nothing but what it is given. A compiled kernel says nothing about itself, so
    /// none of that can be checked; compare [`LAYOUT_HASH`](super::Tiling::LAYOUT_HASH) where it is
    /// built.
    ///
    /// # Errors
    ///
    /// The error of CANN.
    pub unsafe fn load_object(&self, device: &Device, object: &[u8]) -> Result<Loaded<T>> {
        if Program::is_one(object) {
            return self.load_saved(device, object);
        }
        Loaded::new(device, object.to_vec(), self.program().clone())
    }
}

/// Returns why a kernel cannot be launched as another one, if so.
fn differs(wanted: &Program, found: &Program) -> Option<String> {
    let name = &wanted.name;
    if found.name != *name {
        return Some(format!("the saved kernel is `{}`, not `{name}`", found.name));
    }
    let arguments = |of: &Program| -> Vec<String> {
        let argument = |of: &ascend_program::Parameter| {
            let kind = if of.output { "output" } else { "input" };
            format!("{kind} {}", of.number)
        };
        of.parameters.iter().map(argument).collect()
    };
    let (mine, theirs) = (arguments(wanted), arguments(found));
    if mine != theirs {
        let list = |all: Vec<String>| if all.is_empty() { "none".into() } else { all.join(", ") };
        return Some(format!(
            "the saved kernel `{name}` has other arguments\n  saved: {}\n  here:  {}",
            list(theirs),
            list(mine)
        ));
    }
    if wanted.groups != found.groups {
        return Some(format!(
            "the saved kernel `{name}` takes part in {} groups, and here it is in {}",
            found.groups, wanted.groups
        ));
    }
    let hash = |of: &Program| of.tiling.as_ref().map(Layout::hash);
    if hash(wanted) != hash(found) {
        let tiling = |of: &Program| match &of.tiling {
            None => "no tiling struct".to_owned(),
            Some(of) => {
                format!("{}, {} bytes, layout hash {:#018x}", of.path(), of.size, of.hash())
            }
        };
        return Some(format!(
            "the saved kernel `{name}` was recorded with another tiling struct\n  saved: {}\n  here:  {}\n\
             Record it again, or use the struct that it was recorded with.",
            tiling(found),
            tiling(wanted)
        ));
    }
    None
}

fn invalid(problem: String) -> Error {
    Error::Invalid { operation: LOAD, problem: problem.into() }
}
