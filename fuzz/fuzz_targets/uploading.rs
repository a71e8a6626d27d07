//! Arbitrary bytes against `wire::oracle::uploading`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::oracle::uploading(bytes));
