//! The task of a reduction `dst = dst op src`.
//!
//! On hardware a reduction into memory is atomic for each element. If two ranks reduce into one
//! block at the same time, both contribute, in any order. Here each piece is done under a lock that
//! belongs to its block of the destination. The lock is held for that piece only, and a thread that
//! finds it taken does other work first. Ranks in several processes also acquire a shared
//! [word](SharedLock).

use crate::collective::comm_error::Origin;
use crate::collective::validate::name_of;
use crate::fabric::{Comm, Member};
use crate::machine::foreign::is_foreign;
use crate::memory::{MemoryPlace, nominal, place_of};
use crate::message::{Failure, refuse};
use crate::step::{PIECE, Step};
use crate::task::{Effects, ErasedTask, TaskBody, Touch};
use ascend_reduce::{DataType, ReduceOp, Store, reduce_chunk};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, TryLockError};

/// The number of locks. Blocks at this distance share a lock.
const STRIPES: usize = 1024;
static LOCKS: [Mutex<()>; STRIPES] = [const { Mutex::new(()) }; STRIPES];

/// The task of a reduction: see the [module](self).
#[derive(Clone)]
pub(crate) struct Reduce {
    to: *mut u8,
    from: *const u8,
    bytes: usize,
    dtype: DataType,
    op: ReduceOp,
    done: usize,
    shared: Option<Arc<SharedLock>>,
}

/// A lock on reductions into the memory of a rank, if ranks of other processes may also reduce into
/// that memory. Each rank has one word, which holds the rank that has acquired the lock.
pub(super) struct SharedLock {
    comm: Arc<Comm>,
    /// The rank that owns the memory.
    of: usize,
    holder: usize,
}

/// The index of the word among the words that the communicator has for a rank.
const WORD: usize = 0;

struct SharedGuard<'a>(&'a AtomicU64);

impl Drop for SharedGuard<'_> {
    fn drop(&mut self) {
        // Pairs with the compare-and-swap in `try_lock`.
        self.0.store(0, Ordering::Release);
    }
}

impl SharedLock {
    /// Returns the shared lock for a reduction of a rank into `to`, if it needs one. `to` is memory
    /// of this process or memory that a channel to `remote` reaches.
    pub(super) fn of(member: &Member, remote: Option<usize>, to: *const u8) -> Option<Arc<Self>> {
        let Member { comm, rank, .. } = member;
        if !comm.is_joint() {
            return None;
        }
        let address = nominal(to);
        let remote = remote.filter(|_| is_foreign(address));
        let of = match (place_of(address), remote) {
            (Ok(MemoryPlace::Device(_)), Some(remote)) => remote,
            (Ok(MemoryPlace::Device(id)), None) => comm.rank_on(id).unwrap_or(*rank),
            // Host memory belongs to a process, so all of its ranks share one lock.
            (_, remote) => comm.first_of_process(remote.unwrap_or(*rank)),
        };
        Some(Arc::new(Self { comm: Arc::clone(comm), of, holder: *rank }))
    }

    /// Tries to acquire the lock. Returns `None` while another rank holds it, and an error if the
    /// communicator has failed. A rank whose process is gone no longer holds the lock.
    fn try_lock(&self) -> Result<Option<SharedGuard<'_>>, Failure> {
        self.comm.check(Origin::Operator)?;
        let word = &self.comm.words_of(self.of)[WORD];
        let own = self.holder as u64 + 1;
        let found = match word.compare_exchange(0, own, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Ok(Some(SharedGuard(word))),
            Err(holder) => holder,
        };
        let is_lost =
            |holder: u64| holder.checked_sub(1).is_some_and(|it| self.comm.is_lost(it as usize));
        let taken = is_lost(found)
            && word.compare_exchange(found, own, Ordering::AcqRel, Ordering::Acquire).is_ok();
        // The guard is made only if the lock was acquired, because dropping the guard releases the
        // lock.
        Ok(taken.then(|| SharedGuard(word)))
    }
}

// SAFETY: the addresses were resolved at issue and stay mapped. Only the reduction kernels access
// the memory.
unsafe impl Send for Reduce {}

/// Returns the type and the operator of a reduction that engines do while they move data. Returns
/// an error for all other types and operators, which the program must compute itself.
pub(crate) fn kind(dtype: u32, op: u32) -> Result<(DataType, ReduceOp), Failure> {
    use DataType::*;
    let dtype = match DataType::from_hccl(dtype) {
        Some(dtype @ (Fp32 | Fp16 | Int8 | Int16 | Int32 | Bfp16)) => dtype,
        Some(dtype) => {
            return refuse!(
                HCCL_E_PARA,
                "the data type {} cannot be reduced in transfer; use FP32, FP16, BFP16, INT8, \
                 INT16 or INT32",
                name_of(dtype)
            );
        }
        None => return refuse!(HCCL_E_PARA, "{dtype} is not a data type; pass an HcclDataType"),
    };
    match ReduceOp::from_hccl(op) {
        Some(op @ (ReduceOp::Sum | ReduceOp::Max | ReduceOp::Min)) => Ok((dtype, op)),
        Some(ReduceOp::Prod) => {
            refuse!(
                HCCL_E_PARA,
                "products (PROD) cannot be computed in transfer; use SUM, MAX or MIN"
            )
        }
        None => refuse!(HCCL_E_PARA, "{op} is not the number of a reduction; pass an HcclReduceOp"),
    }
}

