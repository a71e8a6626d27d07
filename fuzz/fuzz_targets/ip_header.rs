//! Arbitrary bytes as an IP packet: headers are read, ECN bits written back.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| real::link::header::oracle(bytes));
