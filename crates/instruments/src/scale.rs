//! How cost grows: with flows, with the rate, and memory with flows.

use serde_json::{Value, json};
use units::Rate;

use crate::benchmark::extend;
use crate::dumbbell::{Load, Measurement};
use crate::measure::{give_back_free_memory, peak_memory, reset_peak_memory, resident_memory};
use crate::{Benchmark, Progress};

/// Rounds of a load go on until they have used this many seconds of CPU time together.
const ENOUGH_S: f64 = 1.0;
/// Populations of the gigabit link, ascending: a process's peak memory never falls.
const POPULATIONS: [usize; 3] = [100, 500, 1000];

/// One flow of the round-trip time, 40 ms, and a queue of as much.
const CUBIC: Load<'_> = Load { queue: "droptail:40ms", ..Load::of("cubic") };

/// A population's round.
struct Crowd {
    flows: usize,
    packets: u64,
    cpu_s: f64,
    /// Above what the process held before the first population.
    memory: Option<u64>,
}

impl Crowd {
    fn run(flows: usize, before: Option<u64>) -> Crowd {
        let rate = Rate::from_mbps(1000);
        let round = Load { flows, rate, queue: "droptail:100ms", ..Load::of("newreno") }.round();
        let memory = peak_memory().zip(before).map(|(peak, before)| peak.saturating_sub(before));
        Crowd { flows, packets: round.packets, cpu_s: round.cpu_s, memory }
    }

    fn speed(&self) -> f64 {
        self.packets as f64 / self.cpu_s
    }

    fn row(&self) -> Value {
        json!({ "flows": self.flows, "packets": self.packets, "cpu_s": self.cpu_s,
                "packets_per_cpu_s": self.speed().round(), "memory_bytes": self.memory })
    }
}

/// Bytes that each flow from `few` to `many` added.
fn bytes_per_flow(few: &Crowd, many: &Crowd) -> Option<f64> {
    let (less, more) = few.memory.zip(many.memory)?;
    Some((more as f64 - less as f64) / (many.flows - few.flows) as f64)
}

/// Runs the pairs first: in what a thousand flows leave of the heap, ten flows lie scattered, and cost a
/// tenth more than they do in a process of their own.
pub fn run(progress: &dyn Progress) -> Benchmark {
    let bar = progress.begin(POPULATIONS.len() as u64 + 4, "scale");
    let measure = |load: Load<'static>| -> Measurement<'static> {
        bar.advance();
        load.measure(ENOUGH_S)
    };
    let one = Load { queue: "droptail:100ms", ..Load::of("newreno") };
    let (one, ten) = (measure(one), measure(Load { flows: 10, rate: Rate::from_mbps(120), ..one }));
    let (slow, fast) = (measure(CUBIC), measure(Load { rate: Rate::from_mbps(1000), ..CUBIC }));
    give_back_free_memory();
    reset_peak_memory();
    let before = resident_memory();
    let crowds = POPULATIONS.map(|flows| {
        bar.advance();
        Crowd::run(flows, before)
    });
    drop(bar);
    let [few, some, many] = &crowds;
    let details = json!({
        "ten_flows_cost": ten.cost_in(&one),
        "gigabit_cost": fast.cost_in(&slow),
        "bytes_per_flow": { "100_to_500": bytes_per_flow(few, some), "500_to_1000": bytes_per_flow(some, many) },
        "populations": crowds.iter().map(Crowd::row).collect::<Vec<_>>(),
        "pairs": [row("newreno 12 Mbit/s", &one), row("10 newreno 120 Mbit/s", &ten),
                  row("cubic 12 Mbit/s", &slow), row("cubic 1 Gbit/s", &fast)],
    });
    Benchmark::new("scale", "packets/CPU s with 1000 flows", many.speed().round(), details)
}

fn row(load: &str, measured: &Measurement<'_>) -> Value {
    let mut row = json!({ "load": load });
    extend(&mut row, measured.details());
    row
}
