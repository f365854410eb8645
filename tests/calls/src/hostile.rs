//! Arguments that are wrong.
//!
//! A pointer that the library must follow (to a structure, a list, a text, a place for a result) is
//! NULL or valid, because the real library has to follow it, too. Every other argument is any
//! number: handles, addresses of data, counts and lengths, values of enums. Counts are small, or
//! larger than any list.

use crate::caller::Caller;
use crate::functions::{Function, Parameter, Value, values_of};
use crate::objects::kind_of;
use crate::plausible;

/// Untyped pointers that are followed: the beginning of the function's name, the parameter (or, if
/// empty, every pointer), and the reason why the real library has to follow them, too. Here they
/// are NULL, or lead to memory. Pointers with the reason `HOST` may also lead to memory of a
/// device, or to no memory.
pub const FOLLOWED: &[(&str, &str, &str)] = &[
    ("HcclAllGatherV", "recvCounts", COUNTS),
    ("HcclAllGatherV", "recvDispls", COUNTS),
    ("HcclReduceScatterV", "sendCounts", COUNTS),
    ("HcclReduceScatterV", "sendDispls", COUNTS),
    ("HcclAlltoAllVC", "sendCountMatrix", COUNTS),
    ("HcclAlltoAllV", "sendCounts", COUNTS),
    ("HcclAlltoAllV", "recvCounts", COUNTS),
    ("HcclAlltoAllV", "sdispls", COUNTS),
    ("HcclAlltoAllV", "rdispls", COUNTS),
    ("HcommMemImport", "memDesc", "the bytes of an export, which the caller has received"),
    ("HcommMemUnimport", "memDesc", "the bytes of an export, which the caller has received"),
    ("aclrtKernelArgsInitByUserMem", "", "memory of the caller for a list, filled by the call"),
    ("HcclConfigGetInfo", "info", "a place for as much as infoLen says"),
    ("HcclRankGraphGetEndpointInfo", "info", "a place for as much as infoLen says"),
    ("aclrtMemcpy", "dst", HOST),
    ("aclrtMemcpy", "src", HOST),
    ("aclrtMemset", "devPtr", HOST),
    ("aclrtMemset", "ptr", HOST),
    ("aclrtMemcpy2d", "spitch", "the rows of the host lie so far apart"),
    ("aclrtKernelArgsInitByUserMem", "argsHandle", "memory of the caller for a list"),
    ("aclrtMemPoolGetAttr", "value", "a place for the value"),
    ("aclrtMemPoolSetAttr", "value", "the value, of as many bytes as the attribute has"),
    ("aclrtMemExportToShareableHandleV2", "shareableHandle", SHAREABLE),
    ("aclrtMemImportFromShareableHandleV2", "shareableHandle", SHAREABLE),
    ("aclrtMemSetPidToShareableHandleV2", "shareableHandle", SHAREABLE),
    ("aclrtLaunchKernelWithHostArgs", "hostArgs", "arguments, of as many bytes as argsSize says"),
    ("aclrtKernelArgsAppend", "param", "a value of as many bytes as paramSize says"),
    ("aclrtKernelArgsParaUpdate", "param", "a value of as many bytes as paramSize says"),
    ("HcclAllocComResourceByTiling", "mc2Tiling", "a structure, whose length it says itself"),
];

const SHAREABLE: &str = "a structure of the caller, whose size is that of the handle's type";
const COUNTS: &str = "a list of counts, one for each rank, which the host reads";
const HOST: &str = "pageable memory of the host is copied and filled as by memcpy and memset";

/// Numbers at the limits of types and sizes.
const NUMBERS: [u64; 16] = [
    0,
    1,
    2,
    3,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_fffe,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    u64::MAX - 1,
    u64::MAX,
    // Products of these numbers with 4, 8 or 24 overflow to small numbers.
    0x4000_0000_0000_0001,
    0x2000_0000_0000_0001,
    0x0aaa_aaaa_aaaa_aaab,
];

/// Returns a wrong argument. A pointer that the library must follow is NULL or valid.
pub fn value(caller: &mut Caller<'_>, function: &Function, at: usize) -> Value {
    let parameter = &function.parameters[at];
    if is_place(parameter) {
        return place(caller, function, at);
    }
    match followed(function, parameter) {
        Some(HOST) => return somewhere(caller, function, at),
        Some(_) if !parameter.ty.starts_with('*') => return plausible::value(caller, function, at),
        Some(_) => return place(caller, function, at),
        None => {}
    }
    if parameter.ty.ends_with("Callback")
        || parameter.ty.ends_with("Func")
        || parameter.ty.ends_with("CallBack")
    {
        return Value::new(0);
    }
    if parameter.size > 8 {
        let bytes: Vec<u8> = (0..parameter.size).map(|_| caller.random.u8(..)).collect();
        return Value::of_bytes(&bytes);
    }
    if let Some(values) = values_of(parameter.ty) {
        let most = values.iter().max().copied().unwrap_or(0);
        let wrong = [-1, most + 1, most, i64::from(i32::MAX), i64::from(i32::MIN), 255];
        return Value::new(caller.one(&wrong) as u64);
    }
    if parameter.ty == "f32" {
        let wrong =
            [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -1.0, 1e30, 0.0, f32::MIN_POSITIVE];
        return Value::new(u64::from(caller.one(&wrong).to_bits()));
    }
    if parameter.ty.starts_with('*') || kind_of(parameter.ty).is_some() {
        return Value::new(wrong_handle(caller));
    }
    if caller.chance(6) {
        Value::new(caller.random.u64(1 << 40..))
    } else {
        Value::new(caller.one(&NUMBERS))
    }
}

