//! The figures of docs/reproduction.md, section "Against another GCC".

use crosscheck::{Estimator, Load, Ours, Path, Theirs, Trace, run};
use units::Span;

fn path(capacity: fn(f64) -> f64) -> Path {
    Path { capacity, one_way: Span::from_millis(20), jitter: Span::from_millis(2), loss: 0.0 }
}

/// Ours, theirs with the classic throughput estimate, theirs as it is: the same packets for all.
fn replay(path: &Path, rate: fn(f64) -> f64, start: f64, seconds: u64) -> [Trace; 3] {
    let mut ours = Ours::new("gcc:probing=off", start);
    let (mut classic, mut theirs) = (Theirs::new(start, false), Theirs::new(start, true));
    let estimators: &mut [&mut dyn Estimator] = &mut [&mut ours, &mut classic, &mut theirs];
    run(path, Load::Script(rate), estimators, seconds).try_into().expect("three")
}

fn show(name: &str, traces: &[Trace; 3], at: &[f64]) {
    for (who, trace) in ["ours", "classic", "theirs"].iter().zip(traces) {
        let series: Vec<_> = at.iter().map(|at| (trace.at(*at) * 1e3).round() / 1e3).collect();
        let cuts: Vec<_> = trace.cuts().iter().take(8).map(|c| format!("{:.2}: {:.3}", c.0, c.1)).collect();
        println!("{name} {who}: {series:?}, {} cuts: {cuts:?}", trace.cuts().len());
    }
}

#[test]
fn steady() {
    let traces = replay(&path(|_| 10e6), |_| 2e6, 1e6, 40);
    show("steady", &traces, &[1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0]);
}

#[test]
fn drop() {
    let capacity = |at| if at < 20.0 { 3e6 } else { 0.5e6 };
    let rate = |at| if at < 20.4 { 2e6 } else { 0.3e6 };
    let traces = replay(&path(capacity), rate, 2e6, 40);
    show("drop", &traces, &[10.0, 20.0, 20.2, 20.4, 20.6, 20.8, 21.0, 22.0, 24.0, 30.0, 40.0]);
}

#[test]
fn ramp() {
    for (name, capacity) in [
        ("ramp 1 %", (|at| if at < 10.0 { 3e6 } else { 1.98e6 }) as fn(f64) -> f64),
        ("ramp 2 %", |at| if at < 10.0 { 3e6 } else { 1.96e6 }),
        ("ramp 3 %", |at| if at < 10.0 { 3e6 } else { 1.94e6 }),
        ("ramp 5 %", |at| if at < 10.0 { 3e6 } else { 1.90e6 }),
        ("ramp 10 %", |at| if at < 10.0 { 3e6 } else { 1.80e6 }),
        ("ramp 20 %", |at| if at < 10.0 { 3e6 } else { 1.60e6 }),
    ] {
        let traces = replay(&path(capacity), |_| 2e6, 2e6, 30);
        show(name, &traces, &[10.0, 11.0, 12.0, 13.0, 15.0, 20.0, 30.0]);
    }
}

#[test]
fn loss() {
    let lossy = Path { loss: 0.05, ..path(|_| 10e6) };
    let traces = replay(&lossy, |_| 2e6, 2e6, 60);
    show("loss", &traces, &[2.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
}

#[test]
fn closed() {
    for (name, capacity) in
        [("2 Mbit/s", (|_| 2e6) as fn(f64) -> f64), ("2, 0.5, 2", |at| if (40.0..80.0).contains(&at) { 0.5e6 } else { 2e6 })]
    {
        let mut ours = Ours::new("gcc:probing=off", 1e6);
        let a = run(&path(capacity), Load::Target(20e6), &mut [&mut ours], 120).remove(0);
        let mut classic = Theirs::new(1e6, false);
        let b = run(&path(capacity), Load::Target(20e6), &mut [&mut classic], 120).remove(0);
        let mut theirs = Theirs::new(1e6, true);
        let c = run(&path(capacity), Load::Target(20e6), &mut [&mut theirs], 120).remove(0);
        let traces = [a, b, c];
        show(name, &traces, &[5.0, 10.0, 20.0, 30.0, 40.0, 41.0, 42.0, 44.0, 60.0, 80.0, 90.0, 100.0, 120.0]);
        for t in &traces {
            println!("  {:.3} {:.1} ms | {:.3} {:.1} ms | {:.3} {:.1} ms", t.mean(20.0, 40.0), t.mean_queue(20.0, 40.0), t.mean(50.0, 80.0), t.mean_queue(50.0, 80.0), t.mean(100.0, 120.0), t.mean_queue(100.0, 120.0));
        }
    }
}
