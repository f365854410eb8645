//! Functions that send objects that are not arrays of numbers. serde must be able to serialise
//! them.
//!
//! All ranks of a communicator must call the same function. Each call blocks until all ranks have
//! called the function. The ranks exchange the lengths first, and then the bytes. The encoding is
//! `postcard`, so all ranks must have the same version of a type. Do not use these functions in the
//! middle of a step, because they block.

use hccl::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

fn written<T: Serialize>(object: &T) -> Result<Vec<u8>> {
    postcard::to_allocvec(object).map_err(|source| Error::Object { what: "written", source })
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    let failed = |source| Error::Object { what: "read", source };
    match postcard::take_from_bytes(bytes).map_err(failed)? {
        (object, []) => Ok(object),
        // The bytes are those of another type.
        _ => Err(failed(postcard::Error::DeserializeBadEncoding)),
    }
}

/// Sends the object of the root to all ranks, and returns it on every rank. `object` must be `Some`
/// on the root. It is ignored on the other ranks.
pub fn broadcast<T: Serialize + DeserializeOwned>(
    object: Option<&T>,
    root: u32,
    comm: &mut Communicator,
    stream: &Stream,
) -> Result<T> {
    let is_root = comm.rank() == root;
    let bytes = match object {
        Some(object) if is_root => written(object)?,
        None if is_root => return Err(Error::NoObject { root }),
        _ => Vec::new(),
    };
    let device = stream.device();
    let mut length = device.upload(&[bytes.len() as u64], stream)?;
    drop(comm.broadcast(&mut length, root, stream)?);
    let length = length.to_vec(stream).wait()?[0] as usize;
    if length == 0 {
        return read(&[]);
    }
    let mut buffer = match is_root {
        true => device.upload(&bytes, stream)?,
        false => device.zeros::<u8>(length, stream)?,
    };
    drop(comm.broadcast(&mut buffer, root, stream)?);
    read(&buffer.to_vec(stream).wait()?)
}

/// Returns the objects of all ranks on every rank, in the order of the ranks.
pub fn all_gather<T: Serialize + DeserializeOwned>(
    object: &T,
    comm: &mut Communicator,
    stream: &Stream,
) -> Result<Vec<T>> {
    let pieces = exchange(&vec![written(object)?; comm.world_size() as usize], comm, stream)?;
    pieces.iter().map(|piece| read(piece)).collect()
}

/// Returns the objects of all ranks on the root, in the order of the ranks. Returns `None` on the
/// other ranks.
pub fn gather<T: Serialize + DeserializeOwned>(
    object: &T,
    root: u32,
    comm: &mut Communicator,
    stream: &Stream,
) -> Result<Option<Vec<T>>> {
    check_root(root, comm)?;
    let mut pieces = vec![Vec::new(); comm.world_size() as usize];
    pieces[root as usize] = written(object)?;
    let came = exchange(&pieces, comm, stream)?;
    if comm.rank() != root {
        return Ok(None);
    }
    came.iter().map(|piece| read(piece)).collect::<Result<_>>().map(Some)
}

/// Sends one object from the root to each rank, and returns the object of this rank. On the root,
/// `objects` must have one object for each rank. On the other ranks `objects` is ignored.
pub fn scatter<T: Serialize + DeserializeOwned>(
    objects: Option<&[T]>,
    root: u32,
    comm: &mut Communicator,
    stream: &Stream,
) -> Result<T> {
    check_root(root, comm)?;
    let ranks = comm.world_size() as usize;
    let mut pieces = vec![Vec::new(); ranks];
    if comm.rank() == root {
        let objects = objects.unwrap_or_default();
        if objects.len() != ranks {
            return Err(Error::ObjectsOfRanks { root, given: objects.len(), ranks });
        }
        for (piece, object) in pieces.iter_mut().zip(objects) {
            *piece = written(object)?;
        }
    }
    let came = exchange(&pieces, comm, stream)?;
    read(&came[root as usize])
}

/// Checks that the root is a rank of the communicator. A broadcast returns the same error.
fn check_root(root: u32, comm: &Communicator) -> hccl::Result<()> {
    let world_size = comm.world_size();
    if root < world_size {
        return Ok(());
    }
    Err(hccl::Error::NoSuchRank { what: "the root", rank: root, world_size })
}

/// Sends `pieces[i]` to rank `i`, and returns the pieces from all ranks, in the order of the ranks.
fn exchange(pieces: &[Vec<u8>], comm: &mut Communicator, stream: &Stream) -> Result<Vec<Vec<u8>>> {
    let device = stream.device();
    let ranks = pieces.len();
    let lengths: Vec<u64> = pieces.iter().map(|piece| piece.len() as u64).collect();
    let sent = device.upload(&lengths, stream)?;
    let (came, _) = comm.all_to_all(&sent, device.alloc(ranks)?, stream)?;
    let came = came.to_vec(stream).wait()?;
    let sends = Partition::packed(pieces.iter().map(Vec::len)).map_err(hccl::Error::from)?;
    let receives = Partition::packed(came.iter().map(|length| *length as usize));
    let receives = receives.map_err(hccl::Error::from)?;
    let bytes = device.upload(&pieces.concat(), stream)?;
    let place = device.alloc(receives.extent())?;
    let (all, _) = comm.all_to_all_v(&bytes, place, &sends, &receives, stream)?;
    let all = all.to_vec(stream).wait()?;
    Ok((0..ranks as u32).map(|rank| all[receives.of(rank)].to_vec()).collect())
}
