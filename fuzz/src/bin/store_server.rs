//! Fuzzes the bytes that a client sends to the store of a job.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hccl_job::fuzz::store_server(bytes));