impl Reduce {
    /// Makes a reduction of `bytes` bytes. Both addresses hold whole elements, and the destination
    /// is aligned to an element.
    pub(super) fn new(
        to: *mut u8,
        from: *const u8,
        bytes: usize,
        (dtype, op): (DataType, ReduceOp),
        shared: Option<Arc<SharedLock>>,
    ) -> Reduce {
        Reduce { to, from, bytes, dtype, op, done: 0, shared }
    }

    /// Makes a reduction into memory that only this process reduces into.
    pub(crate) fn local(
        to: *mut u8,
        from: *const u8,
        bytes: usize,
        kind: (DataType, ReduceOp),
    ) -> Reduce {
        Reduce::new(to, from, bytes, kind, None)
    }

    /// Returns the destination, the source, the number of bytes, the type and the operator.
    pub(super) fn parts(&self) -> (*const u8, *const u8, usize, (DataType, ReduceOp)) {
        (self.to, self.from, self.bytes, (self.dtype, self.op))
    }

    pub(crate) fn poll(&mut self) -> Step {
        let to = self.to.wrapping_add(self.done);
        // A piece ends with its block, so that all threads divide at the same addresses.
        let block = to.addr() / PIECE;
        let piece = (self.bytes - self.done).min((block + 1) * PIECE - to.addr());
        let _locked = match LOCKS[block % STRIPES].try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                std::hint::spin_loop();
                return Step::Again;
            }
        };
        let _shared = match self.shared.as_ref().map(|shared| shared.try_lock()) {
            None => None,
            Some(Ok(Some(guard))) => Some(guard),
            Some(Ok(None)) => {
                std::hint::spin_loop();
                return Step::Again;
            }
            Some(Err(failure)) => return Step::Done(Err(failure)),
        };
        let from = self.from.wrapping_add(self.done);
        let count = piece / self.dtype.size();
        // SAFETY: `done + piece <= bytes`, and both sides were checked to have `bytes` bytes. The
        // kernel accesses only these bytes. If the sides overlap without being equal, the program
        // is wrong, and the values of the overlapping elements are unspecified.
        unsafe {
            let inputs = [to.cast_const(), from];
            reduce_chunk(self.dtype, self.op, &inputs, &[to], count, Store::Plain);
        }
        self.done += piece;
        if self.done == self.bytes { Step::Done(Ok(())) } else { Step::Again }
    }

    /// Returns the accesses of the task, for checked mode.
    fn touches(&self) -> Vec<Touch> {
        vec![
            Touch::read(nominal(self.from), self.bytes),
            Touch::reduce(nominal(self.to), self.bytes, (self.dtype as u32) << 8 | self.op as u32),
        ]
    }

    /// Returns the two ranges of bytes that the task touches: the destination, then the source.
    pub(crate) fn touched(&self) -> [(*const u8, usize); 2] {
        [(self.to.cast_const(), self.bytes), (self.from, self.bytes)]
    }

    /// Describes the task, for error texts.
    pub(crate) fn describe(&self) -> String {
        let count = self.bytes / self.dtype.size();
        format!("reduction of {count} x {}", name_of(self.dtype))
    }
}

impl<O: 'static> TaskBody<O> for Reduce {
    fn poll(&mut self, _: &'static O) -> Step {
        self.poll()
    }

    fn again(&self) -> Option<ErasedTask<O>> {
        Some(ErasedTask::new(self.clone()))
    }

    fn kind(&self) -> &'static str {
        "reduction"
    }

    fn touched(&self) -> [(*const u8, usize); 2] {
        self.touched()
    }

    fn effects(&self) -> Effects {
        Effects::Touches(self.describe(), self.touches())
    }

    fn describe(&self) -> String {
        self.describe()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_reduction_in_pieces_is_the_reduction() {
        const COUNT: usize = 3 * PIECE / 4 + 100;
        let mut to: Vec<i32> = (0..COUNT as i32).collect();
        let from: Vec<i32> = (0..COUNT as i32).map(|at| at * 3).collect();
        // The reduction does not begin at the start of a block.
        let start = 5;
        let mut task = Reduce::new(
            to[start..].as_mut_ptr().cast(),
            from[start..].as_ptr().cast(),
            (COUNT - start) * 4,
            (DataType::Int32, ReduceOp::Sum),
            None,
        );
        let mut polls = 0;
        while !matches!(task.poll(), Step::Done(Ok(()))) {
            polls += 1;
        }
        assert!(polls >= 2);
        assert!((0..start).all(|at| to[at] == at as i32));
        assert!((start..COUNT).all(|at| to[at] == 4 * at as i32));
    }

    #[test]
    fn what_is_reduced_in_transfer() {
        let most = if cfg!(miri) { 20 } else { 255 };
        let takes = |op| (0..=most).filter(|dtype| kind(*dtype, op).is_ok()).collect::<Vec<u32>>();
        for op in [0, 2, 3] {
            assert_eq!(takes(op), [0, 1, 2, 3, 4, 11]);
        }
        assert!(takes(1).is_empty() && takes(255).is_empty());
    }
}
