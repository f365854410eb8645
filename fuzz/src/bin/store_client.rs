//! Fuzzes the bytes that the store of a job sends to a client.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hccl_job::fuzz::store_client(bytes));
