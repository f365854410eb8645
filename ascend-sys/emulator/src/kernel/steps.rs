//! The effects of the steps of a core on its local memory, on global memory and on the flags.

use super::cast;
use super::client;
use super::core::{Core, Wait};
use super::global::RegionAddress;
use super::local::LocalMemory;
use super::matmul::{MatrixProduct, Sizes};
use super::order::Unit;
use super::prepare;
use super::vector;
use super::world::World;
use ascend_program::flow::{load, store};
use ascend_program::layout::Number;
use ascend_program::step::{
    Buffer, Hccl, Local, Multiply, Node, Pipe, Place, Read, Step, Sync, Vector,
};
use ascend_program::{Core as Kind, Matmul, Position, Program, QueueId, ValueId};
use ascend_sync::lock_std as lock;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// The largest number of reads of a core that are kept for a second check of the launch.
const MOST_READS: usize = 1 << 16;

impl Core {
    pub(super) fn step(
        &mut self,
        node: &'static Node,
        world: &mut World,
        budget: &mut i64,
    ) -> Result<(), String> {
        world.source = node.source;
        match &node.step {
            // The walk itself does these steps.
            Step::Comment(_) | Step::Name(_) | Step::Set(..) | Step::Loop { .. } => Ok(()),
            Step::If { .. } | Step::On(..) => Ok(()),
            Step::Read(variable, read) => {
                self.finish_writes(world)?;
                let bits = self.read(read, world)?;
                if let Some(reads) = self.reads.as_mut().filter(|reads| reads.len() < MOST_READS) {
                    reads.push(bits);
                }
                self.walk.set(*variable, Some(bits));
                Ok(())
            }
            Step::Buffer(buffer) => self.buffer(buffer, &world.program.clone()),
            Step::Copy(copy) => self.copy(copy, world, budget),
            Step::Vector(vector) => self.vector(vector, world, budget),
            Step::Sync(sync) => {
                if self.has_to_wait(*sync) {
                    self.postponed = Some(node);
                    return Ok(());
                }
                self.sync(*sync, world)
            }
            Step::Matmul(multiply) => self.multiply(multiply, world),
            Step::Hccl(call) => {
                self.finish_writes(world)?;
                self.call(call, world)
            }
        }
    }

    /// Makes a unit do an instruction: now, or later if a seed chooses the order.
    pub(super) fn done_by(
        &mut self,
        unit: Unit,
        world: &mut World,
        effect: impl FnOnce(&mut LocalMemory, &mut World) -> Result<(), String> + Send + 'static,
    ) -> Result<(), String> {
        let source = self.source();
        match &mut self.units {
            None => effect(&mut self.memory, world),
            Some(units) => {
                units.give(unit, source, Box::new(effect));
                Ok(())
            }
        }
    }

    /// Does the pending writes of the scalar unit, which must come before its next step.
    fn finish_writes(&mut self, world: &mut World) -> Result<(), String> {
        let Some(units) = &mut self.units else { return Ok(()) };
        while let Some((source, effect)) = units.next_write() {
            world.source = source;
            effect(&mut self.memory, world)?;
        }
        Ok(())
    }

    /// Returns whether the core must wait for its units before this step. If so, begins the wait.
    fn has_to_wait(&mut self, sync: Sync) -> bool {
        let Some(units) = &self.units else { return false };
        let counts = match sync {
            Sync::All { .. } | Sync::Pipe(Pipe::All) => units.all(),
            Sync::Units(first, Pipe::Scalar) => {
                Unit::of(first).map_or_else(|| units.all(), |unit| units.all_of(unit))
            }
            _ => return false,
        };
        if units.are_done(&counts) {
            return false;
        }
        self.wait = Some(Wait::Units(counts));
        true
    }

    fn read(&mut self, read: &Read, world: &mut World) -> Result<u64, String> {
        match read {
            Read::Global(place) => {
                let number = world.number_of(place.base);
                let (base, offset) = self.place(place, world)?;
                let mut bytes = [0; 8];
                let bytes = &mut bytes[..number.size() as usize];
                world.read(base, offset, bytes)?;
                Ok(load(number, bytes))
            }
            Read::Local(local) => {
                let program = world.program.clone();
                let range = self.local(local, &program, 1)?;
                Ok(load(LocalMemory::number(&program, local), self.memory.bytes(range)))
            }
            Read::Finished(task) => client::query(self, *task, world),
            Read::Queues(client) => client::queues(self, *client),
            Read::Slice(task, received) => client::slice(self, *task, *received, world),
        }
    }

