use super::super::testing::{Outcome, every_millisecond, serve};
use super::*;
use units::Ecn;

const SERVICE: Span = Span::from_micros(1_250);

/// A PIE that keeps probability and delay (ms) of every update.
struct Logged<Draw> {
    pie: Pie<Draw>,
    log: Vec<(f64, f64)>,
}

impl<Draw: FnMut() -> f64> Logged<Draw> {
    fn look(&mut self, now: Time) {
        while self.pie.next_update <= now {
            self.pie.catch_up(self.pie.next_update);
            self.log.push((self.pie.control.probability, self.pie.control.delay.as_millis_f64()));
        }
    }
}

impl<Draw: FnMut() -> f64 + Send + Clone + 'static> Queue for Logged<Draw> {
    fn enqueue(&mut self, now: Time, packet: Packet, drops: &mut Drops) -> Result<(), Dropped> {
        self.look(now);
        self.pie.enqueue(now, packet, drops)
    }
    fn dequeue(&mut self, now: Time, drops: &mut Drops) -> Option<Packet> {
        self.look(now);
        self.pie.dequeue(now, drops)
    }
    fn backlog(&self) -> Backlog {
        self.pie.backlog()
    }
}

/// 1.25 times what the server can do for 3 s; the n-th draw is the fractional part of n times the golden
/// ratio. Returns what happened, and probability (six digits) and delay of updates 20, 40, ... 100.
fn overload(preset: Preset, arrivals: impl Iterator<Item = Packet>) -> (Outcome, Vec<(f64, f64)>) {
    let mut n = 0u32;
    let golden = move || {
        n += 1;
        (f64::from(n) * 0.618_033_988_749_894_9).fract()
    };
    let mut logged = Logged { pie: Pie::new(preset, golden), log: Vec::new() };
    let outcome = serve(&mut logged, arrivals, SERVICE);
    let rounded = |&(p, delay): &(f64, f64)| (format!("{p:.5e}").parse().unwrap(), delay);
    (outcome, logged.log.iter().skip(19).step_by(20).take(5).map(rounded).collect())
}

fn unlimited(derandomise: bool) -> Preset {
    Preset { derandomise, limit: Limit::NONE, ..RFC8033_PRESET }
}

/// The specification's script counts the burst in floating point, where ten times 15 ms leave 1.4e-17 s of
/// 150 ms, and so a burst lasts one update longer there. One nanosecond more does the same to whole numbers.
fn as_in_floating_point(preset: Preset) -> Preset {
    let burst = preset.parameters.burst + Span::from_nanos(1);
    Preset { parameters: Parameters { burst, ..preset.parameters }, ..preset }
}

fn first_drops(outcome: &Outcome) -> Vec<f64> {
    outcome.drops.iter().take(6).map(|drop| drop.0.as_millis_f64()).collect()
}

#[test]
fn p6_overload_derandomised() {
    let (outcome, updates) = overload(as_in_floating_point(unlimited(true)), every_millisecond(3_000));
    assert_eq!(outcome.drops.len(), 597);
    assert_eq!(first_drops(&outcome), [374.0, 436.0, 465.0, 486.0, 510.0, 532.0]);
    let expected =
        [(0.00838586, 59.75), (0.161644, 116.75), (0.507769, 148.75), (0.722894, 92.75), (0.667019, 3.75)];
    assert_eq!(updates, expected);
}

#[test]
fn p6_overload_plain() {
    let (outcome, updates) = overload(as_in_floating_point(unlimited(false)), every_millisecond(3_000));
    assert_eq!(outcome.drops.len(), 597);
    assert_eq!(first_drops(&outcome), [342.0, 376.0, 397.0, 410.0, 431.0, 444.0]);
    let probabilities: Vec<_> = updates.iter().map(|update| update.0).collect();
    assert_eq!(probabilities, [0.00838586, 0.146534, 0.427159, 0.403159, 0.374909]);
}

/// The script's figures with its burst counted in whole nanoseconds.
#[test]
fn p6_overload_with_an_exact_burst() {
    let (outcome, updates) = overload(unlimited(true), every_millisecond(3_000));
    assert_eq!(first_drops(&outcome), [373.0, 435.0, 472.0, 497.0, 520.0, 537.0]);
    assert_eq!((outcome.drops.len(), updates[4]), (597, (0.673019, 3.75)));
    let (outcome, updates) = overload(unlimited(false), every_millisecond(3_000));
    assert_eq!(first_drops(&outcome), [382.0, 416.0, 450.0, 471.0, 484.0, 497.0]);
    assert_eq!((outcome.drops.len(), updates[4]), (597, (0.376034, 3.75)));
}

