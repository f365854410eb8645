//! The arguments of a launch, and the argument lists that a program builds.

use super::code::{Code, KernelFunction};
use super::cpu_arguments::CpuBlock;
use crate::memory;
use crate::message::{Failure, fail};
use crate::slots::HandleKind;
use ascend_program::Program;
use ascend_sys::ACL_ERROR_RT_PARAM_INVALID;
use std::fmt::Display;
use std::sync::Arc;

/// The largest number of arguments of a kernel.
const MOST: usize = 128;

/// An argument of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum KernelArgument {
    /// A value; mostly an address.
    Word(u64),
    /// Bytes that are copied to the device with the launch. The flag tells whether there may be
    /// more bytes than belong to the argument.
    Bytes(Arc<[u8]>, bool),
}

impl KernelArgument {
    pub(super) fn word(&self, name: impl Display) -> Result<u64, String> {
        match self {
            KernelArgument::Word(word) => Ok(*word),
            KernelArgument::Bytes(..) => Err(format!(
                "the argument {name} is a placeholder, which only the tiling can be; pass its \
                 value of 8 bytes"
            )),
        }
    }
}

/// All arguments of a launch.
#[derive(Clone)]
pub(crate) enum Arguments {
    Given(Arc<[KernelArgument]>),
    /// Arguments in device memory, which are read when the kernel begins.
    InMemory {
        address: usize,
        bytes: usize,
    },
}

impl Arguments {
    /// Returns the address and the number of bytes of arguments that are read only when the kernel
    /// begins; otherwise a null pointer and 0.
    pub(super) fn lie_in(&self) -> (*const u8, usize) {
        match self {
            Arguments::Given(_) => (std::ptr::null(), 0),
            Arguments::InMemory { address, bytes } => match memory::resolve(*address, *bytes) {
                Ok(found) => (found.data.cast_const(), *bytes),
                // The memory was freed, so the kernel will fail.
                Err(_) => (std::ptr::null(), 0),
            },
        }
    }

    /// Returns the arguments. Arguments in device memory are read now, as words of 8 bytes. Bytes
    /// after the last whole word are ignored.
    pub(super) fn read(&self) -> Result<Arc<[KernelArgument]>, String> {
        match self {
            Arguments::Given(arguments) => Ok(Arc::clone(arguments)),
            Arguments::InMemory { address, bytes } => {
                let found = memory::resolve(*address, *bytes)?;
                let mut block = vec![0u8; *bytes];
                let store = ascend_reduce::Store::Plain;
                // SAFETY: the bytes lie in a live allocation, and `block` has as many.
                unsafe { ascend_reduce::copy::copy(block.as_mut_ptr(), found.data, *bytes, store) };
                Ok(words(&block).map(KernelArgument::Word).collect())
            }
        }
    }
}

/// Returns the whole words of a block of arguments.
fn words(block: &[u8]) -> impl Iterator<Item = u64> {
    block.chunks_exact(8).map(|chunk| {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        u64::from_ne_bytes(word)
    })
}

/// Returns the names of the arguments of a kernel, in their order: contexts, inputs and outputs,
/// workspace, tiling. Each is a pointer.
pub(crate) fn names(program: &Program) -> Vec<String> {
    let contexts = (0..program.groups).map(|group| format!("the context of group {group}"));
    let parameters = program.parameters.iter().map(|parameter| parameter.name.clone());
    contexts.chain(parameters).chain(["workspace".into(), "tiling".into()]).collect()
}

/// Returns the size in bytes of each argument. Returns an error for a function on the CPU, which
/// does not define its arguments.
pub(crate) fn sizes(function: &KernelFunction) -> Result<Vec<usize>, Failure> {
    match &function.code {
        Code::Program(recorded) => Ok(vec![8; names(&recorded.program).len()]),
        Code::Server | Code::Cpu(_) => fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "{} runs on the CPU: its arguments are not described; launch it with \
             aclrtLaunchKernelWithHostArgs",
            function.name
        ),
    }
}

/// The arguments of a kernel, by their kinds.
pub(super) struct Sorted<'a> {
    pub(super) contexts: &'a [KernelArgument],
    /// The inputs and outputs, then the workspace.
    pub(super) buffers: &'a [KernelArgument],
    /// For each buffer, the number of bytes that the kernel may touch. The caller may pass these
    /// numbers between the workspace and the tiling. If the list is empty, the kernel may touch
    /// everything up to the end of the allocation.
    pub(super) extents: &'a [KernelArgument],
    pub(super) tiling: &'a KernelArgument,
}

