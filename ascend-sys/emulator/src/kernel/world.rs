//! The state that the cores of one launch share: the program, global memory, flags, and the areas
//! of its contexts.

use super::area::Area;
use super::context::{self, RankWindow};
use super::flags::Flags;
use super::global::{Region, RegionAddress};
use super::matmul::Sizes;
use super::ranges::Ranges;
use crate::check;
use crate::profile::Product;
use crate::stream::Stream;
use crate::task::Touch;
use ascend_program::layout::Number;
use ascend_program::step::{Base, Source};
use ascend_program::{Core, Matmul, Program, ValueId};
use ascend_reduce::{DataType, ReduceOp, Store, reduce_chunk};
use std::sync::Arc;

/// The state that the cores of one launch share. See the [module](self).
pub(super) struct World {
    pub(super) program: Arc<Program>,
    pub(super) product: Product,
    pub(super) flags: Flags,
    /// The parameters, then the workspace, then windows in the order of their first use. An invalid
    /// argument causes an error only if it is used.
    regions: Vec<Result<Region, String>>,
    /// For each region, whether it lies in a window. In checked mode, this includes the regions of
    /// arguments.
    is_window: Vec<bool>,
    /// For each window in `regions`, in order: the group, the rank, and whether it is the window
    /// for output.
    windows: Vec<(usize, usize, bool)>,
    /// The communicators, by group.
    pub(super) groups: Vec<Result<KernelComm, String>>,
    /// For each region, the reads and writes outside of windows, in checked mode.
    touched: Option<Vec<(Ranges, Ranges)>>,
    stream: &'static Stream,
    /// The call that launched the kernel, in checked mode.
    issued: Option<String>,
    /// The step that is touching memory.
    pub(super) source: Source,
    /// Whether a core has queried the progress of the server.
    pub(super) asked: bool,
}

/// A communicator in which the kernel takes part.
pub(super) struct KernelComm {
    pub(super) area: Arc<Area>,
    /// The generation of this kernel's conversation.
    pub(super) generation: u64,
    /// The core that writes the messages.
    pub(super) writer: Option<(Core, u32)>,
    /// Whether a client of the group was initialised.
    pub(super) used: bool,
    /// Whether the client was finalised without a wait for the end of the conversation. The
    /// conversation must end before the next kernel.
    pub(super) leaving: bool,
}

