//! The entries that make contexts. A context (CANN's word) is the data that kernels need to use a
//! communicator. An entry makes it from a tiling struct or from an argument object.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{CText, Handle, Out};
use super::entries::{Hccl, entries};
use super::hccl_entry::not_null;
use crate::fabric::Member;
use crate::kernel;
use crate::memory::{self, MemoryPlace};
use crate::message::{Failure, refuse};
use crate::profile::Product;
use crate::slots::HandleKind;
use ascend_sync::lock_std as lock;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

entries! {
    Hccl;

    fn HcclAllocComResourceByTiling(
        comm: Handle<Member>,
        stream: *mut c_void,
        tiling: *mut c_void,
        context: Out<*mut c_void>,
    ) {
        comm.required("comm")?;
        not_null(stream, "stream")?;
        not_null(tiling, "mc2Tiling")?;
        let context = context.required("commContext")?;
        if !matches!(
            memory::place_of(tiling.addr()),
            Ok(MemoryPlace::Pageable | MemoryPlace::Pinned)
        ) {
            return refuse!(
                HCCL_E_PARA,
                "mc2Tiling: {tiling:p} is not host memory; pass the tiling struct of the host"
            );
        }
        let member = comm.find()?;
        // SAFETY: the pointer is not null, and by the C contract it points to a filled tiling
        // struct of the host.
        let groups = unsafe { groups(tiling) }?;
        if groups.iter().all(|it| it.group != member.comm.name) {
            let named: Vec<_> = groups.iter().map(|it| format!("\"{}\"", it.group)).collect();
            return refuse!(
                HCCL_E_PARA,
                "the tiling is for {}, not for this communicator, which is \"{}\"; fill the tiling \
                 with this name (HcclGetCommName)",
                named.join(", "),
                member.comm.name
            );
        }
        let own = || groups.iter().filter(|it| it.group == member.comm.name);
        own().try_for_each(|it| supports(&member, it.operation))?;
        // The context is made before the ranks meet, so that each rank has the windows of all ranks
        // when the entry returns.
        let address = kernel::context_of(&member, ENTRY)?;
        own().try_for_each(|it| link(&member, it.operation, &it.algorithm, ENTRY))?;
        kernel::complete_context(&member, address)?;
        context.write(std::ptr::with_exposed_provenance_mut(address));
        Ok(())
    }

    fn HcclKfcAllocOpArgs(op_args: Out<*mut c_void>) {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let op_args = op_args.required("opArgs")?;
        let handle = HandleKind::OpArgs.bits() | NEXT.fetch_add(1, Ordering::Relaxed);
        lock(&OP_ARGS).insert(handle, OpArgs::default());
        op_args.write(handle as *mut c_void);
        Ok(())
    }

    fn HcclKfcFreeOpArgs(op_args: *mut c_void) {
        not_null(op_args, "opArgs")?;
        match lock(&OP_ARGS).remove(&(op_args as u64)) {
            Some(_) => Ok(()),
            None => stale(op_args as u64),
        }
    }

    fn HcclKfcOpArgsSetSrcDataType(op_args: *mut c_void, dtype: u8) {
        data_type(dtype).and(set(op_args, |_| ()))
    }

    fn HcclKfcOpArgsSetDstDataType(op_args: *mut c_void, dtype: u8) {
        data_type(dtype).and(set(op_args, |_| ()))
    }

    fn HcclKfcOpArgsSetReduceType(op_args: *mut c_void, op: u32) {
        if op > 3 {
            return refuse!(HCCL_E_PARA, "{op} is not the number of a reduction; pass 0 to 3");
        }
        set(op_args, |_| ())
    }

    fn HcclKfcOpArgsSetCount(op_args: *mut c_void, _count: u64) {
        set(op_args, |_| ())
    }

    fn HcclKfcOpArgsSetAlgConfig(op_args: *mut c_void, config: CText<*mut c_char>) {
        let config = config.required("algConfig")?;
        if config.len() >= 128 {
            return refuse!(
                HCCL_E_PARA,
                "algConfig has {} bytes; pass at most 127",
                config.len()
            );
        }
        set(op_args, |object| object.algorithm = config.to_owned())
    }

    fn HcclKfcOpArgsSetCommEngine(op_args: *mut c_void, engine: u8) {
        set(op_args, |object| object.engine = engine)
    }

    fn HcclCreateOpResCtx(
        comm: Handle<Member>,
        operation: u8,
        op_args: *mut c_void,
        context: Out<*mut c_void>,
    ) {
        comm.required("comm")?;
        not_null(op_args, "opArgs")?;
        let context = context.required("opResCtx")?;
        let member = comm.find()?;
        let found = lock(&OP_ARGS).get(&(op_args as u64)).cloned();
        let Some(object) = found else { return stale(op_args as u64) };
        if member.comm.product == Product::Ascend950 {
            return refuse!(
                HCCL_E_NOT_SUPPORT,
                "Ascend 950 does not have this; use HcclAllocComResourceByTiling"
            );
        }
        // The engine may be unset, or one that can serve a kernel.
        if !ENGINES.contains(&object.engine) {
            return refuse!(
                HCCL_E_PARA,
                "the communication engine is {}; set AICPU (2) or AIV (4)",
                object.engine
            );
        }
        supports(&member, operation.into())?;
        // The context is made before the ranks meet, as above.
        let address = kernel::context_of(&member, ENTRY)?;
        link(&member, operation.into(), &object.algorithm, ENTRY)?;
        kernel::complete_context(&member, address)?;
        context.write(std::ptr::with_exposed_provenance_mut(address));
        Ok(())
    }
}

