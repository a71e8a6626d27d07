//! Arbitrary bytes against `wire::oracle::media`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::oracle::media(bytes));
