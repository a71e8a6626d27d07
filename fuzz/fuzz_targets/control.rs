//! Arbitrary bytes against `wire::oracle::control`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::oracle::control(bytes));
