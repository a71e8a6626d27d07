//! Arbitrary bytes against `wire::oracle::message`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::oracle::message(bytes));
