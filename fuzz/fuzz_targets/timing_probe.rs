//! Arbitrary bytes against `wire::oracle::timing_probe`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::oracle::timing_probe(bytes));
