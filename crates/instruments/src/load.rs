//! One load of the virtual benchmarks by itself: flows of one controller through one bottleneck, run once.
//! `tools/peers` runs other simulators beside it.

use cc::{Options, REGISTRY, Setup};
use netsim::QueueSpec;
use units::{Rate, Span};

pub use crate::dumbbell::Hosts;
use crate::dumbbell::Load;
use crate::measure::{peak_memory, reset_peak_memory, resident_memory};
use crate::{Benchmark, Failure};

/// As many as `bench scale` runs.
const MOST_FLOWS: usize = 1000;
/// The fewest flows whose memory is told by the flow: of fewer it is mostly what they share.
const CROWD: usize = 100;
/// Packets that a report may tell of: receivers keep 1024 arrivals at most until they report them.
const MOST_TOGETHER: u32 = 1000;
/// Flows start over a second, and two thirds of a run are its steady state.
const SHORTEST: Span = Span::from_secs(3);
/// An hour of virtual time.
const LONGEST: Span = Span::from_secs(3600);

/// What runs, and through which bottleneck. Each way takes 20 ms.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The flows' controller, with options, as scenarios write it.
    pub controller: String,
    /// How many flows, 1 to 1000; they start evenly spread over a second.
    pub flows: usize,
    /// Frames of the encoder model at 60 a second, instead of a backlog.
    pub video: bool,
    /// What stands at the ends; others than the session's heed neither controller nor frames. Those that do
    /// nothing have a fixed window, which loses nothing where the queue holds one bandwidth-delay product.
    pub hosts: Hosts,
    /// Packets of a backlog that the session's receivers report together, 1 to 1000; sooner where 20 ms pass.
    pub report_every: u32,
    /// The bottleneck's rate, in bit/s of IP packets.
    pub rate: Rate,
    /// The bottleneck's queue, as scenarios write it.
    pub queue: String,
    /// How long it runs in virtual time, 3 s to an hour.
    pub duration: Span,
}

impl Default for Settings {
    /// The load of `bench sim`: a backlogged NewReno flow, 12 Mbit/s, 100 packets of queue, a minute.
    fn default() -> Settings {
        let Load { controller, flows, video, hosts, report_every, rate, queue, duration } =
            Load::of("newreno");
        let (controller, queue) = (controller.to_owned(), queue.to_owned());
        Settings { controller, flows, video, hosts, report_every, rate, queue, duration }
    }
}

impl Settings {
    /// What can't be run, by the flag of `framewire bench load` that says it.
    fn check(&self) -> Result<(), Failure> {
        let refuse = |flag: &str, what: String| Err(Failure::Input(format!("--{flag}: {what}")));
        let built = self.controller.parse().and_then(|options: Options| {
            cc::build(&options, &Setup::default())?;
            Ok(REGISTRY.iter().any(|entry| entry.name == options.name && entry.needs_frames))
        });
        match built {
            Err(error) => return refuse("controller", error.to_string()),
            Ok(true) if !self.video => {
                return refuse("controller", format!("{} needs frames; add --video", self.controller));
            }
            Ok(_) => {}
        }
        if let Err(error) = self.queue.parse::<QueueSpec>() {
            return refuse("queue", error.to_string());
        }
        if !(1..=MOST_FLOWS).contains(&self.flows) {
            return refuse("flows", format!("{} is not between 1 and {MOST_FLOWS}", self.flows));
        }
        if !(1..=MOST_TOGETHER).contains(&self.report_every) {
            return refuse(
                "report-every",
                format!("{} is not between 1 and {MOST_TOGETHER}", self.report_every),
            );
        }
        if self.rate == Rate::ZERO || self.rate > Rate::from_mbps(1_000_000) {
            return refuse("rate", "a rate lies between 1bit and 1000gbit".to_owned());
        }
        if !(SHORTEST..=LONGEST).contains(&self.duration) {
            return refuse("duration", format!("{} is not between {SHORTEST} and {LONGEST}", self.duration));
        }
        Ok(())
    }
}

/// Runs the load once, after three seconds of one such flow. Memory is what the run added to the process:
/// give it a process of its own. The first flow has the code read in, which is no flow's memory.
///
/// ```
/// use framewire_instruments::load::{Settings, run};
/// use units::Span;
///
/// let brief = Settings { duration: Span::from_secs(6), ..Settings::default() };
/// let measured = run(&brief)?;
/// assert!(measured.details["packets"].as_u64() > Some(5_000));
/// assert!(run(&Settings { flows: 0, ..brief }).is_err());
/// # Ok::<(), framewire_instruments::Failure>(())
/// ```
///
/// # Errors
/// [`Failure::Input`] that names the flag whose value can't be run.
pub fn run(settings: &Settings) -> Result<Benchmark, Failure> {
    settings.check()?;
    let Settings { controller, flows, video, hosts, report_every, rate, queue, duration } = settings;
    let load = Load {
        controller,
        flows: *flows,
        video: *video,
        hosts: *hosts,
        report_every: *report_every,
        rate: *rate,
        queue,
        duration: *duration,
    };
    let first = Load { video: *video, hosts: *hosts, report_every: *report_every, ..Load::of(controller) };
    Load { duration: SHORTEST, ..first }.once();
    reset_peak_memory();
    let before = resident_memory();
    let measured = load.once();
    let memory = peak_memory().zip(before).map(|(peak, before)| peak.saturating_sub(before));
    let mut details = serde_json::json!({
        "controller": controller, "flows": flows, "video": video, "hosts": hosts.name(), "report_every": report_every, "rate_bps": rate.as_bps(), "queue": queue,
        "duration_s": duration.as_secs_f64(), "memory_bytes": memory,
        "bytes_per_flow": memory.filter(|_| *flows >= CROWD).map(|bytes| bytes as f64 / *flows as f64),
    });
    crate::benchmark::extend(&mut details, measured.details());
    Ok(Benchmark::new("load", "packets/CPU s", measured.best().round(), details))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(settings: Settings) -> String {
        run(&settings).err().expect("it is refused").to_string()
    }

    #[test]
    fn what_cannot_run_is_refused_by_its_flag() {
        let of = Settings::default;
        let unknown = refusal(Settings { controller: "newrino".to_owned(), ..of() });
        assert!(unknown.starts_with("--controller: ") && unknown.contains("newreno"), "{unknown}");
        assert_eq!(refusal(Settings { flows: 1001, ..of() }), "--flows: 1001 is not between 1 and 1000");
        assert!(refusal(Settings { queue: "pond".to_owned(), ..of() }).starts_with("--queue: "));
        assert!(refusal(Settings { duration: Span::from_secs(1), ..of() }).starts_with("--duration: 1s "));
        assert!(refusal(Settings { rate: Rate::ZERO, ..of() }).starts_with("--rate: "));
        assert!(refusal(Settings { report_every: 0, ..of() }).starts_with("--report-every: 0 "));
    }

    #[test]
    fn a_load_runs_as_it_was_described() {
        let twenty = Settings {
            flows: 20,
            rate: Rate::from_mbps(24),
            queue: "droptail:200p".to_owned(),
            duration: Span::from_secs(9),
            ..Settings::default()
        };
        let details = run(&twenty).unwrap().details;
        // 24 Mbit/s are 2000 packets a second.
        let packets = details["packets"].as_u64().unwrap();
        assert!((15_000..=18_000).contains(&packets), "{packets}");
        assert!(details["bytes_per_flow"].is_null(), "twenty flows share most of their memory");
        assert_eq!((details["flows"].as_u64(), details["rounds"].as_u64()), (Some(20), Some(1)));
    }
}
