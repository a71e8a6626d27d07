//! What a scenario offers its first flow: the numbers that invariants and exclusion rules are made of.

use netsim::{Loss, RateProcess};
use session::SenderConfig;
use units::{Bytes, Rate, Span, Time};

use super::invariants::{RATE_BACK, RATE_ROUND_TRIPS};
use lab::run::{self, LabError, Overlay};
use lab::scenario::{CrossKind, Scenario};

/// Faults closer together than this are one: a burst of losses is made of many short blackouts.
const ONE_FAULT: Span = Span::from_secs(1);
/// A link is back when it carries this share of what it carried before.
const BACK: f64 = 0.9;

/// What a scenario offers its first flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Terms {
    /// When the flow starts.
    pub start: Time,
    /// When the flow or the run ends.
    pub end: Time,
    /// Propagation there and back.
    pub rtt: Span,
    /// The bottleneck's usual rate: the constant one, the fastest step, the mean of a trace.
    pub rate: Rate,
    /// What traffic that listens to nobody takes of it.
    pub cross: Rate,
    /// Flows that share it, this one included.
    pub flows: u32,
    /// The rate never changes and nothing goes dark.
    pub steady: bool,
    /// The flow's least rate.
    pub least: Rate,
    /// The flow's highest rate.
    pub most: Rate,
    /// Share of packets lost by chance, there and (of feedback) not counted.
    pub loss: f64,
    /// How long after its capture a frame is worth showing.
    pub deadline: Span,
    /// Time between frames.
    pub interval: Span,
    /// Longest datagram, in bytes of UDP payload.
    pub mtu: u32,
    /// What the queue holds at most, in bytes; none where that is not known.
    pub room: Option<u64>,
    /// The same in packets, where that is its limit.
    pub places: Option<u32>,
    /// From when to when the link is dark, loses in bursts, or is slower than before.
    pub faults: Vec<(Time, Time)>,
}

impl Terms {
    /// Those of a scenario.
    ///
    /// # Errors
    /// [`LabError::Scenario`] if its link's trace can't be read, or its first flow sends no video.
    pub fn of(scenario: &Scenario) -> Result<Terms, LabError> {
        let (flow, link) = (&scenario.flows[0], &scenario.link);
        let Some(video) = flow.video() else {
            let what = "the grid asks what a viewer of the first flow sees; give it source = \"video\"";
            return Err(scenario.error("flow[1].source", what).into());
        };
        let config = run::bottleneck(scenario, "the grid")?;
        let rate = match &config.rate {
            RateProcess::Infinite => Rate::MAX,
            process => config.reference.unwrap_or_else(|| process.reference()),
        };
        let (ahead, back) = (scenario.delay_ahead(0), scenario.delay_back(0));
        let cross = scenario.cross.iter().filter(|cross| cross.kind != CrossKind::Listed);
        let cross = cross.filter_map(|cross| cross.rate).map(Rate::as_bps).sum();
        let (room, places) = limits(&config.queue.to_string(), rate);
        let rtt = ahead + back + flow.extra_delay * 2;
        let fps = video.encoder.fps.unwrap_or(60.0);
        Ok(Terms {
            start: Time::ZERO + flow.start,
            end: Time::ZERO + flow.stop.unwrap_or(scenario.duration).min(scenario.duration),
            rtt,
            rate,
            cross: Rate::from_bps(cross),
            flows: scenario.flows.len() as u32,
            steady: link.steps.len() <= 1 && link.trace.is_none() && link.blackout.is_empty(),
            least: flow.least(),
            most: flow.max,
            loss: match link.loss.0 {
                Loss::None => 0.0,
                Loss::Bernoulli(share) => share,
                // The long-run mean of the two states.
                Loss::GilbertElliott(ge) => (ge.p * (1.0 - ge.h) + ge.r * (1.0 - ge.k)) / (ge.p + ge.r),
            },
            deadline: video.deadline.unwrap_or_else(|| deadline(rtt)),
            interval: Span::from_secs_f64(1.0 / fps),
            mtu: video.session.mtu.get() as u32,
            room,
            places,
            faults: faults(scenario),
        })
    }

    /// The same terms under an overlay: its outages and service make the link unsteady, its packets contest
    /// it.
    pub fn under(mut self, scenario: &Scenario, overlay: &Overlay) -> Terms {
        self.steady &= overlay.outages.is_empty() && overlay.service.is_none();
        if let Some(listed) = &overlay.cross {
            let bytes = Bytes::new(listed.micros().len() as u64 * u64::from(netsim::DEFAULT_SIZE));
            self.cross =
                Rate::from_bps(self.cross.as_bps() + Rate::average(bytes, scenario.duration).as_bps());
        }
        self
    }

    /// What is left of the link for the flow: cross traffic off, and a fair share among flows.
    pub fn available(&self) -> Rate {
        Rate::from_bps(self.rate.as_bps().saturating_sub(self.cross.as_bps()) / u64::from(self.flows))
    }

    /// The flow has the link to itself.
    pub fn is_alone(&self) -> bool {
        self.flows == 1 && self.cross == Rate::ZERO
    }

    /// Some other flow fills the queue by its own congestion control.
    pub fn is_beside_tcp(&self) -> bool {
        self.flows > 1
    }

