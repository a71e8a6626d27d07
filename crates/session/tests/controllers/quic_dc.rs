//! quic_dc.md section 7.

use crate::steady::alone;

#[test]
fn the_sawtooth_of_s20() {
    for cc in [
        "quic-dc:threshold=12ms",
        "quic-dc:threshold=24ms",
        "quic-dc:threshold=60ms",
        "quic-dc:threshold=96ms",
        "quic-dc:threshold=12ms,hold=1",
        "quic-dc:threshold=24ms,hold=1",
        "quic-dc:threshold=60ms,hold=1",
        "quic-dc:threshold=96ms,hold=1",
    ] {
        alone(cc, 20, 60);
    }
}