    fn call(&mut self, call: &Hccl, world: &mut World) -> Result<(), String> {
        match call {
            Hccl::Init(id, offset) => client::init(self, *id, (*offset).into(), world),
            Hccl::Configure(id, offset, path) => {
                client::configure(self, *id, (*offset).into(), path, world)
            }
            Hccl::Prepare { task, operation, repeat, commit } => {
                prepare::prepare(self, *task, operation, *repeat, *commit, world)
            }
            Hccl::Commit(task) => client::commit(self, *task, world),
            Hccl::Wait(task) => {
                client::wait(self, *task, world);
                Ok(())
            }
            Hccl::After(id, task) => client::after(self, *id, *task, world),
            Hccl::Barrier(id, queue) => {
                let queue = self.count(*queue)?;
                client::barrier(self, *id, queue, world)
            }
            Hccl::Finalize(id, sync) => client::finalise(self, *id, *sync, world),
        }
    }

    /// Returns the region of a place, and the offset in bytes.
    pub(super) fn place(&self, place: &Place, world: &mut World) -> Result<(usize, u64), String> {
        let offset = self.count(place.offset)?;
        let size = u64::from(world.number_of(place.base).size());
        let base = world.base(place.base, |id| self.count(id))?;
        match offset.checked_mul(size) {
            Some(offset) => Ok((base, offset)),
            None => {
                Err(format!("the offset {offset} is beyond any memory; check how it is computed"))
            }
        }
    }

    pub(super) fn is_vector(&self) -> Result<(), String> {
        match self.kind() {
            Kind::Aiv => Ok(()),
            Kind::Aic => Err("a cube core has no unified buffer and no vector unit; do this on a \
                              vector core (AIV)"
                .into()),
        }
    }

    /// Returns the byte range of `count` elements of a local tensor.
    pub(super) fn local(
        &self,
        local: &Local,
        program: &Program,
        count: u64,
    ) -> Result<Range<usize>, String> {
        self.is_vector()?;
        let offset = local.offset.map_or(Ok(0), |offset| self.count(offset))?;
        self.memory.place(program, local, offset, count)
    }

    fn buffer(&mut self, buffer: &Buffer, program: &Program) -> Result<(), String> {
        self.is_vector()?;
        let bytes = |core: &Core, number: Number, length: ValueId| {
            let length = core.count(length)?;
            let bytes = length.checked_mul(number.size().into());
            bytes.ok_or_else(|| {
                format!(
                    "a buffer of {length} elements is larger than any memory; use a smaller one"
                )
            })
        };
        let ends = |queue: QueueId| match program.queues[queue.0 as usize].what.position {
            Position::VecIn => (Unit::In, Unit::Vector),
            Position::VecOut => (Unit::Vector, Unit::Out),
        };
        let source = self.source();
        match *buffer {
            Buffer::InitQueue(id) => {
                let queue = &program.queues[id.0 as usize].what;
                let length = bytes(self, queue.number, queue.length)?;
                self.memory.init_queue(program, id, length)?;
            }
            Buffer::InitScratch(id) => {
                let scratch = &program.scratches[id.0 as usize].what;
                let length = bytes(self, scratch.number, scratch.length)?;
                self.memory.init_scratch(program, id, length)?;
            }
            Buffer::Alloc(queue, local) => {
                self.memory.alloc(program, queue, local)?;
                if let Some(units) = &mut self.units
                    && let Some((buffer, range)) = self.memory.held(local)
                {
                    let decay = move |memory: &mut LocalMemory, _: &mut World| {
                        memory.decay(range);
                        Ok(())
                    };
                    let (queue, fills) = (queue.0 as usize, ends(queue).0);
                    units.allocated(queue, buffer, fills, source, Box::new(decay));
                }
            }
            Buffer::Enqueue(queue, local) => {
                self.memory.enqueue(program, queue, local)?;
                if let Some(units) = &mut self.units {
                    units.enqueued(queue.0 as usize, ends(queue).0);
                }
            }
            Buffer::Dequeue(queue, local) => {
                self.memory.dequeue(program, queue, local)?;
                if let Some(units) = &mut self.units {
                    units.dequeued(queue.0 as usize, ends(queue).1);
                }
            }
            Buffer::Free(queue, local) => {
                let held = self.memory.held(local);
                self.memory.free(program, queue, local)?;
                if let Some(units) = &mut self.units
                    && let Some((buffer, _)) = held
                {
                    units.freed(queue.0 as usize, buffer, ends(queue).1);
                }
            }
            Buffer::Get(scratch, local) => self.memory.get(program, scratch, local)?,
        }
        Ok(())
    }

