//! Fuzzes the bytes and descriptors that come over the socket of another process.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ascend_emulator::fuzz::frames(bytes));
