//! The C ABI in `ascend-sys` is CANN's. Compares every signature, enum value, constant, size and
//! offset, in the Rust bindings and in the C headers, with the published one in
//! `data/cann-abi.json`.

mod c;
mod data;
mod libraries;
mod page;
mod rust;
mod unset;

use std::collections::BTreeSet;
use std::mem::offset_of;

use ascend_sys::{
    CommAddr, CommLink__bindgen_ty_1, EndpointDesc, EndpointLoc, HcclChannelDesc, HcclOpDesc,
    HcommChannelDesc, Library, SYMBOLS, aclmdlRITaskParams,
};
use data::{Abi, Field, Record};
use rust::{Source, rust_name, rust_type};

/// Functions that are not in the data: two that CANN exports without a public header, and our own
/// optional entries.
const MORE_FUNCTIONS: [&str; 26] = [
    "HcclAllocComResourceByTiling",
    "HcclThreadExportToCommEngine",
    "ascendExtStreamProgress",
    "ascendExtStreamFailure",
    "ascendExtAwaitActivity",
    "ascendExtAwaitTask",
    "ascendExtTaskPeers",
    "ascendExtBlockCreate",
    "ascendExtBlockDestroy",
    "ascendExtRankLeave",
    "ascendExtRootInfoStays",
    "ascendExtGroupResult",
    "ascendExtFaultSet",
    "ascendExtCommAbort",
    "ascendExtCommFailure",
    "ascendExtCommRank",
    "ascendExtCommTitle",
    "ascendExtCommNumbersZeros",
    "ascendExtCommLeave",
    "ascendExtFaultClear",
    "ascendExtFindings",
    "ascendExtFinding",
    "ascendExtHostAccess",
    "ascendExtThreadWaits",
    "ascendExtTimelineRecord",
    "ascendExtTimeline",
];

/// Types of the optional entries.
const MORE_STRUCTURES: [&str; 4] =
    ["AscendExtProgress", "AscendExtBlockConfig", "AscendExtFault", "AscendExtRank"];
const MORE_ENUMS: [&str; 7] = [
    "AscendExtProduct",
    "AscendExtFaultKind",
    "AscendExtCommCause",
    "AscendExtPresence",
    "AscendExtCheck",
    "AscendExtFindingForm",
    "AscendExtTimelineForm",
];

/// The differences. They are collected, so that one run of a test shows all of them.
#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn equal<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, ours: T, cann: T) {
        if ours != cann {
            self.0.push(format!("{what}: ours {ours:?}, CANN's {cann:?}"));
        }
    }

    /// Compares names in both directions, without our own names.
    fn names<'a>(
        &mut self,
        what: &str,
        ours: impl IntoIterator<Item = &'a String>,
        cann: impl IntoIterator<Item = &'a String>,
        more: &[&str],
    ) {
        let ours: BTreeSet<_> = ours.into_iter().map(String::as_str).collect();
        let mut expected: BTreeSet<_> = cann.into_iter().map(String::as_str).collect();
        expected.extend(more);
        let report = |name: &&str, fault: &str| format!("{what} {name}: {fault}");
        self.0.extend(expected.difference(&ours).map(|name| report(name, "missing")));
        self.0.extend(ours.difference(&expected).map(|name| report(name, "not CANN's")));
    }

    fn expect_none(self) {
        assert!(self.0.is_empty(), "{} differences:\n{}", self.0.len(), self.0.join("\n"));
    }
}

#[test]
fn functions_have_cann_s_signatures() {
    let (abi, source) = (Abi::load(), Source::load());
    let mut differences = Differences::default();
    assert_eq!(abi.functions.len(), 605);
    for (place, ours) in [("import", &source.imports), ("field", &source.fields)] {
        let cann = abi.functions.iter().map(|function| &function.name);
        differences.names(place, ours.keys(), cann, &MORE_FUNCTIONS);
        for function in &abi.functions {
            let Some(signature) = ours.get(&function.name) else { continue };
            let what = format!("{place} {}", function.name);
            let params = function.params.iter().map(|(ty, name)| (rust_name(name), rust_type(ty)));
            differences.equal(&what, &signature.params, &params.collect());
            differences.equal(&what, &signature.output, &rust_type(&function.ret));
            differences.equal(&what, signature.variadic, function.variadic);
        }
    }
    differences.expect_none();
}

#[test]
fn symbols_have_their_library_release_and_header() {
    let abi = Abi::load();
    let mut differences = Differences::default();
    for function in &abi.functions {
        let Some(symbol) = SYMBOLS.iter().find(|it| it.name.to_bytes() == function.name.as_bytes())
        else {
            differences.0.push(format!("{}: not in SYMBOLS", function.name));
            continue;
        };
        let library = match function.lib.as_deref() {
            Some("libacl_rt.so") => Library::AclRt,
            // The host has a stub of this function, among the other functions for resources.
            Some("libhcomm.so" | "libccl_kernel.so") => Library::Hcomm,
            Some("libhccl.so") => Library::Hccl,
            Some("libmsprofiler.so") => Library::MsProfiler,
            None => Library::None,
            Some(other) => panic!("the data names an unknown library {other}"),
        };
        let since = if function.since == "master" { "9.2.0" } else { &function.since };
        let ours = (symbol.library, symbol.since, symbol.header);
        differences.equal(&function.name, ours, (library, since, function.header.as_str()));
    }
    differences.expect_none();
}

