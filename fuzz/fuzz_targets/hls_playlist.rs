//! Arbitrary text as two states of a playlist.
#![no_main]

use ingest::playlist::check;

libfuzzer_sys::fuzz_target!(|texts: (String, String)| {
    let _ = check(&texts.0, &texts.1);
    // What is one list by itself has not changed.
    if check(&texts.0, &texts.0).is_ok() {
        let longer = format!("{}\n", texts.0);
        let _ = check(&texts.0, &longer);
    }
});