/// Divides the arguments by their kinds. Returns an error if their number is wrong.
pub(super) fn sort<'a>(
    program: &Program,
    given: &'a [KernelArgument],
) -> Result<Sorted<'a>, String> {
    right_count(program, given.len())?;
    let (contexts, rest) = given.split_at(program.groups as usize);
    let (buffers, rest) = rest.split_at(program.parameters.len() + 1);
    let (tiling, extents) =
        rest.split_last().ok_or("the tiling is missing; pass it as the last argument")?;
    Ok(Sorted { contexts, buffers, extents, tiling })
}

fn right_count(program: &Program, count: usize) -> Result<(), String> {
    let names = names(program);
    let buffers = program.parameters.len() + 1;
    if count == names.len() || count == names.len() + buffers {
        return Ok(());
    }
    let (name, all) = (&program.name, names.join(", "));
    Err(format!(
        "the number of arguments is {count}, but {name} has {}; pass these in this order: {all}",
        names.len()
    ))
}

/// Checks that the number of arguments fits a recorded kernel. Accepts any number for other code.
pub(crate) fn check_count(code: &Code, count: usize) -> Result<(), Failure> {
    let Code::Program(recorded) = code else { return Ok(()) };
    let refused = |text| Failure::new(ACL_ERROR_RT_PARAM_INVALID, text);
    right_count(&recorded.program, count).map_err(refused)
}

/// An argument list that a program builds (`aclrtKernelArgsInit`).
pub(crate) struct ArgumentList {
    pub(crate) function: u64,
    items: Vec<ListItem>,
    finished: bool,
}

enum ListItem {
    Value(Vec<u8>),
    /// A placeholder. It has a buffer once the program has requested its address; the address never
    /// changes.
    Place(Option<Box<[u8]>>),
}

impl ArgumentList {
    pub(crate) fn new(function: u64) -> ArgumentList {
        ArgumentList { function, items: Vec::new(), finished: false }
    }

