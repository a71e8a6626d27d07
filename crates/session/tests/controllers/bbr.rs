//! bbr.md and bbr2.md, section 7.

use crate::steady::{alone, backlogged, run, steady};
use crate::path;

#[test]
fn look() {
    for cc in ["bbr", "bbr2", "bbr2-mvfst", "bbr3"] {
        let p = run(path::s20(), vec![backlogged(cc)], 25);
        println!("{cc} {:?}", steady(&p, 3.0, 25.0));
        let mut last = -1.0;
        let bw = p.observed(0, "bbr_bw_bps");
        let w = p.observed(0, "cwnd_bytes");
        for (k, (at, state)) in p.observed(0, "bbr_state").into_iter().enumerate() {
            if state != last && (cc != "bbr" || state != 2.0 || true) {
                let q = p.delays(0, at, at + 0.02);
                println!("  {at:.3} state {state} bw {:.2} w {:.1} q {:.1}", bw[k].1 / 1e6, w[k].1 / 1472.0, q.last().unwrap_or(&0.0) - 20.6);
                last = state;
            }
        }
    }
}
