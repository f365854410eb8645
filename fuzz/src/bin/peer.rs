//! Fuzzes the messages of another process about communicators and exports.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ascend_emulator::fuzz::peer(bytes));
