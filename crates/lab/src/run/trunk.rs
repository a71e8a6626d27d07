//! Runs whose overlays begin alike, each of which goes on from a snapshot of an earlier one.
//!
//! ```text
//! earlier   |----o----o----o----o----|     o: snapshots, at fixed instants
//! another             o~~~~o~~~~o~~~~|     from the last one before their overlays part
//! ```
//!
//! What comes of it is to the bit what a run from the beginning gives.

use std::sync::{Arc, Mutex, PoisonError};

use netsim::World;
use record::{Reentrant, Shared};
use units::{Span, Time};

use super::LabError;
use super::meter::{Meter, Metered, Metering, Overlay, Places};
use crate::scenario::Scenario;

/// Snapshots of a run. A run that leaves another does over again what came after the last of them, half a
/// stretch on average: 6 % of the whole. To take them is 2 to 3 % of the time of a TCP flow's run of 10 s at
/// 12 Mbit/s. With six to twenty-four of them searches took as long, within what rounds differ by.
const SNAPSHOTS: i64 = 8;
/// Bytes of a snapshot for each packet in a link: its place there and in the sender's lists, and its
/// datagram; about.
const A_PACKET: u64 = 256;
/// The other bytes of a snapshot, about.
const THE_REST: u64 = 8 << 10;

/// A run that others may branch off.
pub struct Trunk {
    overlay: Arc<Overlay>,
    places: Arc<Places>,
    /// Delays of each flow's packets, of the whole run: snapshots say how many of them there were.
    delays: Vec<Vec<u32>>,
    /// From the earliest on; those from before it left another run are that run's.
    snapshots: Vec<Arc<Snapshot>>,
}

/// A run at one instant.
struct Snapshot {
    at: Time,
    /// Under which it was taken.
    overlay: Arc<Overlay>,
    /// Behind a lock, for endpoints are not made to be looked at by several threads.
    world: Mutex<World>,
    /// What was heard by then, but for delays.
    heard: Meter,
    /// Delays heard by then, of each flow.
    delays: Vec<usize>,
    bytes: u64,
}

impl std::fmt::Debug for Trunk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at: Vec<Time> = self.snapshots.iter().map(|snapshot| snapshot.at).collect();
        f.debug_struct("Trunk").field("snapshots", &at).finish_non_exhaustive()
    }
}

impl Trunk {
    /// Whether no run can branch off it: one of its hosts or queues can't be copied.
    pub fn is_bare(&self) -> bool {
        self.snapshots.is_empty()
    }

    /// Bytes that it holds, about. What it has in common with others is counted in each.
    pub fn bytes(&self) -> u64 {
        let delays: usize = self.delays.iter().map(|delays| delays.len() * size_of::<u32>()).sum();
        delays as u64 + self.snapshots.iter().map(|snapshot| snapshot.bytes).sum::<u64>()
    }

    /// How many of its snapshots lie before its overlay and `other` part.
    fn shared_with(&self, other: &Overlay) -> usize {
        let parting = self.overlay.parts_from(other);
        self.snapshots.partition_point(|snapshot| snapshot.at < parting)
    }
}

impl Overlay {
    /// From when on the two may make a difference: no earlier than that.
    fn parts_from(&self, other: &Overlay) -> Time {
        let same = match (&self.service, &other.service) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other) || one == other,
            (one, other) => one.is_none() && other.is_none(),
        };
        if !same {
            return Time::ZERO;
        }
        let (ours, theirs) = differing(self.cross_micros(), other.cross_micros());
        let cross =
            ours.first().into_iter().chain(theirs.first()).map(|&at| Time::from_micros(u64::from(at)));
        let (ours, theirs) = differing(&self.outages, &other.outages);
        let outages = ours.iter().chain(theirs).map(|outage| outage.0);
        cross.chain(outages).min().unwrap_or(Time::MAX)
    }

    fn cross_micros(&self) -> &[u32] {
        self.cross.as_ref().map_or(&[], |cross| cross.micros())
    }
}

/// Both lists from where they differ on.
fn differing<'a, T: PartialEq>(one: &'a [T], other: &'a [T]) -> (&'a [T], &'a [T]) {
    let same = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    (&one[same..], &other[same..])
}