/// The largest number of communication members of a tiling.
const MOST_MEMBERS: u32 = 3;
/// The size of `Mc2InitTiling` in bytes.
const INIT_BYTES: usize = 64;
const CC_BYTES: usize = 280;

/// Reads `N` bytes at an offset of a tiling struct of the host.
///
/// # Safety
/// `tiling` is valid for reads of `offset + N` bytes.
unsafe fn read<const N: usize>(tiling: *const c_void, offset: usize) -> [u8; N] {
    // SAFETY: the caller's promise.
    unsafe { tiling.cast::<u8>().add(offset).cast::<[u8; N]>().read_unaligned() }
}

/// The group, the operation and the algorithm of a member of a tiling.
struct TiledGroup {
    group: String,
    operation: u32,
    algorithm: String,
}

/// Reads all members of a tiling.
///
/// # Safety
/// `tiling` is a struct that the host has filled: every member that its head names lies in it.
unsafe fn groups(tiling: *const c_void) -> Result<Vec<TiledGroup>, Failure> {
    // SAFETY: by the C contract the tiling begins with an Mc2InitTiling.
    let head: [u8; INIT_BYTES] = unsafe { read(tiling, 0) };
    let word = |bytes: &[u8], at: usize| {
        u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    };
    match word(&head, 0) {
        100 => {}
        old @ 0..=2 => {
            return refuse!(
                HCCL_E_NOT_SUPPORT,
                "the tiling begins with {old}: it was not filled by `Mc2CcTilingConfig`, or it is \
                 of a deprecated kind; begin it with a filled Mc2InitTiling (100)"
            );
        }
        other => {
            return refuse!(
                HCCL_E_PARA,
                "the tiling begins with {other}; begin it with an Mc2InitTiling, whose first word \
                 is 100"
            );
        }
    }
    let count = word(&head, 4);
    if !(1..=MOST_MEMBERS).contains(&count) {
        return refuse!(
            HCCL_E_PARA,
            "the tiling has {count} communication members (Mc2CcTiling); use 1 to {MOST_MEMBERS}"
        );
    }
    let mut groups = Vec::new();
    for index in 0..count as usize {
        let offset = word(&head, 8 + 4 * index) as usize;
        // SAFETY: by the C contract the member lies at the offset that the head gives.
        let member: [u8; CC_BYTES] = unsafe { read(tiling, offset) };
        let text = |bytes: &[u8]| {
            let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
            String::from_utf8_lossy(text).into_owned()
        };
        let (group, algorithm) = (text(&member[16..144]), text(&member[144..272]));
        groups.push(TiledGroup { group, operation: word(&member, 272), algorithm });
    }
    Ok(groups)
}

/// Checks that kernels on the product can call an operation.
fn supports(member: &Member, operation: u32) -> Result<(), Failure> {
    let product = member.comm.product;
    match operation {
        2 | 6 | 7 | 10 => Ok(()),
        8 if product != Product::A2 => Ok(()),
        18 if product != Product::Ascend950 => Ok(()),
        20 if product == Product::Ascend950 => Ok(()),
        other => refuse!(
            HCCL_E_NOT_SUPPORT,
            "kernels on {product} have no operation of the opType {other}; use 2 AllReduce, 6 \
             AllGather, 7 ReduceScatter or 10 AlltoAll, on A3 and 950 also 8 AlltoAllV, on A2 and \
             A3 also 18 BatchWrite, on 950 also 20 AlltoAllvWrite"
        ),
    }
}

/// Makes the links for kernels with this operation and algorithm. A rank's first call blocks until
/// all ranks have made it. Later calls only check whether the communicator has failed.
fn link(
    member: &Member,
    operation: u32,
    algorithm: &str,
    call: &'static str,
) -> Result<(), Failure> {
    let config = match algorithm {
        "" => format!("opType {operation}"),
        algorithm => format!("opType {operation}, {algorithm}"),
    };
    member.comm.meet_for_context(member.rank, &config, call)
}

/// The settings of an argument object.
#[derive(Clone, Default)]
struct OpArgs {
    engine: u8,
    algorithm: String,
}

static OP_ARGS: Mutex<BTreeMap<u64, OpArgs>> = Mutex::new(BTreeMap::new());

fn stale<T>(handle: u64) -> Result<T, Failure> {
    refuse!(
        HCCL_E_PARA,
        "opArgs: {handle:#x} is not an argument object, or was freed; pass an object of \
         HcclKfcAllocOpArgs"
    )
}

/// Changes an argument object.
fn set(op_args: *mut c_void, change: impl FnOnce(&mut OpArgs)) -> Result<(), Failure> {
    not_null(op_args, "opArgs")?;
    match lock(&OP_ARGS).get_mut(&(op_args as u64)) {
        Some(object) => {
            change(object);
            Ok(())
        }
        None => stale(op_args as u64),
    }
}

/// Checks that a number is that of a data type.
fn data_type(number: u8) -> Result<(), Failure> {
    match ascend_reduce::DataType::from_hccl(number.into()) {
        Some(_) => Ok(()),
        None => {
            refuse!(HCCL_E_PARA, "{number} is not the number of a data type; pass an HcclDataType")
        }
    }
}

/// The accepted engines: unset (0), AICPU (2) and AIV (4).
const ENGINES: [u8; 3] = [0, 2, 4];
