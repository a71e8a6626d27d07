//! Arbitrary bytes against `wire::oracle::nack`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::oracle::nack(bytes));