/// Runs `scenario` under `overlay` as [`meter`](super::meter) does, from the last snapshot of one of the
/// `trunks` at which it is the same run still, or from the beginning; and makes a trunk of it.
///
/// Trunks of another scenario or with another window are passed over.
///
/// # Errors
/// As [`meter`](super::meter).
pub fn meter_from(
    scenario: &Scenario,
    overlay: &Overlay,
    window: Span,
    trunks: &[&Trunk],
) -> Result<(Metered, Trunk), LabError> {
    // Every run has a source for what an overlay may bring later.
    let cross = Some(overlay.cross.clone().unwrap_or_default());
    let overlay = Arc::new(Overlay { cross, ..overlay.clone() });
    let right = |trunk: &&&Trunk| trunk.places.window == window && trunk.places.scenario == *scenario;
    let shared = trunks.iter().filter(right).map(|trunk| (trunk.shared_with(&overlay), trunk));
    let nearest = shared.filter(|(shared, _)| *shared > 0).max_by_key(|(shared, _)| *shared);
    let (mut metering, mut snapshots) = match nearest {
        Some((shared, trunk)) => (trunk.branch_off(&overlay, shared), trunk.snapshots[..shared].to_vec()),
        None => (Metering::new(scenario, &overlay, window, false)?, Vec::new()),
    };
    for step in snapshots.len() as i64 + 1..=SNAPSHOTS {
        metering.world.run_until(Time::ZERO + scenario.duration * step / (SNAPSHOTS + 1));
        let Some(snapshot) = Snapshot::of(&metering, &overlay) else { break };
        snapshots.push(Arc::new(snapshot));
    }
    metering.world.run_until(Time::ZERO + scenario.duration);
    let places = metering.places.clone();
    let metered = metering.finish();
    let delays = match snapshots.is_empty() {
        true => Vec::new(),
        false => metered.flows.iter().map(|flow| flow.delays.clone()).collect(),
    };
    Ok((metered, Trunk { overlay, places, delays, snapshots }))
}

impl Trunk {
    /// A run under `overlay` that goes on from the last of so many snapshots.
    fn branch_off(&self, overlay: &Overlay, shared: usize) -> Metering {
        let snapshot = &self.snapshots[shared - 1];
        let mut heard = snapshot.heard.clone();
        for (flow, (delays, &count)) in heard.flows.iter_mut().zip(self.delays.iter().zip(&snapshot.delays)) {
            // Some room for what is to come.
            flow.delays.reserve(delays.len());
            flow.delays.extend_from_slice(&delays[..count]);
        }
        let recorder = Arc::new(Reentrant::new(heard));
        let shared: Shared = recorder.clone();
        let copied = snapshot.world.lock().unwrap_or_else(PoisonError::into_inner).fork(Some(shared));
        let mut world = copied.expect("it was copied when the snapshot was taken");
        let source = self.places.varied.expect("every trunk has one");
        world.replace_listed(source, overlay.cross.clone().unwrap_or_default());
        if overlay.outages != snapshot.overlay.outages {
            let own = self.places.scenario.link.blackout.iter();
            let own = own.map(|&(from, to)| (Time::ZERO + from, Time::ZERO + to));
            let blackouts = own.chain(overlay.outages.iter().copied()).collect();
            world.replace_blackouts(self.places.bottleneck, blackouts);
        }
        Metering { world, recorder, places: self.places.clone() }
    }
}

