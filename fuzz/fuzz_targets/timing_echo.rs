//! Arbitrary bytes against `wire::oracle::timing_echo`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::oracle::timing_echo(bytes));
