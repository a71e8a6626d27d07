//! Real trace files: the ones we ship, and Mahimahi's own where they are at hand.

use std::path::{Path, PathBuf};

use framewire_netsim::{MahimahiTrace, models};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Where data sets lie, if anywhere: `FRAMEWIRE_DATA`, or `shared/data` beside the workspace.
fn data() -> Option<PathBuf> {
    let folder =
        std::env::var_os("FRAMEWIRE_DATA").map_or_else(|| workspace().join("../shared/data"), PathBuf::from);
    folder.is_dir().then_some(folder)
}

#[test]
fn shipped_traces_are_what_their_models_write() {
    for (name, mbps) in [("lte-walk", 17.45), ("lte-drive", 12.27), ("wifi-home", 15.98)] {
        let path = workspace().join("traces").join(format!("{name}.trace"));
        let shipped = MahimahiTrace::open(&path).unwrap();
        assert!(std::fs::metadata(&path).unwrap().len() < 600_000);
        assert!((shipped.mean_rate().as_f64() / 1e6 - mbps).abs() < 0.005, "{name}: {}", shipped.mean_rate());
        // Another platform's exponential may differ in its last bit and move an opportunity, but no more.
        let made = models::shipped(name, 1, 60_000).unwrap();
        let (a, b) = (shipped.millis().len(), made.millis().len());
        assert!(a.abs_diff(b) < 10, "{name}: {a} lines shipped, {b} made");
    }
}

#[test]
fn bundled_mahimahi_traces_have_their_known_figures() {
    let Some(data) = data() else {
        println!("skipped: no data folder");
        return;
    };
    // By hand from the files: mean Mbit/s, duration s, longest gap ms.
    let known = [
        ("ATT-LTE-driving-2016.down.gz", 4.572, 120, 1123),
        ("ATT-LTE-driving-2016.up", 1.915, 120, 4061),
        ("ATT-LTE-driving.down.gz", 5.187, 786, 1515),
        ("ATT-LTE-driving.up.gz", 0.836, 1012, 78_319),
        ("TMobile-LTE-driving.down.gz", 12.804, 475, 1058),
        ("TMobile-LTE-short.down.gz", 16.747, 140, 917),
        ("TMobile-LTE-short.up.gz", 13.354, 140, 724),
        ("TMobile-UMTS-driving.down.gz", 2.025, 928, 5753),
        ("TMobile-UMTS-driving.up.gz", 0.946, 931, 5830),
        ("Verizon-EVDO-driving.down.gz", 0.522, 1062, 11_567),
        ("Verizon-EVDO-driving.up.gz", 0.845, 1065, 11_198),
        ("Verizon-LTE-short.down.gz", 5.041, 140, 1447),
        ("Verizon-LTE-short.up.gz", 5.962, 140, 1718),
    ];
    for (name, mbps, seconds, gap_ms) in known {
        let trace = MahimahiTrace::open(&data.join("network/mahimahi-cellular").join(name)).unwrap();
        let (lasts, gap) = (trace.duration().as_secs_f64(), trace.longest_gap().as_millis_f64());
        assert!((trace.mean_rate().as_f64() / 1e6 - mbps).abs() < 0.001, "{name}: {}", trace.mean_rate());
        assert!((lasts - f64::from(seconds)).abs() < 1.0, "{name}: {lasts} s");
        assert!((gap - f64::from(gap_ms)).abs() < 0.5, "{name}: {gap} ms");
    }
}
