//! Arbitrary bytes against `wire::oracle::viewing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::oracle::viewing(bytes));
