//! Memory that several processes have mapped, and the layout of a communicator's words in it.
//!
//! In a collective or a message, ranks communicate through words, each changed by one atomic step.
//! If all ranks are in one process, the words are on its heap. Otherwise they are in a
//! [`SharedMemory`] that one of the processes has made. A [`Ground`] chooses between the two, so
//! the code above it does not depend on the choice. Both kinds are laid out by the same calls in
//! the same order, so the processes need not exchange offsets.

use std::cell::Cell;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

/// A mapped memory file. No process can make the file smaller, so the mapped bytes stay valid.
pub(crate) struct SharedMemory {
    at: NonNull<u8>,
    bytes: usize,
    file: OwnedFd,
}

// SAFETY: an address and a descriptor; the memory at the address is touched by atomic steps, or as
// the owners of `Placed` say.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

/// The seals of a memory file: the operations that no process may do on it.
const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// Returns the result of a system call, or the error if the call returned -1.
fn checked(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Makes a memory file of `bytes` zeros, whose size cannot change.
pub(crate) fn memory_file(bytes: usize) -> io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is NUL-terminated; the descriptor is new, and nobody else has it.
    let file = unsafe {
        let file = checked(libc::memfd_create(c"ascend-emulator".as_ptr(), flags))?;
        OwnedFd::from_raw_fd(file)
    };
    let length = libc::off_t::try_from(bytes).map_err(io::Error::other)?;
    // SAFETY: a file of our own.
    unsafe {
        checked(libc::ftruncate(file.as_raw_fd(), length))?;
        checked(libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, SEALS))?;
    }
    Ok(file)
}

/// Checks that a file from another process has at least `bytes` bytes and cannot shrink.
pub(crate) fn check_file(file: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    // SAFETY: zeros are a value of this structure, and `fstat` fills it.
    let (seals, size) = unsafe {
        let mut about: libc::stat = std::mem::zeroed();
        checked(libc::fstat(file.as_raw_fd(), &mut about))?;
        (checked(libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS))?, about.st_size)
    };
    let is_large_enough = usize::try_from(size).is_ok_and(|size| size >= bytes);
    match seals & libc::F_SEAL_SHRINK != 0 && is_large_enough {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "the memory file has {size} bytes and the seals {seals:#x}, but {bytes} bytes and \
             F_SEAL_SHRINK are needed"
        ))),
    }
}

impl SharedMemory {
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        Self::map(memory_file(bytes)?, 0, bytes)
    }

    /// Maps a part of a file of [`memory_file`], which may be from another process.
    pub(crate) fn map(file: OwnedFd, start: usize, bytes: usize) -> io::Result<Self> {
        use std::os::fd::AsFd;
        let end = start
            .checked_add(bytes)
            .ok_or_else(|| io::Error::other("the end of the memory is beyond any file"))?;
        check_file(file.as_fd(), end)?;
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_NORESERVE);
        let start = libc::off_t::try_from(start).map_err(io::Error::other)?;
        // SAFETY: a new mapping at an address of the system's choice touches no existing memory.
        let at = unsafe {
            let null = std::ptr::null_mut();
            libc::mmap(null, bytes, protection, flags, file.as_raw_fd(), start)
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: advice on the mapping made above: a core file should not contain terabytes of
        // zeros.
        unsafe { libc::madvise(at, bytes, libc::MADV_DONTDUMP) };
        let at = NonNull::new(at.cast())
            .ok_or_else(|| io::Error::other("the memory was mapped at address 0"))?;
        Ok(Self { at, bytes, file })
    }

    pub(crate) fn file(&self) -> &OwnedFd {
        &self.file
    }

    pub(crate) fn address(&self) -> usize {
        self.at.as_ptr().expose_provenance()
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: mapped by us; every user holds this object.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}

/// A type that can be in shared memory.
///
/// # Safety
///
/// Zeros are a new value of the type, and it contains no address. Every process may change it at
/// any time, so it consists of atomic words, and of cells whose owner defines when they may be
/// touched.
pub(crate) unsafe trait SharedWords {}

/// Values on the heap of the process, or in shared memory.
pub(crate) struct Placed<T> {
    values: NonNull<[T]>,
    /// The memory that holds the values; `None` if they are a leaked box.
    shared: Option<Arc<SharedMemory>>,
}

impl<T> Drop for Placed<T> {
    fn drop(&mut self) {
        if self.shared.is_none() {
            // SAFETY: the box was leaked in `on_heap`, and is restored only here.
            drop(unsafe { Box::from_raw(self.values.as_ptr()) });
        }
    }
}

// SAFETY: as a box of the values.
unsafe impl<T: Send> Send for Placed<T> {}
// SAFETY: as a box of the values.
unsafe impl<T: Sync> Sync for Placed<T> {}

impl<T> Deref for Placed<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the values are held here, and stay where they are.
        unsafe { self.values.as_ref() }
    }
}

