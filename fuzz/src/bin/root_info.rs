//! Fuzzes `HcclCommInitRootInfo` with any root info.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ascend_emulator::fuzz::root_info(bytes));
