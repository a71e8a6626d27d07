//! Arbitrary bytes against `wire::oracle::segment_ack`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::oracle::segment_ack(bytes));
