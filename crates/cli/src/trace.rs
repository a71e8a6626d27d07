//! `framewire trace`: what a link's trace is like.

use netsim::MahimahiTrace;
use serde_json::json;

use crate::args::TraceInfo;
use crate::failure::Failure;
use crate::output;
use crate::shipped;
use crate::table::Table;

/// Describes a trace.
pub fn info(args: &TraceInfo) -> Result<(), Failure> {
    let trace = MahimahiTrace::open(&shipped::or_shipped(&args.file)?).map_err(Failure::input)?;
    let seconds = trace.duration().as_secs_f64();
    let per_second = rates_per_second(&trace);
    let (least, most) =
        (per_second.iter().copied().fold(f64::MAX, f64::min), per_second.iter().copied().fold(0.0, f64::max));
    if args.format.json {
        output::json(&json!({
            "file": args.file, "duration_s": seconds, "opportunities": trace.millis().len(),
            "mean_bps": trace.mean_rate().as_bps(), "least_second_bps": least, "most_second_bps": most,
            "longest_gap_ms": trace.longest_gap().as_millis_f64(),
        }));
        return Ok(());
    }
    let mut table =
        Table::new(["trace", "length s", "mean Mbit/s", "least in 1 s", "most in 1 s", "longest gap ms"]);
    table.row([
        args.file.display().to_string(),
        format!("{seconds:.1}"),
        format!("{:.2}", trace.mean_rate().as_f64() / 1e6),
        format!("{:.2}", least / 1e6),
        format!("{:.2}", most / 1e6),
        format!("{:.0}", trace.longest_gap().as_millis_f64()),
    ]);
    print!("{table}");
    Ok(())
}

/// bit/s in each whole second of one pass; a shorter trace is one piece.
fn rates_per_second(trace: &MahimahiTrace) -> Vec<f64> {
    let bits = f64::from(netsim::OPPORTUNITY) * 8.0;
    let length_ms = trace.duration().as_nanos() as u64 / 1_000_000;
    if length_ms < 1000 {
        return vec![trace.mean_rate().as_f64()];
    }
    let mut counts = vec![0u32; (length_ms / 1000) as usize];
    for ms in trace.millis() {
        if let Some(count) = counts.get_mut((ms.saturating_sub(1) / 1000) as usize) {
            *count += 1;
        }
    }
    counts.into_iter().map(|count| f64::from(count) * bits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_counted_apart() {
        let millis = (1..=1000).chain((1010..=2000).step_by(10)).collect();
        let rates = rates_per_second(&MahimahiTrace::from_millis(millis).unwrap());
        assert_eq!(rates, [12_032_000.0, 1_203_200.0]);
    }
}
