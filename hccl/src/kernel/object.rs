//! Loading of kernels that this process has not recorded: saved kernels and compiled kernels.

use ascend_program::layout::Layout;
use ascend_program::{DecodeError, Program};

use super::launch::Loaded;
use super::recorded::Recorded;
use super::symbol::TilingArgument;
use crate::device::Device;
use crate::error::counted::counted;
use crate::error::{Error, Result};

/// The name of the load operation in errors.
const LOAD: &str = "load";

impl<T: TilingArgument> Recorded<T> {
    /// Loads a saved kernel instead of this one. `saved` has the bytes that
    /// [`to_bytes`](Self::to_bytes) returned, for example in an older build or in another program.
    /// `self` defines how the kernel is launched: the saved kernel must have the same name,
    /// arguments, groups and layout of the tiling struct. Its steps may differ. Does not block.
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
    /// [`Error::Invalid`] if the bytes are not a recorded kernel, or if its name, arguments, groups
    /// or layout of the tiling struct differ from those of `self`. Also the errors of
    /// [`load`](Self::load).
    pub fn load_saved(&self, device: &Device, saved: &[u8]) -> Result<Loaded<T>> {
        let program = Program::from_bytes(saved).map_err(|error| {
            invalid(match error {
                DecodeError::NoProgram => format!(
                    "the bytes are not a recorded kernel, so `{}` cannot be loaded from them: load a compiled kernel with `load_object`",
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
    /// `aclrtBinaryGetFunction`). The compiler `bisheng` makes it from the source that
    /// [`ascend_c`](Self::ascend_c) returns. `self` defines how the kernel is launched. Does not
    /// block.
    ///
    /// CANN does not support launching a fused kernel by hand (see [`launch`](super::launch)), and
    /// this method is untested on hardware. The emulator loads only recorded kernels: if `object`
    /// is one, this method does the same as [`load_saved`](Self::load_saved).
    ///
    /// # Safety
    ///
    /// The object must contain a kernel with the name, arguments, groups and tiling struct of
    /// `self`. The kernel must access only the memory of its arguments. A compiled kernel does not
    /// describe itself, so this method cannot check these conditions. Compare
    /// [`LAYOUT_HASH`](super::Tiling::LAYOUT_HASH) when the kernel is built.
    ///
    /// # Errors
    ///
    /// The error of CANN, or of [`load_saved`](Self::load_saved) for a recorded kernel.
    pub unsafe fn load_object(&self, device: &Device, object: &[u8]) -> Result<Loaded<T>> {
        if Program::is_one(object) {
            return self.load_saved(device, object);
        }
        Loaded::new(device, object.to_vec(), self.program().clone())
    }
}

/// Returns the reason why the kernel `found` cannot be launched in place of `wanted`, or `None` if
/// it can.
fn differs(wanted: &Program, found: &Program) -> Option<String> {
    let name = &wanted.name;
    if found.name != *name {
        return Some(format!(
            "the saved kernel is `{}`, not `{name}`: pass the bytes of a kernel of this name",
            found.name
        ));
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
            "the saved kernel `{name}` has other arguments\n  saved: {}\n  here:  {}\nRecord it again, or declare the arguments that it was recorded with.",
            list(theirs),
            list(mine)
        ));
    }
    if wanted.groups != found.groups {
        return Some(format!(
            "the saved kernel `{name}` takes part in {}, but here it takes part in {}: record it \
             again",
            counted(found.groups as usize, "group"),
            wanted.groups
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
