//! Arbitrary bytes as a decision table: it is refused in one line, or it answers and reads the same again.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| prism::oracle(bytes));