impl Snapshot {
    /// What is now; none if the world can't be copied.
    fn of(metering: &Metering, overlay: &Arc<Overlay>) -> Option<Snapshot> {
        let recorder: Shared = metering.recorder.clone();
        let world = metering.world.fork(Some(recorder))?;
        let (heard, delays) = metering.recorder.with(Meter::without_delays);
        let (at, overlay) = (metering.world.now(), overlay.clone());
        let bytes = A_PACKET * world.inside() + THE_REST;
        Some(Snapshot { at, overlay, world: Mutex::new(world), heard, delays, bytes })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use netsim::Instants;
    use netsim::queue::REGISTRY as QUEUES;
    use proptest::prelude::*;

    use super::*;
    use crate::run::meter;

    const WINDOW: Span = Span::from_millis(500);

    fn scenario(cc: &str, stack: &str, queue: &str) -> Scenario {
        let text = format!(
            "duration = \"4s\"\n[link]\nrate = \"6mbit\"\ndelay = \"20ms\"\nqueue = \"{queue}\"\n\
             loss = \"bernoulli:0.2%\"\nblackout = [[\"3s\", \"3.05s\"]]\n\
             [[flow]]\ncc = \"{cc}\"\nsource = \"tcp\"\nstack = \"{stack}\"\nstart = \"0.3s\"\n\
             [[flow]]\ncc = \"cubic\"\nsource = \"tcp\"\nstart = \"1s\"\n\
             [[cross]]\nkind = \"poisson\"\nrate = \"500kbit\"\n"
        );
        Scenario::parse(&text, Path::new("x.toml")).unwrap()
    }

    fn overlay(cross: &[u32], outages: &[(u64, u64)]) -> Overlay {
        let cross = Instants::from_micros(cross.to_vec()).unwrap();
        let time = |ms| Time::from_millis(ms);
        let outages = outages.iter().map(|&(from, lasts)| (time(from), time(from + lasts))).collect();
        Overlay { service: None, cross: (!cross.micros().is_empty()).then(|| Arc::new(cross)), outages }
    }

    /// What one overlay becomes: cross packets and outages from an instant on, drawn anew.
    #[derive(Clone, Debug)]
    struct Change {
        from_ms: u32,
        cross: Vec<u32>,
        outages: Vec<(u64, u64)>,
    }

    fn change() -> impl Strategy<Value = Change> {
        let cross = prop::collection::vec(0..4_000_000_u32, 0..60);
        let outages = prop::collection::vec((0..4_000_u64, 1..100_u64), 0..3);
        (0..4_000_u32, cross, outages).prop_map(|(from_ms, mut cross, mut outages)| {
            cross.sort_unstable();
            outages.sort_unstable();
            Change { from_ms, cross, outages }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_run_from_a_snapshot_is_the_run_from_the_beginning(
            (cc, queue) in (0..cc::REGISTRY.len(), 0..QUEUES.len()),
            stack in prop_oneof![Just("linux"), Just("ns3")],
            changes in prop::collection::vec(change(), 2..6),
        ) {
            let (cc, queue) = (cc::REGISTRY[cc].name, QUEUES[queue].examples().next().unwrap());
            let scenario = scenario(cc, stack, queue);
            let (mut cross, mut outages) = (Vec::<u32>::new(), Vec::<(u64, u64)>::new());
            let mut trunks: Vec<Trunk> = Vec::new();
            for change in changes {
                let kept = |ms: u64| ms < u64::from(change.from_ms);
                cross.retain(|at| kept(u64::from(*at) / 1_000));
                cross.extend(change.cross.iter().filter(|at| !kept(u64::from(**at) / 1_000)));
                outages.retain(|outage| kept(outage.0));
                outages.extend(change.outages.iter().filter(|outage| !kept(outage.0)));
                let overlay = overlay(&cross, &outages);
                let near: Vec<&Trunk> = trunks.iter().collect();
                let (metered, trunk) = meter_from(&scenario, &overlay, WINDOW, &near).unwrap();
                prop_assert_eq!(metered, meter(&scenario, &overlay, WINDOW).unwrap(), "{} {}", cc, queue);
                prop_assert!(!trunk.is_bare(), "{} behind {} can't be copied", cc, queue);
                trunks.push(trunk);
            }
        }
    }

    #[test]
    fn a_run_goes_on_from_the_last_snapshot_before_it_parts() {
        let scenario = scenario("bbr", "linux", "droptail:50p");
        let run = |cross: &[u32], outages: &[(u64, u64)], near: &[&Trunk]| {
            let overlay = overlay(cross, outages);
            let shared = near.iter().map(|trunk| trunk.shared_with(&overlay)).max().unwrap_or(0);
            let (metered, trunk) = meter_from(&scenario, &overlay, WINDOW, near).unwrap();
            assert_eq!(metered, meter(&scenario, &overlay, WINDOW).unwrap());
            (shared, trunk)
        };
        // Snapshots are 4/9 s apart.
        let first = run(&[], &[], &[]).1;
        assert_eq!(run(&[], &[], &[&first]).0, 8);
        let (shared, dark) = run(&[], &[(2_000, 90)], &[&first]);
        assert_eq!(shared, 4);
        // From a snapshot that is the first one's, which knows nothing of the outage.
        assert_eq!(run(&[1_000_000; 9], &[(2_000, 90)], &[&dark]).0, 2);
        let (shared, busy) = run(&[3_500_000; 30], &[(2_000, 90)], &[&first, &dark]);
        assert_eq!(shared, 7);
        // Without the outage again.
        assert_eq!(run(&[3_500_000; 30], &[], &[&busy]).0, 4);
        let service = netsim::MahimahiTrace::from_millis((1..4_000).collect()).unwrap();
        let traced = Overlay { service: Some(Arc::new(service)), ..Overlay::default() };
        assert_eq!(first.shared_with(&traced), 0, "another link from the beginning on");
        let other = Scenario { seed: 2, ..scenario.clone() };
        let (metered, _) = meter_from(&other, &Overlay::default(), WINDOW, &[&first]).unwrap();
        assert_eq!(
            metered,
            meter(&other, &Overlay::default(), WINDOW).unwrap(),
            "a trunk of another scenario"
        );
    }

    #[test]
    fn what_cannot_be_copied_is_run_from_the_beginning() {
        let text = "duration = \"2s\"\n[link]\nrate = \"3mbit\"\ndelay = \"20ms\"\n[[flow]]\ncc = \"sqp\"\n";
        let scenario = Scenario::parse(text, Path::new("x.toml")).unwrap();
        let (metered, trunk) = meter_from(&scenario, &Overlay::default(), WINDOW, &[]).unwrap();
        assert!(trunk.is_bare() && trunk.bytes() == 0);
        let (again, _) = meter_from(&scenario, &overlay(&[], &[]), WINDOW, &[&trunk]).unwrap();
        assert_eq!(metered, again);
        assert_eq!(metered, meter(&scenario, &Overlay::default(), WINDOW).unwrap());
    }
}
