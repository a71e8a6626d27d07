//! pcc_allegro.md and pcc_vivace.md, section 7.

use crate::steady::{alone, backlogged, run, steady};
use crate::path::{self, Path};

#[test]
fn alone_on_s20() {
    for cc in ["pcc", "pcc-uspace", "vivace", "vivace:latency=0", "vivace-uspace", "proteus-s"] {
        alone(cc, 20, 100);
    }
}

fn series(path: &Path, flow: usize, to: usize, step: f64) {
    for n in 0..(to as f64/step) as usize {
        let (a, b) = (n as f64*step, (n+1) as f64*step);
        let d = path.delays(flow, a, b);
        if d.is_empty() { continue; }
        println!("{a:6.1} tput {:6.2} owd p50 {:6.1} max {:6.1} lost {}", path.throughput(flow, a, b), path::quantile(&d, 0.5), path::quantile(&d, 1.0),
          path.losses(flow).iter().filter(|t| (a..b).contains(*t)).count());
    }
}

#[test]
fn series_of() {
    let cc: &'static str = Box::leak(std::env::var("CC").unwrap_or("pcc".into()).into_boxed_str());
    let path = run(path::s20(), vec![backlogged(cc)], 20);
    series(&path, 0, 20, 0.5);
    obs(&path);
    println!("{:?}", steady(&path, 10.0, 20.0));
}

#[test]
fn video() {
    let cc: &'static str = Box::leak(std::env::var("CC").unwrap_or("vivace".into()).into_boxed_str());
    let path = run(path::s20(), vec![path::Flow::video(cc)], 20);
    series(&path, 0, 20, 1.0);
    obs(&path);
}

fn obs(path: &Path) {
    if std::env::var("OBS").is_ok() {
        let base = path.observed(0, "pcc_base_bps");
        let trial = path.observed(0, "pcc_trial_bps");
        let phase = path.observed(0, "pcc_phase");
        let loss = path.observed(0, "pcc_loss");
        let slope = path.observed(0, "pcc_delay_slope");
        let mut last = (0.0, 0.0);
        for i in 0..base.len() {
            if (base[i].1, trial[i].1) != last {
                println!("{:.3} base {:.2} trial {:.2} phase {} loss {:.3} slope {:.4}", base[i].0, base[i].1/1e6, trial[i].1/1e6, phase[i].1, loss[i].1, slope[i].1);
                last = (base[i].1, trial[i].1);
            }
        }
    }
}
