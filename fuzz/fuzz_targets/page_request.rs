//! Arbitrary bytes as a request for the page, against `real::http::oracle`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| real::http::oracle(bytes));
