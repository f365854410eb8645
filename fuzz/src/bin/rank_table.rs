//! Fuzzes rank tables.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ascend_emulator::fuzz::rank_table(bytes));
