//! Arbitrary bytes against `wire::oracle::segment`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::oracle::segment(bytes));