impl World {
    pub(super) fn new(
        program: Arc<Program>,
        product: Product,
        flags: Flags,
        regions: Vec<Result<Region, String>>,
        groups: Vec<Result<KernelComm, String>>,
        (stream, issued): (&'static Stream, Option<String>),
    ) -> World {
        let touched =
            issued.is_some().then(|| regions.iter().map(|_| Default::default()).collect());
        let watched = |region: &Result<Region, String>| {
            let region = region.as_ref().ok()?;
            Some(check::engine(region.device()?)?.is_window(region.extent().0))
        };
        let is_window = regions.iter().map(|region| watched(region).unwrap_or(false)).collect();
        let windows = Vec::new();
        World {
            program,
            product,
            flags,
            regions,
            is_window,
            windows,
            groups,
            touched,
            stream,
            issued,
            source: Source::default(),
            asked: false,
        }
    }

    /// Returns the element type of a base: that of an argument, or bytes.
    pub(super) fn number_of(&self, base: Base) -> Number {
        match base {
            Base::Parameter(at) => self.program.parameters[at as usize].number,
            Base::Workspace | Base::WindowIn(..) | Base::WindowOut(..) => Number::U8,
        }
    }

    /// Returns the index of the region of a base. The first use of a window adds its region.
    pub(super) fn base(
        &mut self,
        base: Base,
        count: impl Fn(ValueId) -> Result<u64, String>,
    ) -> Result<usize, String> {
        let parameters = self.program.parameters.len();
        let (client, rank, output) = match base {
            Base::Parameter(at) => return Ok(at as usize),
            Base::Workspace => return Ok(parameters),
            Base::WindowIn(client, rank) => (client, rank, false),
            Base::WindowOut(client, rank) => (client, rank, true),
        };
        if self.product == Product::Ascend950 {
            return Err(
                "Ascend 950 has no windows that a kernel can use; use AlltoAllvWrite".into()
            );
        }
        let group = self.program.clients[client.0 as usize].what.group as usize;
        let rank = usize::try_from(count(rank)?).unwrap_or(usize::MAX);
        let wanted = (group, rank, output);
        if let Some(at) = self.windows.iter().position(|window| *window == wanted) {
            return Ok(parameters + 1 + at);
        }
        let area = Arc::clone(&self.group(group)?.area);
        let name = format!("the {} window of rank {rank}", if output { "output" } else { "input" });
        let region = match context::window(&area, rank, output) {
            Some(RankWindow::Own { start, device, .. }) => Region::new(&name, start as u64, device),
            Some(RankWindow::Abroad(window)) => Ok(Region::abroad(&name, window)),
            None => {
                return Err(format!(
                    "rank {rank} of \"{}\" has no window, because it has ended the communicator; let it keep its communicator until all kernels that use its windows are over",
                    area.group
                ));
            }
        };
        self.regions.push(region);
        self.windows.push(wanted);
        self.is_window.push(true);
        Ok(self.regions.len() - 1)
    }

    pub(super) fn group(&mut self, group: usize) -> Result<&mut KernelComm, String> {
        match self.groups.get_mut(group) {
            Some(Ok(group)) => Ok(group),
            Some(Err(text)) => Err(text.clone()),
            None => Err(format!(
                "there is no context for group {group}; pass one (HcclAllocComResourceByTiling)"
            )),
        }
    }

    pub(super) fn client_name(&self, client: usize) -> String {
        self.program.clients[client].name.clone()
    }

    /// Returns the group of a client.
    pub(super) fn group_of(&mut self, client: usize) -> Result<&mut KernelComm, String> {
        let group = self.program.clients[client].what.group as usize;
        self.group(group)
    }

    fn region(&mut self, base: usize) -> Result<&mut Region, String> {
        match &mut self.regions[base] {
            Ok(region) => Ok(region),
            Err(text) => Err(text.clone()),
        }
    }

    /// Returns an address in a region, for a later access.
    pub(super) fn spot(&mut self, base: usize, offset: u64) -> Result<RegionAddress, String> {
        Ok(RegionAddress { region: self.region(base)?.clone(), offset })
    }

    fn note(&mut self, base: usize, offset: u64, bytes: u64, write: bool) {
        if self.is_window[base] {
            return self.note_window(base, offset, bytes, write);
        }
        if let Some(touched) = &mut self.touched {
            let (reads, writes) = &mut touched[base];
            if write { writes.add(offset, bytes) } else { reads.add(offset, bytes) }
        }
    }

    /// Reports an access to a window to checked mode at once, because all ranks may access the
    /// window.
    fn note_window(&self, base: usize, offset: u64, bytes: u64, write: bool) {
        let Ok(region) = &self.regions[base] else { return };
        // Checked mode does not track memory of other processes.
        let Some(device) = region.device() else { return };
        if !write && self.issued.is_none() {
            return;
        }
        let touches = || {
            let at = region.extent().0 + offset as usize;
            vec![if write { Touch::write } else { Touch::read }(at, bytes as usize)]
        };
        check::window_touched(self.stream, device, touches, || {
            let (name, line) = (&self.program.name, self.program.line(self.source));
            (format!("kernel {name}, {line}"), self.issued.clone().unwrap_or_default())
        });
    }

    pub(super) fn read(&mut self, base: usize, offset: u64, to: &mut [u8]) -> Result<(), String> {
        self.region(base)?.read(offset, to)?;
        self.note(base, offset, to.len() as u64, false);
        Ok(())
    }

    pub(super) fn write(&mut self, base: usize, offset: u64, from: &[u8]) -> Result<(), String> {
        self.region(base)?.write(offset, from)?;
        self.note(base, offset, from.len() as u64, true);
        Ok(())
    }

    /// Checks that copies can add numbers of this type to memory.
    pub(super) fn may_add(&self, number: Number) -> Result<(), String> {
        match data_type(number) {
            Some(_) => Ok(()),
            None => Err(format!(
                "a copy cannot add numbers of type {}; use i8, i16, i32, f16, bf16 or f32",
                number
            )),
        }
    }

    /// Adds the elements of `from` to those in memory.
    pub(super) fn add(
        &mut self,
        base: usize,
        offset: u64,
        from: &[u8],
        number: Number,
    ) -> Result<(), String> {
        self.may_add(number)?;
        let to = self.region(base)?.at(offset, from.len() as u64)?;
        let count = from.len() / number.size() as usize;
        let dtype = data_type(number).unwrap_or(DataType::Fp32);
        let inputs = [to.cast_const(), from.as_ptr()];
        // SAFETY: `to` lies in a live allocation and has as many bytes as `from`. The output is the
        // first input.
        unsafe { reduce_chunk(dtype, ReduceOp::Sum, &inputs, &[to], count, Store::Plain) };
        self.note(base, offset, from.len() as u64, false);
        self.note(base, offset, from.len() as u64, true);
        Ok(())
    }

    /// Notes the accesses of a product of matrices.
    pub(super) fn note_product(
        &mut self,
        types: &Matmul,
        sizes: &Sizes,
        a: &RegionAddress,
        b: &RegionAddress,
        c: &RegionAddress,
        bias: Option<&RegionAddress>,
    ) {
        if !check::is_on() {
            return;
        }
        let Sizes { rows, columns, depth, pitches } = *sizes;
        let shape = |transposed: bool, x: u64, y: u64| if transposed { (y, x) } else { (x, y) };
        let (a_shape, b_shape) =
            (shape(types.transposed_a, rows, depth), shape(types.transposed_b, depth, columns));
        let all = [
            (a, types.a, a_shape, pitches[0], false),
            (b, types.b, b_shape, pitches[1], false),
            (c, types.c, (rows, columns), pitches[2], true),
        ];
        let bias =
            bias.zip(types.bias).map(|(bias, number)| (bias, number, (1, columns), 0, false));
        for (spot, number, (lines, length), pitch, write) in bias.into_iter().chain(all) {
            let size = u64::from(number.size());
            let base = self.regions.iter().position(|region| {
                region.as_ref().is_ok_and(|region| region.extent() == spot.region.extent())
            });
            for line in 0..lines {
                let at =
                    spot.offset.saturating_add(line.saturating_mul(pitch).saturating_mul(size));
                if let Some(base) = base {
                    self.note(base, at, length.saturating_mul(size), write);
                }
            }
        }
    }

    /// Returns all noted accesses outside of windows.
    pub(super) fn touches(&mut self) -> Vec<Touch> {
        let Some(touched) = self.touched.take() else { return Vec::new() };
        let mut touches = Vec::new();
        for ((reads, writes), region) in touched.into_iter().zip(&self.regions) {
            let Ok(region) = region else { continue };
            let (start, _) = region.extent();
            let at = |range: std::ops::Range<u64>| {
                (start + range.start as usize, (range.end - range.start) as usize)
            };
            touches.extend(reads.all().map(at).map(|(at, bytes)| Touch::read(at, bytes)));
            touches.extend(writes.all().map(at).map(|(at, bytes)| Touch::write(at, bytes)));
        }
        touches
    }
}

/// Returns the data type for numbers that copies can add; `None` for other types.
fn data_type(number: Number) -> Option<DataType> {
    match number {
        Number::I8 => Some(DataType::Int8),
        Number::I16 => Some(DataType::Int16),
        Number::I32 => Some(DataType::Int32),
        Number::F16 => Some(DataType::Fp16),
        Number::Bf16 => Some(DataType::Bfp16),
        Number::F32 => Some(DataType::Fp32),
        _ => None,
    }
}
