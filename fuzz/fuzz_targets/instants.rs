//! Arbitrary bytes as a list of instants: what is read is in order and reads the same again.
#![no_main]

use std::path::Path;

use netsim::Instants;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(instants) = Instants::from_bytes(bytes, Path::new("fuzz.instants")) else { return };
    assert!(instants.micros().is_sorted());
    let again = Instants::from_bytes(instants.to_text().as_bytes(), Path::new("again.instants"));
    assert_eq!(again.expect("it was written by us"), instants);
});