    /// The faults that begin while the flow is on and end early enough in the run to be recovered from.
    pub fn recoverable(&self) -> impl Iterator<Item = (Time, Time)> + '_ {
        let needed = RATE_BACK + self.rtt * RATE_ROUND_TRIPS;
        let counts = move |&(from, to): &(Time, Time)| from > self.start && to + needed <= self.end;
        self.faults.iter().copied().filter(counts)
    }

    /// How long the queue takes to drain when it is full.
    pub fn drain(&self) -> Span {
        self.room.map_or(Span::ZERO, |room| self.rate.time_to_send(Bytes::new(room)))
    }
}

/// How long a frame is worth showing where nothing is said: what suits the path, as the session has it.
fn deadline(rtt: Span) -> Span {
    SenderConfig::DEADLINE.max(rtt * SenderConfig::REPAIR_TRIPS)
}

/// The limit of a queue that drops at its tail or head, in bytes, and in packets if it counts those;
/// `NAME:LIMIT,LIMIT`.
fn limits(queue: &str, rate: Rate) -> (Option<u64>, Option<u32>) {
    let (name, arguments) = queue.split_once(':').unwrap_or((queue, ""));
    if !["droptail", "drophead"].contains(&name) {
        return (None, None);
    }
    let (mut room, mut places) = (None::<u64>, None::<u32>);
    for limit in arguments.split(',').map(str::trim) {
        let limit = limit.strip_prefix("limit=").unwrap_or(limit);
        if let Some(packets) = limit.strip_suffix('p').and_then(|number| number.trim().parse().ok()) {
            places = Some(places.map_or(packets, |places| places.min(packets)));
            continue;
        }
        let of_time = |span: Span| netsim::queue::Limit::time(span, rate).bytes;
        let bytes = limit.parse().map(Bytes::get).ok().or_else(|| limit.parse().ok().map(of_time));
        room = bytes.map(|bytes| room.map_or(bytes, |room| room.min(bytes))).or(room);
    }
    // A queue of so many packets holds at most as many full ones.
    let full = places.map(|places| u64::from(places) * 1500);
    (room.into_iter().chain(full).min(), places)
}

/// Blackouts, and steps down that come back.
fn faults(scenario: &Scenario) -> Vec<(Time, Time)> {
    let at = |span: Span| Time::ZERO + span;
    let mut spans: Vec<(Time, Time)> =
        scenario.link.blackout.iter().map(|&(from, to)| (at(from), at(to))).collect();
    let steps = &scenario.link.steps;
    let mut index = 1;
    while index < steps.len() {
        let before = steps[index - 1].1;
        if steps[index].1 < before {
            let back = steps[index..].iter().position(|(_, rate)| *rate >= before.mul_f64(BACK));
            let Some(back) = back.map(|offset| index + offset) else { break };
            spans.push((at(steps[index].0), at(steps[back].0)));
            index = back;
        }
        index += 1;
    }
    spans.sort_unstable();
    let mut merged: Vec<(Time, Time)> = Vec::new();
    for (from, to) in spans {
        match merged.last_mut() {
            Some(last) if from - last.1 < ONE_FAULT => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn terms(text: &str) -> Terms {
        Terms::of(&Scenario::parse(text, Path::new("x.toml")).unwrap()).unwrap()
    }

    #[test]
    fn a_scenario_in_numbers() {
        let found = terms(
            "duration = \"30s\"\n[link]\nrate = \"8mbit\"\ndelay = \"30ms\"\nqueue = \"droptail:200ms\"\nloss = \"2%\"\n\
             [feedback]\ndelay = \"50ms\"\n[[flow]]\ncc = \"sqp\"\nextra_delay = \"10ms\"\ndeadline = \"1s\"\n\
             [flow.encoder]\nfps = 25.0\n[[cross]]\nkind = \"cbr\"\nrate = \"3mbit\"\n",
        );
        assert_eq!((found.rtt, found.loss), (Span::from_millis(100), 0.02));
        assert_eq!((found.available(), found.room), (Rate::from_mbps(5), Some(200_000)));
        assert_eq!((found.interval, found.drain()), (Span::from_millis(40), Span::from_millis(200)));
        assert!(found.steady && !found.is_alone() && !found.is_beside_tcp());
    }

    #[test]
    fn queues_in_packets_bytes_and_time() {
        let rate = Rate::from_mbps(12);
        assert_eq!(limits("droptail:10p", rate), (Some(15_000), Some(10)));
        assert_eq!(limits("droptail:100p,10ms", rate), (Some(15_000), Some(100)));
        assert_eq!(limits("drophead:limit=20kB", rate), (Some(20_000), None));
        assert_eq!(
            limits("droptail:1ms", Rate::from_kbps(64)),
            (Some(1_500), None),
            "never less than a packet"
        );
        assert_eq!(limits("codel:300p", rate), (None, None));
    }

    #[test]
    fn faults_are_blackouts_and_steps_that_come_back() {
        let flow = "[[flow]]\ncc = \"sqp\"\n";
        let secs = |from, to| (Time::from_secs(from), Time::from_secs(to));
        let found = terms(&format!(
            "duration = \"60s\"\n[link]\ndelay = \"20ms\"\nsteps = [[\"0s\", \"8mbit\"], [\"10s\", \"4mbit\"], [\"12s\", \"2mbit\"], \
             [\"20s\", \"8mbit\"], [\"40s\", \"1mbit\"]]\nblackout = [[\"30s\", \"31s\"], [\"31.5s\", \"32s\"]]\n{flow}"
        ));
        assert_eq!(found.faults, [secs(10, 20), secs(30, 32)], "the last step never comes back");
        assert!(!found.steady && found.rate == Rate::from_mbps(8));
    }
}
