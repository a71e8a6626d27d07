//! Arbitrary bytes against `wire::oracle::plain`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::oracle::plain(bytes));
