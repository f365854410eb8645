//! Copies between local and global memory, and reads and writes of single elements.

use super::core::{Core, PIECE};
use super::local::{ALIGNMENT, LocalMemory};
use super::order::Unit;
use super::world::World;
use ascend_program::flow::store;
use ascend_program::step::{Copy, Local, Pieces, Place};
use std::ops::Range;

impl Core {
    pub(super) fn copy(
        &mut self,
        copy: &Copy,
        world: &mut World,
        budget: &mut i64,
    ) -> Result<(), String> {
        let program = world.program.clone();
        match copy {
            Copy::In { to, from, pieces } => {
                let Some(moved) = self.pieces(to, from, pieces, world, budget)? else {
                    return Ok(());
                };
                let decays = self.units.is_some();
                self.done_by(Unit::In, world, move |memory, world| {
                    moved.each(|base, at, local| {
                        let end = local.end;
                        world.read(base, at, memory.bytes_mut(local))?;
                        if decays {
                            memory.decay(end..end.next_multiple_of(ALIGNMENT as usize));
                        }
                        Ok(())
                    })
                })
            }
            Copy::Out { to, from, pieces, add } => {
                let number = LocalMemory::number(&program, from);
                let add = *add;
                if add {
                    world.may_add(number)?;
                }
                let Some(moved) = self.pieces(from, to, pieces, world, budget)? else {
                    return Ok(());
                };
                self.done_by(Unit::Out, world, move |memory, world| {
                    moved.each(|base, at, local| match add {
                        true => world.add(base, at, memory.bytes(local), number),
                        false => world.write(base, at, memory.bytes(local)),
                    })
                })
            }
            Copy::Set { to, value } => {
                let number = world.number_of(to.base);
                let bits = self.value(*value)?;
                let (base, offset) = self.place(to, world)?;
                self.done_by(Unit::Scalar, world, move |_, world| {
                    world.write(base, offset, &store(number, bits)[..number.size() as usize])
                })
            }
            Copy::SetLocal { to, value } => {
                let number = LocalMemory::number(&program, to);
                let bits = self.value(*value)?;
                let range = self.local(to, &program, 1)?;
                self.done_by(Unit::Scalar, world, move |memory, _| {
                    let bytes = &store(number, bits)[..number.size() as usize];
                    memory.bytes_mut(range).copy_from_slice(bytes);
                    Ok(())
                })
            }
            // There is no cache to clean: scalar accesses go to memory.
            Copy::Clean(place) => self.place(place, world).map(drop),
        }
    }

    /// Returns the places of the pieces of a copy; `None` if there is nothing to move.
    fn pieces(
        &mut self,
        local: &Local,
        global: &Place,
        pieces: &Pieces,
        world: &mut World,
        budget: &mut i64,
    ) -> Result<Option<MovedPieces>, String> {
        self.is_vector()?;
        let program = world.program.clone();
        let number = LocalMemory::number(&program, local);
        let size = u64::from(number.size());
        let length = self.count(pieces.length)?;
        let count = pieces.count.map_or(Ok(1), |count| self.count(count))?;
        let gap = pieces.gap.map_or(Ok(0), |gap| self.count(gap))?;
        if count > 4095 {
            return Err(format!("a copy of {count} pieces; copy at most 4095 at a time"));
        }
        if length == 0 || count == 0 {
            return Ok(None);
        }
        let (base, at) = self.place(global, world)?;
        let offset = local.offset.map_or(Ok(0), |offset| self.count(offset))?;
        let bytes = length
            .checked_mul(size)
            .ok_or("the size of a copy in bytes does not fit into 64 bits; copy fewer elements")?;
        let skip = gap.saturating_mul(size).saturating_add(bytes);
        // Each piece begins at a multiple of 32 bytes in local memory. A piece that is longer than
        // the memory is an error below, whatever the pitch is.
        let pitch = bytes.checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX) / size;
        let first = self.memory.place(&program, local, offset, length)?;
        let last = offset.saturating_add((count - 1).saturating_mul(pitch));
        self.memory.place(&program, local, last, length)?;
        *budget -= (bytes * count).min(PIECE as u64) as i64;
        let pitch = (pitch * size) as usize;
        Ok(Some(MovedPieces { base, at, skip, first, pitch, count }))
    }
}

/// The places of the pieces of a copy, checked against local memory.
struct MovedPieces {
    base: usize,
    /// The offset in bytes of the first piece in global memory.
    at: u64,
    /// The distance in bytes, in global memory, from the start of one piece to the start of the
    /// next.
    skip: u64,
    /// The byte range of the first piece in local memory. `pitch` is the distance in bytes to the
    /// next piece.
    first: Range<usize>,
    pitch: usize,
    count: u64,
}

impl MovedPieces {
    /// Calls `one` for each piece, in order.
    fn each(
        self,
        mut one: impl FnMut(usize, u64, Range<usize>) -> Result<(), String>,
    ) -> Result<(), String> {
        let (mut at, mut local) = (self.at, self.first);
        for piece in 0..self.count {
            if piece > 0 {
                local = local.start + self.pitch..local.end + self.pitch;
                at = at.saturating_add(self.skip);
            }
            one(self.base, at, local.clone())?;
        }
        Ok(())
    }
}
