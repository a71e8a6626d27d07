//! gcc.md section 7.

use netsim::{LinkConfig, QueueSpec, RateProcess};
use units::{Rate, Span, Time};

use crate::path::{self, Flow, Path};
use crate::steady;

fn video(cc: &'static str) -> Flow {
    Flow { mtu: 1200, initial: Rate::from_kbps(300), ..Flow::video(cc) }
}

fn narrow(mbps: f64) -> LinkConfig {
    let queue: QueueSpec = "droptail:300ms".parse().unwrap();
    LinkConfig::bottleneck(RateProcess::Constant(Rate::from_f64(mbps * 1e6)), queue, Span::from_millis(25))
}

fn show(name: &str, path: &Path, rate: f64, base: f64, from: f64, to: f64) {
    let delays: Vec<f64> = path.delays(0, from, to).iter().map(|ms| ms - base).collect();
    let lost = path.losses(0).iter().filter(|at| (from..to).contains(*at)).count();
    println!(
        "{name}: util {:.3} queue P5 {:.1} P50 {:.1} P95 {:.1} loss {:.5}",
        path.throughput(0, from, to) / rate,
        path::quantile(&delays, 0.05),
        path::quantile(&delays, 0.5),
        path::quantile(&delays, 0.95),
        lost as f64 / (lost + delays.len()) as f64
    );
}

fn series(path: &Path, to: u64, step: f64, names: &[&str]) {
    let all: Vec<_> = names.iter().map(|n| path.observed(0, n)).collect();
    let d = path.delivered(0);
    let mut t = 0.0;
    while t < to as f64 {
        let w: Vec<f64> = d.iter().filter(|x| (t..t + step).contains(&x.0)).map(|x| x.1).collect();
        let max = w.iter().copied().fold(0.0, f64::max);
        print!("{t:6.1}: {:6.2} Mbit/s owd max {max:6.1}", path.throughput(0, t, t + step));
        for (n, s) in names.iter().zip(&all) {
            let v = s.iter().rev().find(|x| x.0 <= t + step).map_or(f64::NAN, |x| x.1);
            print!("  {n} {v:.3e}");
        }
        println!();
        t += step;
    }
}

#[test]
fn adhoc_s2() {
    for cc in ["gcc", "gcc:probing=off", "gcc-rmcat-02", "gcc-legacy"] {
        for b in [1.0, 2.0] {
            let mut flow = video(cc);
            flow.caps = vec![(Time::ZERO, Time::MAX, Rate::from_mbps(2))];
            let back = LinkConfig::delay(Span::from_millis(25));
            let mut path = path::build(narrow(b), back, vec![flow], true);
            path.world.run_until(Time::from_secs(150));
            show(&format!("{cc} {b}"), &path, b, 25.0 + 1.228 * 8.0 / b, 30.0, 150.0);
            if std::env::var("SERIES").is_ok() {
                series(&path, 60, 0.5, &["target_bps", "delay_bps", "acknowledged_bps", "trend_ms", "threshold_ms", "capacity_bps", "average_loss", "alr"]);
            }
        }
    }
}

#[test]
fn adhoc_s20() {
    for cc in ["gcc", "gcc:probing=off", "gcc-rmcat-02", "gcc-legacy"] {
        for backlog in [false, true] {
            let flow = Flow { backlog, mtu: 1472, initial: Rate::from_mbps(1), ..Flow::video(cc) };
            let path = steady::run(path::s20(), vec![flow], 120);
            show(&format!("{cc} s20 backlog {backlog}"), &path, 20.0, 20.6, 60.0, 120.0);
            let reach = (0..240).find(|&w| path.throughput(0, f64::from(w) * 0.5, f64::from(w) * 0.5 + 0.5) >= 18.0);
            println!("   reaches 18 at {:?}", reach.map(|w| f64::from(w) * 0.5));
            if std::env::var("SERIES").is_ok() {
                series(&path, 120, 1.0, &["target_bps", "delay_bps", "acknowledged_bps", "trend_ms", "threshold_ms", "capacity_bps", "average_loss", "alr"]);
            }
        }
    }
}

#[test]
fn adhoc_step() {
    let steps = RateProcess::steps(
        [(0, 20), (40, 5), (60, 20)].map(|(s, mbps)| (Time::from_secs(s), Rate::from_mbps(mbps))).to_vec(),
    )
    .unwrap();
    for cc in ["gcc", "gcc:loss_v2=off", "gcc-legacy", "gcc-rmcat-02"] {
        for backlog in [false, true] {
            let flow = Flow { backlog, mtu: 1472, ..Flow::video(cc) };
            let path = steady::run(LinkConfig { rate: steps.clone(), ..path::s20() }, vec![flow], 120);
            let reach = (600..1200).find(|&w| path.throughput(0, f64::from(w) * 0.1, f64::from(w) * 0.1 + 0.5) >= 16.0);
            let post = path::quantile(&path.delays(0, 55.0, 60.0), 0.5);
            let over: Vec<f64> = path.delivered(0).iter().filter(|d| (40.0..60.0).contains(&d.0) && d.1 > 2.0 * post).map(|d| d.0).collect();
            println!("{cc} backlog {backlog}: 80 % at {:?} s after; post-drop median {post:.1}, spike until {:?}, max {:.1}; max 75-110 {:.1} p50 {:.1}", reach.map(|w| f64::from(w) * 0.1 - 60.0 + 0.5), over.last().map(|x| x - 40.0),
                path::quantile(&path.delays(0, 40.0, 60.0), 1.0), path::quantile(&path.delays(0, 75.0, 110.0), 1.0), path::quantile(&path.delays(0, 75.0, 110.0), 0.5));
            if std::env::var("SERIES").is_ok() {
                series(&path, 120, 1.0, &["target_bps", "delay_bps", "acknowledged_bps", "trend_ms", "threshold_ms", "capacity_bps", "average_loss", "alr"]);
            }
        }
    }
}

#[test]
fn adhoc_long() {
    for cc in ["gcc", "gcc:probing=off", "gcc:loss_v2=off", "gcc-legacy"] {
        for backlog in [false, true] {
            let flow = Flow { backlog, mtu: 1472, initial: Rate::from_mbps(1), ..Flow::video(cc) };
            let path = steady::run(path::s20(), vec![flow], 400);
            show(&format!("{cc} s20 long backlog {backlog}"), &path, 20.0, 20.6, 60.0, 400.0);
            for k in 3..20 { let t = f64::from(k) * 20.0; show(&format!("   {t}"), &path, 20.0, 20.6, t, t + 20.0); }
        }
    }
}
