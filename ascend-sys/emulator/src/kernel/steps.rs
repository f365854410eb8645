//! What the steps of a core do: to its memory, to global memory, to the flags.

use super::cast;
use super::client;
use super::core::{Core, PIECE, Wait};
use super::local::{ALIGNMENT, LocalMemory};
use super::matmul::{MatrixProduct, Sizes};
use super::prepare;
use super::vector;
use super::world::World;
use ascend_program::flow::{load, store};
use ascend_program::layout::Number;
use ascend_program::step::{
    Buffer, Copy, Hccl, Local, Multiply, Pieces, Place, Read, Step, Sync, Vector,
};
use ascend_program::{Core as Kind, Program, ValueId};
use std::ops::Range;

impl Core {
    pub(super) fn step(
        &mut self,
        step: &Step,
        world: &mut World,
        budget: &mut i64,
    ) -> Result<(), String> {
        match step {
            // A walk does these itself.
            Step::Comment(_) | Step::Name(_) | Step::Set(..) | Step::Loop { .. } => Ok(()),
            Step::If { .. } | Step::On(..) => Ok(()),
            Step::Read(variable, read) => {
                let bits = self.read(read, world)?;
                self.walk.set(*variable, Some(bits));
                Ok(())
            }
            Step::Buffer(buffer) => self.buffer(buffer, &world.program.clone()),
            Step::Copy(copy) => self.copy(copy, world, budget),
            Step::Vector(vector) => self.vector(vector, &world.program.clone(), budget),
            Step::Sync(sync) => self.sync(*sync, world),
            Step::Matmul(multiply) => self.multiply(multiply, world),
            Step::Hccl(call) => self.call(call, world),
        }
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

    /// The region of a place, and the offset in bytes.
    pub(super) fn place(&self, place: &Place, world: &mut World) -> Result<(usize, u64), String> {
        let offset = self.count(place.offset)?;
        let size = u64::from(world.number_of(place.base).size());
        let base = world.base(place.base, |id| self.count(id))?;
        match offset.checked_mul(size) {
            Some(offset) => Ok((base, offset)),
            None => Err(format!("the offset {offset} is beyond any memory")),
        }
    }

    fn is_vector(&self) -> Result<(), String> {
        match self.kind() {
            Kind::Aiv => Ok(()),
            Kind::Aic => Err("a cube core has no unified buffer and no vector unit".into()),
        }
    }

    /// `count` elements of a local tensor.
    fn local(&self, local: &Local, program: &Program, count: u64) -> Result<Range<usize>, String> {
        self.is_vector()?;
        let offset = local.offset.map_or(Ok(0), |offset| self.count(offset))?;
        self.memory.place(program, local, offset, count)
    }

    fn buffer(&mut self, buffer: &Buffer, program: &Program) -> Result<(), String> {
        self.is_vector()?;
        let bytes = |core: &Core, number: Number, length: ValueId| {
            let length = core.count(length)?;
            let bytes = length.checked_mul(number.size().into());
            bytes.ok_or_else(|| format!("a buffer of {length} elements"))
        };
        match *buffer {
            Buffer::InitQueue(id) => {
                let queue = &program.queues[id.0 as usize].what;
                let length = bytes(self, queue.number, queue.length)?;
                self.memory.init_queue(program, id, length)
            }
            Buffer::InitScratch(id) => {
                let scratch = &program.scratches[id.0 as usize].what;
                let length = bytes(self, scratch.number, scratch.length)?;
                self.memory.init_scratch(program, id, length)
            }
            Buffer::Alloc(queue, local) => self.memory.alloc(program, queue, local),
            Buffer::Enqueue(queue, local) => self.memory.enqueue(program, queue, local),
            Buffer::Dequeue(queue, local) => self.memory.dequeue(program, queue, local),
            Buffer::Free(queue, local) => self.memory.free(program, queue, local),
            Buffer::Get(scratch, local) => self.memory.get(program, scratch, local),
        }
    }

    fn copy(&mut self, copy: &Copy, world: &mut World, budget: &mut i64) -> Result<(), String> {
        let program = world.program.clone();
        match copy {
            Copy::In { to, from, pieces } => {
                self.pieces(to, from, pieces, world, budget, |core, world, at, local| {
                    world.read(at.0, at.1, core.memory.bytes_mut(local))
                })
            }
            Copy::Out { to, from, pieces, add } => {
                let number = LocalMemory::number(&program, from);
                if *add {
                    world.may_add(number)?;
                }
                self.pieces(from, to, pieces, world, budget, |core, world, at, local| {
                    let bytes = core.memory.bytes(local);
                    if *add {
                        world.add(at.0, at.1, bytes, number)
                    } else {
                        world.write(at.0, at.1, bytes)
                    }
                })
            }
            Copy::Set { to, value } => {
                let number = world.number_of(to.base);
                let bits = self.value(*value)?;
                let (base, offset) = self.place(to, world)?;
                world.write(base, offset, &store(number, bits)[..number.size() as usize])
            }
            Copy::SetLocal { to, value } => {
                let number = LocalMemory::number(&program, to);
                let bits = self.value(*value)?;
                let range = self.local(to, &program, 1)?;
                let bytes = &store(number, bits)[..number.size() as usize];
                self.memory.bytes_mut(range).copy_from_slice(bytes);
                Ok(())
            }
            // There is no cache to clean: scalar accesses go to memory.
            Copy::Clean(place) => self.place(place, world).map(drop),
        }
    }

    /// Moves the pieces of a copy, one after the other.
    fn pieces(
        &mut self,
        local: &Local,
        global: &Place,
        pieces: &Pieces,
        world: &mut World,
        budget: &mut i64,
        mut one: impl FnMut(&mut Core, &mut World, (usize, u64), Range<usize>) -> Result<(), String>,
    ) -> Result<(), String> {
        self.is_vector()?;
        let program = world.program.clone();
        let number = LocalMemory::number(&program, local);
        let size = u64::from(number.size());
        let length = self.count(pieces.length)?;
        let count = pieces.count.map_or(Ok(1), |count| self.count(count))?;
        let gap = pieces.gap.map_or(Ok(0), |gap| self.count(gap))?;
        if count > 4095 {
            return Err(format!("a copy of {count} pieces; 4095 is the most"));
        }
        if length == 0 || count == 0 {
            return Ok(());
        }
        let (base, mut at) = self.place(global, world)?;
        let offset = local.offset.map_or(Ok(0), |offset| self.count(offset))?;
        let bytes = length.checked_mul(size).ok_or("a copy of more bytes than there are")?;
        let skip = gap.saturating_mul(size).saturating_add(bytes);
        // Each piece begins at a multiple of 32 bytes. One that is longer than memory is refused below, wherever the next would be.
        let pitch = bytes.checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX) / size;
        for piece in 0..count {
            let place = offset.saturating_add(piece.saturating_mul(pitch));
            let range = self.memory.place(&program, local, place, length)?;
            one(self, world, (base, at), range)?;
            at = at.saturating_add(skip);
        }
        *budget -= (bytes * count).min(PIECE as u64) as i64;
        Ok(())
    }

