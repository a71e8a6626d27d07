//! Every kept finding is what it was: the fault it was found under still shows, and is gone where it is meant
//! to be.

use std::path::Path;

use framewire_ccfuzz::finding::{Finding, all};

#[test]
fn kept_findings_are_as_expected() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../findings");
    let folders = all(&folder).expect("there is a folder of findings");
    assert!(!folders.is_empty());
    for folder in folders {
        let finding = Finding::read(&folder).unwrap_or_else(|error| panic!("{error}"));
        assert!(!finding.record.expect.is_empty(), "{}", folder.display());
        for replayed in finding.replay().unwrap_or_else(|error| panic!("{error}")) {
            assert!(replayed.holds(), "{}: {replayed:?}", folder.display());
        }
    }
}