#[test]
fn enums_have_cann_s_values() {
    let (abi, source) = (Abi::load(), Source::load());
    let mut differences = Differences::default();
    let cann = abi.enums.iter().map(|it| &it.name);
    differences.names("enum", source.enums.keys(), cann, &MORE_ENUMS);
    for cann in &abi.enums {
        let Some(ours) = source.enums.get(&cann.name) else { continue };
        let representation = if cann.underlying == "int" { "c_int" } else { "u32" };
        differences.equal(&cann.name, ours.representation.as_str(), representation);
        differences.equal(&cann.name, &ours.values, &cann.values);
    }
    differences.expect_none();
}

#[test]
fn constants_have_cann_s_types_and_values() {
    let (abi, source) = (Abi::load(), Source::load());
    let mut differences = Differences::default();
    let cann = || abi.constants.iter().chain(&abi.macros);
    differences.names("constant", source.constants.keys(), cann().map(|it| &it.name), &[]);
    for cann in cann() {
        let Some((ty, value)) = source.constants.get(&cann.name) else { continue };
        differences.equal(&cann.name, (ty, *value), (&rust_type(&cann.ty), cann.value));
    }
    differences.expect_none();
}

#[test]
fn typedefs_have_cann_s_types() {
    let (abi, source) = (Abi::load(), Source::load());
    let mut differences = Differences::default();
    for cann in &abi.typedefs {
        let ours = source.aliases.get(&cann.name).cloned();
        let ty = match &cann.params {
            None => rust_type(&cann.ty),
            Some(params) => {
                let list: Vec<_> = params
                    .iter()
                    .map(|(ty, name)| format!("{}:{}", rust_name(name), rust_type(ty)))
                    .collect();
                let output = match rust_type(&cann.ret) {
                    none if none.is_empty() => none,
                    some => format!("->{some}"),
                };
                format!("::core::option::Option<unsafeextern\"C\"fn({}){output}>", list.join(","))
            }
        };
        differences.equal(&cann.name, ours, Some(ty));
    }
    for (name, tag) in abi.opaque_records.iter().map(|it| (&it.name, &it.tag)) {
        let known = source.records.get(source.resolve(tag)).map(|record| record.fields.len());
        differences.equal(name, known, Some(1));
        differences.equal(name, source.resolve(name), source.resolve(tag));
    }
    differences.expect_none();
}

#[test]
fn structures_have_cann_s_fields_sizes_and_offsets() {
    let (abi, source) = (Abi::load(), Source::load());
    let mut differences = Differences::default();
    let known =
        abi.records.iter().map(|it| &it.name).chain(abi.opaque_records.iter().map(|it| &it.tag));
    let known: BTreeSet<_> = known.map(|name| source.resolve(name).to_owned()).collect();
    let ours = source.records.keys().filter(|name| !name.contains("__bindgen_ty_"));
    differences.names("structure", ours, &known, &MORE_STRUCTURES);
    for Record { name, kind, size, align, fields, .. } in &abi.records {
        let ours = source.resolve(name);
        compare_record(&mut differences, &source, ours, kind, (*size, *align), fields, 0);
    }
    differences.expect_none();
}

/// Compares a structure or union. `base` is its offset in the outermost structure. The offsets of
/// fields in the data count from the outermost structure, too.
fn compare_record(
    differences: &mut Differences,
    source: &Source,
    name: &str,
    kind: &str,
    (size, align): (u64, u64),
    fields: &[Field],
    base: u64,
) {
    let Some(record) = source.records.get(name) else {
        differences.0.push(format!("{name}: missing"));
        return;
    };
    differences.equal(name, record.kind, kind);
    let layout = |what: &str| source.layout.get(what).copied();
    differences.equal(&format!("size of {name}"), layout(&format!("Size of {name}")), Some(size));
    let our_align = layout(&format!("Alignment of {name}"));
    differences.equal(&format!("alignment of {name}"), our_align, Some(align));
    let mut anonymous = 0;
    let expected: Vec<_> = fields
        .iter()
        .map(|field| match &field.name {
            Some(name) => rust_name(name),
            None => {
                anonymous += 1;
                format!("anon_{anonymous}")
            }
        })
        .collect();
    let names: Vec<_> = record.fields.iter().map(|(field, _)| field.clone()).collect();
    differences.equal(name, &names, &expected);
    for ((our_name, our_type), field) in record.fields.iter().zip(fields) {
        let path = format!("{name}::{our_name}");
        let offset = layout(&format!("Offset of field: {path}")).or_else(|| unnamed_offset(&path));
        differences.equal(&format!("offset of {path}"), offset, Some(field.offset - base));
        if let (Some(kind), Some(inner)) = (&field.kind, &field.fields) {
            let layout = (field.size, field.align);
            compare_record(differences, source, our_type, kind, layout, inner, field.offset);
        } else {
            let ty = field.ty.as_deref().expect("a field has a type or fields");
            differences.equal(&path, our_type, &rust_type(ty));
        }
    }
}

/// Returns the offset of a field without a name in C, for which bindgen makes no assertion. Returns
/// `None` if the path is not that of such a field.
fn unnamed_offset(path: &str) -> Option<u64> {
    let offset = match path {
        "CommAddr::anon_1" => offset_of!(CommAddr, anon_1),
        "CommLink__bindgen_ty_1::anon_1" => offset_of!(CommLink__bindgen_ty_1, anon_1),
        "EndpointDesc::anon_1" => offset_of!(EndpointDesc, anon_1),
        "EndpointLoc::anon_1" => offset_of!(EndpointLoc, anon_1),
        "HcclChannelDesc::anon_1" => offset_of!(HcclChannelDesc, anon_1),
        "HcclOpDesc::anon_1" => offset_of!(HcclOpDesc, anon_1),
        "HcommChannelDesc::anon_1" => offset_of!(HcommChannelDesc, anon_1),
        "aclmdlRITaskParams::anon_1" => offset_of!(aclmdlRITaskParams, anon_1),
        _ => return None,
    };
    Some(offset as u64)
}
