//! `unset()` in Rust makes the same values as the inline functions `*Init` of the headers in C.

use std::fmt::Write;

use ascend_sys::*;

use crate::abi::c::{self, Language};
use crate::abi::data::{Abi, Field};

/// Collects the bytes of the fields, without the padding between them, which no function sets.
fn bytes<T>(value: &T, fields: &[Field], bytes: &mut [Option<u8>]) {
    for field in fields {
        if let Some(inner) = &field.fields {
            self::bytes(value, inner, bytes);
            continue;
        }
        for at in field.offset..field.offset + field.size {
            let at = at as usize;
            assert!(at < size_of::<T>(), "the field is in the structure");
            // SAFETY: the byte is inside the value and belongs to a field, so it is initialised.
            bytes[at] = Some(unsafe { std::ptr::from_ref(value).cast::<u8>().add(at).read() });
        }
    }
}

fn fields_of<T>(abi: &Abi, name: &str, value: T) -> (String, Vec<Option<u8>>) {
    let record = abi.records.iter().find(|it| it.name == name).expect("the data has it");
    let mut result = vec![None; size_of::<T>()];
    bytes(&value, &record.fields, &mut result);
    (name.to_owned(), result)
}

#[test]
fn unset_is_what_initialisers_of_c_make() {
    let abi = Abi::load();
    let ours = [
        fields_of(&abi, "ThreadConfig", ThreadConfig::unset()),
        fields_of(&abi, "EndpointDesc", EndpointDesc::unset()),
        fields_of(&abi, "HcommChannelDesc", HcommChannelDesc::unset()),
        fields_of(&abi, "HcclChannelDesc", HcclChannelDesc::unset()),
        fields_of(&abi, "CommLink", CommLink::unset()),
        fields_of(&abi, "HcclCommConfig", HcclCommConfig::unset()),
        fields_of(&abi, "HcclOpDesc", HcclOpDesc::unset()),
        fields_of(&abi, "HcclKernelLaunchCfg", HcclKernelLaunchCfg::unset()),
        fields_of(&abi, "HcclTeamCreateDesc", HcclTeamCreateDesc::unset()),
        fields_of(&abi, "HcclTeamCreateChannelsDesc", HcclTeamCreateChannelsDesc::unset()),
    ];
    let mut program = String::from(
        "#include <stdio.h>\n#include \"ascend_sys.h\"\n\
         static void print(const void *value, size_t size)\n{\n    \
         for (size_t i = 0; i < size; ++i) {\n        \
         printf(\"%d \", ((const unsigned char *)value)[i]);\n    }\n    printf(\"\\n\");\n}\n\
         int main(void)\n{\n",
    );
    for (name, _) in &ours {
        let more = match name.as_str() {
            "ThreadConfig" | "EndpointDesc" | "HcommChannelDesc" | "HcclChannelDesc"
            | "CommLink" => ", 1",
            _ => "",
        };
        // The value is in static memory, because the initialiser of communicators leaves most bytes
        // of each string as they are.
        writeln!(
            program,
            "    static {name} value_{name};\n    {name}Init(&value_{name}{more});\n    \
             print(&value_{name}, sizeof(value_{name}));"
        )
        .expect("a string grows");
    }
    program.push_str("    return 0;\n}\n");
    let output = c::output(&program, "unset", Language::C);
    let lines: Vec<_> = output.lines().collect();
    assert_eq!(lines.len(), ours.len());
    for ((name, ours), line) in ours.iter().zip(lines) {
        let cann: Vec<u8> = line.split_whitespace().map(|it| it.parse().expect("a byte")).collect();
        assert_eq!(ours.len(), cann.len(), "{name}");
        for (at, (ours, cann)) in ours.iter().zip(cann).enumerate() {
            assert!(ours.is_none_or(|ours| ours == cann), "{name} at {at}: {ours:?}, in C {cann}");
        }
    }
}