    fn push(&mut self, item: ListItem) -> Result<u64, Failure> {
        if self.finished {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "the list is finalised; append all arguments before aclrtKernelArgsFinalize"
            );
        }
        if self.items.len() == MOST {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "a kernel has at most {MOST} arguments; pass further values in the tiling or in \
                 a buffer"
            );
        }
        self.items.push(item);
        Ok(HandleKind::ArgumentItem.bits() | self.items.len() as u64)
    }

    pub(crate) fn append(&mut self, value: &[u8]) -> Result<u64, Failure> {
        self.push(ListItem::Value(value.to_vec()))
    }

    pub(crate) fn append_place(&mut self) -> Result<u64, Failure> {
        self.push(ListItem::Place(None))
    }

    fn item(&mut self, handle: u64) -> Result<&mut ListItem, Failure> {
        let index = (handle & !(0xff << 56)).wrapping_sub(1);
        let count = self.items.len();
        match usize::try_from(index).ok().and_then(|index| self.items.get_mut(index)) {
            Some(item) if HandleKind::ArgumentItem.is_kind_of(handle) => Ok(item),
            _ => fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "{handle:#x} is not the handle of an argument of this list, which has {count}; \
                 pass a handle that an append call returned for this list"
            ),
        }
    }

    /// Returns the address of the buffer of a placeholder, which has `bytes` bytes.
    pub(crate) fn buffer(&mut self, handle: u64, bytes: usize) -> Result<*mut u8, Failure> {
        match self.item(handle)? {
            ListItem::Value(_) => {
                fail!(
                    ACL_ERROR_RT_PARAM_INVALID,
                    "this argument is a value, not a placeholder; change it with \
                     aclrtKernelArgsParaUpdate"
                )
            }
            ListItem::Place(Some(buffer)) if buffer.len() == bytes => Ok(buffer.as_mut_ptr()),
            ListItem::Place(Some(buffer)) => fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "the size of the placeholder is {} already, not {bytes}; pass the same size in \
                 each call",
                buffer.len()
            ),
            ListItem::Place(place) => {
                Ok(place.insert(vec![0; bytes].into_boxed_slice()).as_mut_ptr())
            }
        }
    }

    pub(crate) fn update(&mut self, handle: u64, value: &[u8]) -> Result<(), Failure> {
        let item = self.item(handle)?;
        match item {
            ListItem::Value(old) if old.len() == value.len() => {
                old.copy_from_slice(value);
                self.finished = false;
                Ok(())
            }
            ListItem::Value(old) => fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "the size of the argument is {}, not {}; update it with a value of the same size",
                old.len(),
                value.len()
            ),
            ListItem::Place(_) => {
                fail!(
                    ACL_ERROR_RT_PARAM_INVALID,
                    "this argument is a placeholder, not a value; write to its buffer \
                     (aclrtKernelArgsGetPlaceHolderBuffer)"
                )
            }
        }
    }

    pub(crate) fn finalise(&mut self, code: &Code) -> Result<(), Failure> {
        check_count(code, self.items.len())?;
        for (index, item) in self.items.iter().enumerate() {
            match item {
                ListItem::Value(value) if value.len() != 8 && !matches!(code, Code::Cpu(_)) => {
                    return fail!(
                        ACL_ERROR_RT_PARAM_INVALID,
                        "the size of argument {index} is {}, but every argument is a pointer of \
                         8 bytes; append a pointer",
                        value.len()
                    );
                }
                ListItem::Place(None) => {
                    return fail!(
                        ACL_ERROR_RT_PARAM_INVALID,
                        "argument {index} is a placeholder without a buffer; request the buffer \
                         first (aclrtKernelArgsGetPlaceHolderBuffer)"
                    );
                }
                _ => {}
            }
        }
        self.finished = true;
        Ok(())
    }

    fn is_finalised(&self) -> Result<(), Failure> {
        if self.finished {
            return Ok(());
        }
        fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "the list is not finalised; call aclrtKernelArgsFinalize after the last change"
        )
    }

    /// Makes the argument block for the launch of a CPU kernel. It has all arguments, each at a
    /// multiple of 8 bytes, followed by the buffers of the placeholders. The argument of a
    /// placeholder is the address of its buffer.
    pub(crate) fn block(&self) -> Result<CpuBlock, Failure> {
        self.is_finalised()?;
        let mut block = CpuBlock::default();
        let mut behind = Vec::new();
        for item in &self.items {
            match item {
                ListItem::Value(value) => _ = block.push(value),
                ListItem::Place(bytes) => {
                    behind.push((block.push(&[0; 8]), bytes.as_deref().unwrap_or_default()));
                }
            }
        }
        behind.into_iter().for_each(|(place, bytes)| block.push_behind(place, bytes));
        block.checked()
    }

    /// Returns the arguments of a launch. They are a copy, so the list may change afterwards.
    pub(crate) fn arguments(&self) -> Result<Arguments, Failure> {
        self.is_finalised()?;
        let argument = |item: &ListItem| match item {
            ListItem::Value(value) => KernelArgument::Word(words(value).next().unwrap_or_default()),
            ListItem::Place(bytes) => {
                KernelArgument::Bytes(bytes.as_deref().unwrap_or_default().into(), false)
            }
        };
        Ok(Arguments::Given(self.items.iter().map(argument).collect()))
    }
}

/// Makes the arguments from a block of the host. Each placeholder gives two offsets in the block:
/// that of an address, and that of the data to which the address points.
pub(crate) fn of_block(block: &[u8], places: &[(u32, u32)]) -> Result<Arguments, Failure> {
    let first = places.iter().map(|(_, data)| *data as usize).min().unwrap_or(block.len());
    for (address, data) in places {
        if *data as usize >= block.len()
            || !address.is_multiple_of(8)
            || *address as usize + 8 > first
        {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "a placeholder at byte {address} for the data at byte {data}, of {} bytes of \
                 arguments; put the address at a multiple of 8 before all data, and the data \
                 within the arguments",
                block.len()
            );
        }
    }
    let mut arguments: Vec<KernelArgument> =
        words(&block[..first.min(block.len())]).map(KernelArgument::Word).collect();
    for (address, data) in places {
        let end = places.iter().map(|(_, other)| *other).filter(|other| other > data).min();
        let end = end.map_or(block.len(), |end| end as usize);
        let bytes = block[*data as usize..end].into();
        arguments[*address as usize / 8] = KernelArgument::Bytes(bytes, true);
    }
    Ok(Arguments::Given(arguments.into()))
}