/// The place where the words of a communicator are made.
pub(crate) enum Ground {
    /// The heap: all ranks of the communicator are in this process.
    Heap,
    /// The words are not placed; this only counts the bytes that they would take.
    Measured(Cell<usize>),
    /// Shared memory, with the number of its bytes that are in use.
    Shared(Arc<SharedMemory>, Cell<usize>),
}

impl Ground {
    pub(crate) fn shared(memory: Arc<SharedMemory>) -> Self {
        Self::Shared(memory, Cell::new(0))
    }

    /// Returns the number of bytes that the values made on a ground take.
    pub(crate) fn measure<T>(make: impl FnOnce(&Self) -> T) -> usize {
        let ground = Self::Measured(Cell::new(0));
        make(&ground);
        ground.bytes()
    }

    /// Returns the number of bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Heap => 0,
            Self::Measured(used) | Self::Shared(_, used) => used.get(),
        }
    }

    /// Returns the shared memory, and the offset after its bytes in use. `None` if nothing is
    /// shared.
    pub(crate) fn rest(&self) -> Option<(Arc<SharedMemory>, usize)> {
        match self {
            Self::Shared(memory, used) => Some((Arc::clone(memory), used.get())),
            Self::Heap | Self::Measured(_) => None,
        }
    }

    /// Places `count` values. On the heap, `make` makes each value. It must make the value that
    /// zeros mean in shared memory. If the shared memory has no room for the values, places none.
    pub(crate) fn place<T: SharedWords>(
        &self,
        count: usize,
        make: impl FnMut(usize) -> T,
    ) -> Placed<T> {
        let take = |used: &Cell<usize>| {
            let start = used.get().checked_next_multiple_of(align_of::<T>().max(128))?;
            let end = start.checked_add(size_of::<T>().checked_mul(count)?)?;
            used.set(end);
            Some((start, end))
        };
        match self {
            Self::Heap => Placed::on_heap((0..count).map(make).collect()),
            Self::Measured(used) => {
                take(used).unwrap_or_else(|| panic!("{count} values do not fit into any memory"));
                Placed::on_heap(Box::default())
            }
            Self::Shared(memory, used) => match take(used) {
                Some((start, end)) if end <= memory.bytes => {
                    // SAFETY: within the mapping.
                    let at = unsafe { memory.at.add(start) };
                    let values = NonNull::slice_from_raw_parts(at.cast(), count);
                    Placed { values, shared: Some(Arc::clone(memory)) }
                }
                _ => Placed::on_heap(Box::default()),
            },
        }
    }
}

impl<T> Placed<T> {
    fn on_heap(values: Box<[T]>) -> Self {
        let values = NonNull::from(Box::leak(values));
        Self { values, shared: None }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    // SAFETY: an atomic word.
    unsafe impl SharedWords for AtomicU64 {}

    fn lay_out(ground: &Ground) -> [Placed<AtomicU64>; 3] {
        [3, 1, 1000].map(|count| ground.place(count, |_| AtomicU64::new(0)))
    }

    #[cfg_attr(miri, ignore = "there are no memory files")]
    #[test]
    fn two_mappings_have_the_same_words_at_the_same_places() {
        let bytes = Ground::measure(lay_out);
        let one = SharedMemory::new(bytes).unwrap();
        let file = one.file().try_clone().unwrap();
        let two = SharedMemory::map(file, 0, bytes).unwrap();
        let [one, two] = [one, two].map(|memory| lay_out(&Ground::shared(Arc::new(memory))));
        for (one, two) in one.iter().zip(&two) {
            assert_eq!(one.len(), two.len());
            for (number, word) in (1..).zip(&**one) {
                assert_eq!(word.swap(number, Ordering::Relaxed), 0);
            }
            assert!((1..).zip(&**two).all(|(n, word)| word.load(Ordering::Relaxed) == n));
        }
    }

    #[cfg_attr(miri, ignore = "there are no memory files")]
    #[test]
    fn a_file_that_is_too_small_or_could_shrink_is_not_mapped() {
        let small = memory_file(4096).unwrap();
        assert!(SharedMemory::map(small.try_clone().unwrap(), 0, 4097).is_err());
        assert!(SharedMemory::map(small.try_clone().unwrap(), usize::MAX, 2).is_err());
        assert!(SharedMemory::map(small, 0, 4096).is_ok());
        let pipe: OwnedFd = std::io::pipe().unwrap().0.into();
        assert!(SharedMemory::map(pipe, 0, 1).is_err());
        // SAFETY: a new descriptor of our own.
        let loose = unsafe {
            let file = libc::memfd_create(c"loose".as_ptr(), libc::MFD_CLOEXEC);
            assert!(file >= 0 && libc::ftruncate(file, 4096) == 0);
            OwnedFd::from_raw_fd(file)
        };
        assert!(SharedMemory::map(loose, 0, 1).is_err());
    }
}