/// Returns whether C follows the pointer whatever the other arguments are.
fn is_place(parameter: &Parameter) -> bool {
    let is_pointer = parameter.ty.starts_with('*');
    is_pointer && kind_of(parameter.ty).is_none() && parameter.pointee > 0
}

/// Returns whether a function copies or fills memory of the host. Then at most one argument is
/// wrong, because a wrong length together with a wrong address would be followed.
pub fn is_copy(function: &Function) -> bool {
    FOLLOWED.iter().any(|(name, _, why)| *why == HOST && function.name.starts_with(name))
}

/// Returns the reason why C follows the pointer although its type does not show that, or `None` if
/// [`FOLLOWED`] does not have the pointer.
fn followed(function: &Function, parameter: &Parameter) -> Option<&'static str> {
    let is_of = |of: &str| of == parameter.name || (of.is_empty() && parameter.ty.starts_with('*'));
    let is_it = |(name, of, _): &&(&str, &str, _)| function.name.starts_with(name) && is_of(of);
    FOLLOWED.iter().find(is_it).map(|(_, _, why)| *why)
}

/// Returns NULL, the address of memory of the host, an address in or after memory of a device, or a
/// plausible address.
fn somewhere(caller: &mut Caller<'_>, function: &Function, at: usize) -> Value {
    let device = caller.memory(false).0;
    match caller.random.u32(..5) {
        0 => Value::new(0),
        1 => Value::new(caller.run.memory.data()),
        2 if device != 0 => {
            Value::new(device.wrapping_add(caller.one(&[1, 3, 1 << 16, (1 << 16) - 1, 1 << 30])))
        }
        _ => plausible::value(caller, function, at),
    }
}

/// Returns NULL, or a place whose content is plausible, all zeros, or arbitrary.
fn place(caller: &mut Caller<'_>, function: &Function, at: usize) -> Value {
    let parameter = &function.parameters[at];
    let memory = &caller.run.memory;
    match caller.random.u32(..4) {
        0 => Value::new(0),
        1 => Value::new(memory.room(parameter.pointee * 16)),
        2 if parameter.ty.ends_with("c_char") => {
            let text = match caller.random.u32(..4) {
                0 => vec![b'a'; caller.one(&[127, 128, 129, 4096, 100_000])],
                1 => vec![0xff, 0xfe, b'/', 0x80],
                2 => b"\n\r\t\"\\{}".to_vec(),
                _ => Vec::new(),
            };
            Value::new(memory.put(&text))
        }
        2 if holds_no_pointer(parameter.ty) => {
            let bytes: Vec<u8> = (0..parameter.pointee * 8).map(|_| caller.random.u8(..)).collect();
            Value::new(memory.put(&bytes))
        }
        _ => plausible::value(caller, function, at),
    }
}

/// Returns whether a place may have any content. The pointers in a structure or a list are
/// followed.
fn holds_no_pointer(ty: &str) -> bool {
    const WITH: [&str; 17] = [
        "HcclChannelDesc",
        "HcclTeamCreateDesc",
        "aclrtMallocConfig",
        "aclrtBinaryLoadOptions",
        "aclrtLaunchKernelCfg",
        "aclrtServerPid",
        "aclrtKernelArgs",
        "HcommChannelDesc",
        "HcclOpDesc",
        "aclmdlRITaskParams",
        "AscendExt",
        "Desc",
        "Cfg",
        "Config",
        "Params",
        "Handle",
        "*",
    ];
    let pointee = ty.strip_prefix("*const ").or(ty.strip_prefix("*mut ")).unwrap_or(ty);
    !WITH.iter().any(|with| pointee.contains(with))
}

/// Returns NULL, garbage, a handle of a destroyed object, a handle of another kind, or an address.
pub fn wrong_handle(caller: &mut Caller<'_>) -> u64 {
    match caller.random.u32(..8) {
        0 | 1 => 0,
        2 => caller.one(&[
            1,
            7,
            0xdead_beef,
            0x1_0000_0001,
            u64::MAX,
            1 << 63,
            0x0001_0001_0001_0001,
        ]),
        3 => caller.random.u64(..),
        4 => {
            let gone = caller.run.objects.lists().gone.clone();
            if gone.is_empty() { 5 } else { caller.one(&gone) }
        }
        5 => caller.memory(false).0.wrapping_add(caller.one(&[0, 1, 8, 1 << 16])),
        6 => caller.run.memory.data(),
        _ => {
            let lists = caller.run.objects.lists();
            let all: Vec<u64> = lists.live.values().flatten().copied().collect();
            drop(lists);
            if all.is_empty() { 9 } else { caller.one(&all) }
        }
    }
}
