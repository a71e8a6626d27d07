//! Arbitrary bytes against `wire::oracle::feedback`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::oracle::feedback(bytes));
