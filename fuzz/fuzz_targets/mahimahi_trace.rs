//! Arbitrary bytes as a Mahimahi trace, plain or gzipped: what is read can be asked everything.
#![no_main]

use std::path::Path;

use netsim::MahimahiTrace;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(trace) = MahimahiTrace::from_bytes(bytes, Path::new("fuzz.trace")) else { return };
    assert!(trace.millis().is_sorted() && trace.duration().is_positive());
    assert!(trace.longest_gap() <= trace.duration());
    // One opportunity in a week is a rate below 1 bit/s, so it may be zero; it is never absurd.
    assert!(trace.mean_rate() < units::Rate::MAX);
});