    fn vector(
        &mut self,
        vector: &Vector,
        world: &mut World,
        budget: &mut i64,
    ) -> Result<(), String> {
        self.is_vector()?;
        let program = &*world.program.clone();
        match *vector {
            Vector::Fill { ref to, value, count } => {
                let bits = self.value(value)?;
                let number = LocalMemory::number(program, to);
                let range = self.local(to, program, self.count(count)?)?;
                *budget -= range.len() as i64;
                self.done_by(Unit::Vector, world, move |memory, _| {
                    let size = number.size() as usize;
                    let element = store(number, bits);
                    for to in memory.bytes_mut(range).chunks_exact_mut(size) {
                        to.copy_from_slice(&element[..size]);
                    }
                    Ok(())
                })
            }
            Vector::Binary { operator, ref to, ref a, ref b, count } => {
                let count = self.count(count)?;
                let number = LocalMemory::number(program, to);
                let (to, a, b) = (
                    self.local(to, program, count)?,
                    self.local(a, program, count)?,
                    self.local(b, program, count)?,
                );
                *budget -= 2 * to.len() as i64;
                self.done_by(Unit::Vector, world, move |memory, _| {
                    vector::binary(number, operator, memory.all(), to, a, b)
                })
            }
            Vector::Scalar { operator, ref to, ref a, scalar, count } => {
                let (count, bits) = (self.count(count)?, self.value(scalar)?);
                let number = LocalMemory::number(program, to);
                let (to, a) = (self.local(to, program, count)?, self.local(a, program, count)?);
                *budget -= 2 * to.len() as i64;
                self.done_by(Unit::Vector, world, move |memory, _| {
                    vector::scalar(number, operator, memory.all(), to, a, bits)
                })
            }
            Vector::Unary { operator, ref to, ref a, count } => {
                let count = self.count(count)?;
                let number = LocalMemory::number(program, to);
                let (to, a) = (self.local(to, program, count)?, self.local(a, program, count)?);
                *budget -= 4 * to.len() as i64;
                self.done_by(Unit::Vector, world, move |memory, _| {
                    vector::unary(number, operator, memory.all(), to, a)
                })
            }
            Vector::Cast { ref to, ref from, round, count } => {
                let count = self.count(count)?;
                let types = (LocalMemory::number(program, to), LocalMemory::number(program, from));
                let (to, from) =
                    (self.local(to, program, count)?, self.local(from, program, count)?);
                *budget -= 8 * to.len() as i64;
                self.done_by(Unit::Vector, world, move |memory, _| {
                    cast::cast(types, round, memory.all(), to, from)
                })
            }
            Vector::Reduce { operator, ref to, ref from, ref work, count } => {
                let count = self.count(count)?;
                let number = LocalMemory::number(program, to);
                self.local(work, program, 0)?;
                let (to, from) = (self.local(to, program, 1)?, self.local(from, program, count)?);
                *budget -= 2 * from.len() as i64;
                self.done_by(Unit::Vector, world, move |memory, _| {
                    vector::reduce(number, operator, memory.all(), to, from);
                    Ok(())
                })
            }
        }
    }

