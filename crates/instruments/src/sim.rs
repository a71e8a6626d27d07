//! The simulator's speed: one backlogged NewReno flow, 12 Mbit/s, 20 ms each way, 100-packet DropTail, 60 s.

use crate::Benchmark;
use crate::dumbbell::Load;

/// Rounds go on until they have used this many seconds of CPU time together.
const ENOUGH_S: f64 = 1.0;

/// Repeats the run until it has used a second of CPU time.
pub fn run() -> Benchmark {
    let measured = Load::of("newreno").measure(ENOUGH_S);
    Benchmark::new("sim", "packets/CPU s", measured.best().round(), measured.details())
}