#[test]
fn capable_packets_are_marked_up_to_ten_percent() {
    let preset = Preset { ecn: true, ..unlimited(false) };
    let capable = every_millisecond(3_000).map(|packet| Packet { ecn: Ecn::Ect0, ..packet });
    let (outcome, _) = overload(preset, capable);
    let marked = outcome.out.iter().filter(|(_, packet)| packet.ecn == Ecn::Ce).count();
    assert!(marked > 5, "{marked}");
    // The overload does not end by marking: beyond 10% even capable packets are dropped.
    assert!(outcome.drops[0].0 > Time::from_millis(374) && outcome.drops.len() > 500);
}

#[test]
fn an_idle_queue_catches_up_at_once() {
    let golden = || 0.5;
    let mut pie = Pie::new(RFC8033_PRESET, golden);
    // 2^50 ns are 13 days or 75 million updates.
    let late = Time::from_nanos(1 << 50);
    pie.catch_up(late);
    assert!(pie.next_update > late && pie.next_update - late <= RFC8033_PRESET.parameters.update);
    assert_eq!((pie.next_update - Time::ZERO).as_nanos() % 15_000_000, 0);
}

#[test]
fn departure_rates_make_the_delay() {
    let mut pie = Pie::new(Preset { limit: Limit::NONE, ..LINUX_OLD_PRESET }, || 0.999);
    serve(&mut pie, every_millisecond(400), SERVICE);
    assert!(pie.departures.is_known());
    // 9.6 Mbit/s are 19.66 units, 22 with the packet that opens the first measurement, where they stay.
    assert_eq!(pie.departures.time_of(1_500_000), Span::from_nanos(1_500_000 * 256 / 22 * 64));
}

/// A packet of 1500 bytes enters and one leaves every `SERVICE`, `count` times, with `behind` waiting; what
/// is left of the burst (us).
fn hold(
    pie: &mut Pie<impl FnMut() -> f64 + Send + Clone + 'static>,
    from: Time,
    behind: u32,
    count: u32,
) -> Vec<i64> {
    let mut drops = Drops::new();
    let mut arrive = |pie: &mut Pie<_>, now| {
        pie.enqueue(now, Packet::bare(0, 1500, now), &mut drops).expect("the burst is not over");
    };
    (0..behind).for_each(|_| arrive(pie, from));
    let left = (1..=i64::from(count)).map(|k| {
        let now = from + SERVICE * k;
        arrive(pie, now);
        pie.dequeue(now, &mut Drops::new());
        pie.control.burst.as_micros()
    });
    left.collect()
}

#[test]
fn linux_spends_its_burst_while_it_measures() {
    let preset = Preset { limit: Limit::NONE, ..LINUX_OLD_PRESET };
    // Six packets of 1500 bytes wait after each departure: 9000 bytes, too few to measure. An RFC's burst
    // would be over after 100 ms.
    let mut pie = Pie::new(preset, || 0.0);
    assert!(hold(&mut pie, Time::ZERO, 6, 400).iter().all(|&left| left == 100_000));
    // With seven a measurement takes seven packets: six times 1.25 ms the first, for the packet that opens it
    // counts, then seven times.
    let mut pie = Pie::new(preset, || 0.0);
    let left = hold(&mut pie, Time::ZERO, 7, 21);
    let expected = [(0, 100_000), (5, 100_000), (6, 92_500), (12, 92_500), (13, 83_750), (20, 75_000)];
    expected.iter().for_each(|&(at, micros)| assert_eq!(left[at], micros, "departure {at}"));
}

#[test]
fn two_full_packets_suffer_in_linux_only() {
    for (preset, suffers) in [(RFC8033_PRESET, false), (LINUX_PRESET, true), (LINUX_OLD_PRESET, true)] {
        let mut pie = Pie::new(Preset { derandomise: false, latest: false, ..preset }, || 0.0);
        (0..2).for_each(|id| pie.packets.push(Packet { id, ..Packet::bare(0, 1500, Time::ZERO) }));
        pie.control = Control { probability: 0.5, delay: Span::from_millis(50), burst: Span::ZERO };
        assert_eq!(pie.hits(1500), suffers);
    }
}