    fn sync(&mut self, sync: Sync, world: &mut World) -> Result<(), String> {
        // A core does all instructions in order, unless a seed chooses another order.
        match (sync, &mut self.units) {
            (Sync::Pipe(pipe), Some(units)) => {
                if let Some(unit) = Unit::of(pipe) {
                    let all = units.all_of(unit);
                    units.acquire(unit, &all);
                }
            }
            (Sync::Units(first, second), Some(units)) => {
                if let (Some(first), Some(second)) = (Unit::of(first), Unit::of(second)) {
                    let all = units.all_of(first);
                    units.acquire(second, &all);
                }
            }
            _ => {}
        }
        if matches!(sync, Sync::Pipe(_) | Sync::Units(..)) {
            return Ok(());
        }
        if !world.program.mix.synchronises() {
            return Err(format!(
                "cores of a kernel of type {} cannot synchronise with each other; use one of the MIX types",
                world.program.mix.ascend_c()
            ));
        }
        match sync {
            Sync::Raise { mode, pipe, flag } => {
                let (kind, index, source) = (self.kind(), self.index(), self.source());
                let raise = move |_: &mut LocalMemory, world: &mut World| {
                    world.flags.raise(kind, index, mode, flag)
                };
                match &mut self.units {
                    None => raise(&mut self.memory, world)?,
                    Some(units) => units.give_last(Unit::of(pipe), source, Box::new(raise)),
                }
            }
            Sync::Await { flag } => self.wait = Some(Wait::Flag(flag)),
            // A barrier of vector cores does not concern a cube core.
            Sync::All { vector: true } if self.kind() == Kind::Aic => {}
            Sync::All { vector } => {
                let number = world.flags.arrive(self.kind(), self.index(), vector);
                self.wait = Some(Wait::Barrier { vector, number });
            }
            Sync::Pipe(_) | Sync::Units(..) => {}
        }
        Ok(())
    }

    fn multiply(&mut self, multiply: &Multiply, world: &mut World) -> Result<(), String> {
        if self.kind() == Kind::Aiv {
            return Err("a vector core has no cube unit; multiply on a cube core (AIC)".into());
        }
        let sizes = Sizes {
            rows: self.count(multiply.rows)?,
            columns: self.count(multiply.columns)?,
            depth: self.count(multiply.depth)?,
            pitches: {
                let [a, b, c] = multiply.pitches;
                [self.count(a)?, self.count(b)?, self.count(c)?]
            },
        };
        if sizes.rows == 0 || sizes.columns == 0 {
            return Ok(());
        }
        let types = world.program.matmuls[multiply.matmul.0 as usize].what.clone();
        let spot = |core: &Core, world: &mut World, place: &Place| {
            let (base, offset) = core.place(place, world)?;
            world.spot(base, offset)
        };
        let a = spot(self, world, &multiply.a)?;
        let b = spot(self, world, &multiply.b)?;
        let c = spot(self, world, &multiply.c)?;
        let bias = multiply.bias.map(|bias| spot(self, world, &bias)).transpose()?;
        let spots = (a.clone(), b.clone(), c.clone());
        if self.units.is_some() {
            return self.multiply_some_time(types, sizes, spots, bias, world);
        }
        let product = MatrixProduct::new(types.clone(), sizes, spots, bias.clone())?;
        // The matrices were checked to lie within their memory, so the number of rows is limited.
        world.note_product(&types, &sizes, &a, &b, &c, bias.as_ref());
        if let Some(track) = &mut self.track {
            track.multiplies([sizes.rows, sizes.columns, sizes.depth]);
        }
        self.product = Some(Box::new(product));
        Ok(())
    }
}

impl Core {
    /// Does a product in an order that a seed chooses: one instruction reads the operands and
    /// computes, another one writes the result.
    fn multiply_some_time(
        &mut self,
        types: Matmul,
        sizes: Sizes,
        spots: (RegionAddress, RegionAddress, RegionAddress),
        bias: Option<RegionAddress>,
        world: &mut World,
    ) -> Result<(), String> {
        let result = Arc::new(Mutex::new(Vec::new()));
        let computed = Arc::clone(&result);
        let (a, b, c) = spots.clone();
        let mut written = c.clone();
        self.done_by(Unit::In, world, move |_, world| {
            let mut product = MatrixProduct::new(types.clone(), sizes, spots, bias.clone())?;
            world.note_product(&types, &sizes, &a, &b, &c, bias.as_ref());
            *lock(&computed) = product.rows()?;
            Ok(())
        })?;
        if let Some(units) = &mut self.units {
            let read = units.all_of(Unit::In);
            units.acquire(Unit::Fix, &read);
        }
        self.done_by(Unit::Fix, world, move |_, _| {
            let rows = std::mem::take(&mut *lock(&result));
            rows.into_iter().try_for_each(|(offset, bytes)| written.region.write(offset, &bytes))
        })
    }
}
