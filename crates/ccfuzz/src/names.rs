//! The names that a user's expression may use, with their values of a run. `docs/fuzzing.md` lists them.

use experiments::expression::{Expression, Named, Names};
use lab::run::Metered;

use crate::genome::Genome;
use crate::score::{fairness, longest_stall, mean, shares};
use crate::viewer::{Life, frame_delays, still_share, stills};

/// All names, in the order of the manual.
pub const NAMES: [&str; 17] = [
    "utilisation",
    "used",
    "rate_mbit",
    "longest_stall",
    "delay_ms",
    "propagation_ms",
    "loss",
    "timeouts",
    "fairness",
    "frame_delay_ms",
    "still",
    "stills",
    "cross_packets",
    "cross_dropped",
    "outages",
    "seconds",
    "flows",
];

/// Those that need frames, which only video has.
const OF_FRAMES: [&str; 3] = ["frame_delay_ms", "still", "stills"];

/// Whether an expression asks for frames.
pub fn needs_frames(expression: &Expression) -> bool {
    OF_FRAMES.iter().any(|name| expression.mentions(name))
}

/// The values of a run that an expression mentions.
pub fn values(
    expression: &Expression,
    metered: &Metered,
    life: Life,
    propagation: u32,
    genome: &Genome,
) -> Names {
    let flow = &metered.flows[0];
    let number = |of: f64| Named::Number(of);
    let window = metered.window.as_secs_f64();
    let value = |name: &str| match name {
        "utilisation" => number(mean(&shares(metered, flow, life.from))),
        "used" => Named::List(shares(metered, flow, life.from)),
        "rate_mbit" => {
            let windows = &flow.delivered[life.from..metered.capacity.len()];
            Named::List(windows.iter().map(|&bytes| bytes as f64 * 8.0 / window / 1e6).collect())
        }
        "longest_stall" => number(longest_stall(&shares(metered, flow, life.from)) as f64 * window),
        "delay_ms" => Named::List(flow.delays.iter().map(|&micros| f64::from(micros) / 1e3).collect()),
        "propagation_ms" => number(f64::from(propagation) / 1e3),
        "loss" => number(flow.link.loss()),
        "timeouts" => number(flow.tcp.map_or(0.0, |tcp| tcp.timeouts as f64)),
        "fairness" => Named::List(fairness(metered, life.from)),
        "frame_delay_ms" => {
            Named::List(frame_delays(metered, life).iter().map(|delay| delay * 1e3).collect())
        }
        "still" => number(still_share(metered, life)),
        "stills" => number(stills(metered, life).len() as f64),
        "cross_packets" => number(metered.cross.link.offered.packets as f64),
        "cross_dropped" => number(metered.cross.link.dropped.packets as f64),
        "outages" => number(genome.outages.len() as f64),
        "seconds" => number((life.end - life.start).as_secs_f64()),
        "flows" => number(metered.flows.len() as f64),
        _ => unreachable!("every name has a value"),
    };
    NAMES.into_iter().filter(|name| expression.mentions(name)).map(|name| (name, value(name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::run::FlowMeter;
    use units::{Span, Time};

    #[test]
    fn every_name_has_a_value_and_stands_in_the_manual() {
        let page = include_str!("../../../docs/fuzzing.md");
        let flow = FlowMeter { delivered: vec![62_500; 9], delays: vec![20_000], ..FlowMeter::default() };
        let cross = FlowMeter { delivered: vec![0; 9], ..FlowMeter::default() };
        let metered =
            Metered { window: Span::from_millis(500), flows: vec![flow], cross, capacity: vec![125_000; 8] };
        let life = Life { start: Time::from_secs(1), end: Time::from_secs(4), from: 2 };
        for name in NAMES {
            assert!(page.contains(&format!("| `{name}` |")), "docs/fuzzing.md lacks {name}");
            let wrapped = ["used", "rate_mbit", "delay_ms", "fairness", "frame_delay_ms"].contains(&name);
            let text = if wrapped { format!("count({name})") } else { name.to_owned() };
            let expression = Expression::parse(&text, &NAMES).unwrap();
            let values = values(&expression, &metered, life, 20_000, &Genome::default());
            let expected = match name {
                "utilisation" => 0.5,
                "used" | "rate_mbit" | "fairness" => 6.0,
                "delay_ms" | "flows" => 1.0,
                "propagation_ms" => 20.0,
                // No frame ever came: one long picture, or none.
                "still" | "stills" => 1.0,
                "seconds" => 3.0,
                _ => 0.0,
            };
            assert_eq!(expression.evaluate(&values), Ok(expected), "{name}");
        }
    }
}
