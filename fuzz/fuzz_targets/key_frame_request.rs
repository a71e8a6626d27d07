//! Arbitrary bytes against `wire::oracle::key_frame_request`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::oracle::key_frame_request(bytes));