    fn vector(
        &mut self,
        vector: &Vector,
        program: &Program,
        budget: &mut i64,
    ) -> Result<(), String> {
        self.is_vector()?;
        match *vector {
            Vector::Fill { ref to, value, count } => {
                let bits = self.value(value)?;
                let number = LocalMemory::number(program, to);
                let range = self.local(to, program, self.count(count)?)?;
                *budget -= range.len() as i64;
                let size = number.size() as usize;
                let element = store(number, bits);
                for to in self.memory.bytes_mut(range).chunks_exact_mut(size) {
                    to.copy_from_slice(&element[..size]);
                }
                Ok(())
            }
            Vector::Binary { operator, ref to, ref a, ref b, count } => {
                let count = self.count(count)?;
                let number = LocalMemory::number(program, to);
                let places = (
                    self.local(to, program, count)?,
                    self.local(a, program, count)?,
                    self.local(b, program, count)?,
                );
                *budget -= 2 * places.0.len() as i64;
                vector::binary(number, operator, self.memory.all(), places.0, places.1, places.2)
            }
            Vector::Scalar { operator, ref to, ref a, scalar, count } => {
                let (count, bits) = (self.count(count)?, self.value(scalar)?);
                let number = LocalMemory::number(program, to);
                let (to, a) = (self.local(to, program, count)?, self.local(a, program, count)?);
                *budget -= 2 * to.len() as i64;
                vector::scalar(number, operator, self.memory.all(), to, a, bits)
            }
            Vector::Unary { operator, ref to, ref a, count } => {
                let count = self.count(count)?;
                let number = LocalMemory::number(program, to);
                let (to, a) = (self.local(to, program, count)?, self.local(a, program, count)?);
                *budget -= 4 * to.len() as i64;
                vector::unary(number, operator, self.memory.all(), to, a)
            }
            Vector::Cast { ref to, ref from, round, count } => {
                let count = self.count(count)?;
                let types = (LocalMemory::number(program, to), LocalMemory::number(program, from));
                let (to, from) =
                    (self.local(to, program, count)?, self.local(from, program, count)?);
                *budget -= 8 * to.len() as i64;
                cast::cast(types, round, self.memory.all(), to, from)
            }
            Vector::Reduce { operator, ref to, ref from, ref work, count } => {
                let count = self.count(count)?;
                let number = LocalMemory::number(program, to);
                self.local(work, program, 0)?;
                let (to, from) = (self.local(to, program, 1)?, self.local(from, program, count)?);
                *budget -= 2 * from.len() as i64;
                vector::reduce(number, operator, self.memory.all(), to, from);
                Ok(())
            }
        }
    }

    fn sync(&mut self, sync: Sync, world: &mut World) -> Result<(), String> {
        // Within a core everything is done in order.
        if matches!(sync, Sync::Pipe(_) | Sync::Units(..)) {
            return Ok(());
        }
        if !world.program.mix.synchronises() {
            return Err(format!(
                "cores of a kernel of type {} cannot synchronise with each other; take one of the MIX types",
                world.program.mix.ascend_c()
            ));
        }
        match sync {
            Sync::Raise { mode, flag, .. } => {
                world.flags.raise(self.kind(), self.index(), mode, flag)?;
            }
            Sync::Await { flag } => self.wait = Some(Wait::Flag(flag)),
            // A barrier of vector cores is nothing to a cube core.
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
            return Err("a vector core has no cube unit".into());
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
        let product = MatrixProduct::new(types.clone(), sizes, spots, bias)?;
        // It lies within memory, so it has no more rows than there can be.
        world.note_product(&types, &sizes, &a, &b, &c);
        if let Some(track) = &mut self.track {
            track.multiplies([sizes.rows, sizes.columns, sizes.depth]);
        }
        self.product = Some(Box::new(product));
        Ok(())
    }
}
