//! What formulas ask of uploads (Devdeep Ray's thesis, chapter 3): Vantage and the ways it is held against,
//! over a recorded uplink, as the thesis emulates them.
//!
//! | function | gives |
//! |---|---|
//! | `upload(style, trace, how)` | numbers and lists of one upload of 150 s, by name: see [`found`] |
//! | `upload_toy()` | the thesis' example, planned: see [`toy`] |
//! | `uplink_swings(trace, window)` | how a recorded uplink varies, over windows of so many ms: see [`swings`] |
//!
//! ```text
//!   clip's black-box model -> sizes to SSIM        uplink: what a millisecond carries, frames of now first
//!          frame 1/30 s -> Engine (or a baseline) -> two queues -> endpoint: best version by arrival
//! ```
//!
//! Deviation: frames are not coded, but have the quality that Prism's model of the clip's codings gives a
//! predicted frame of this size after the one before it ([`prism::Model`]); of frames sent again the first of
//! a run is a key frame. A frame counts at once if it is there half a second after its capture, which the
//! thesis leaves open.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use lab::metrics::{SQI, SqiConstants, sqi};
use netsim::MahimahiTrace;
use prism::survey::Surveyed;
use prism::{Pictures, Quality};
use rhai::{Array, Dynamic, Engine as Formulas, Map};
use units::Rate;
use vantage::{Curve, Delays, Effort, Engine, Past, Settings, Window};

use crate::data::data_trace;
use crate::measure::{Answer, refuse};
use crate::prism::surveyed;

/// The thesis' pictures and frame rate (section 3.6).
const PICTURES: Pictures = Pictures { width: 1280, height: 720, fps: 30.0 };
const INTERVAL: f64 = 1.0 / 30.0;
/// Milliseconds of a run, and of its frames that count (section 3.6.3).
const RUN: usize = 150_000;
const COUNTED: usize = 120_000;
/// Milliseconds before the run over which rates are measured, and after it for who knows the future.
const PAST: usize = 30_000;
const FUTURE: usize = 30_000;
/// Bytes of a trace's opportunity, a packet of 1,500 with its Ethernet header as Mahimahi has it.
const OPPORTUNITY: f64 = 1504.0;
/// Propagation, in ms (ours).
const PROPAGATION: usize = 20;
/// How late a frame may come for those who watch at once, in seconds: the least delay of `framewire ingest`
/// unless told otherwise, its class `live`.
const AT_ONCE: f64 = 0.5;
/// Base-RT: seconds over which the rate is measured, and that a frame may wait for those before it.
const WINDOW: f64 = 0.1;
/// Base-RT: bytes of a frame that is sent at least, as the engine has it.
const LEAST: f64 = 200.0;
/// SQI-SSIM with a picture that stands losing its worth in a second instead of a tenth: the article's
/// constants as they are remembered (sheet `metrics`, section 3.2), which its authors' table contradicts.
const MILD: SqiConstants = SqiConstants { stall: 1.0, ..SQI };
/// Delays at which it is watched, in seconds.
const DELAYS: usize = 31;
/// Frames missing in a row that count as a group (Fig. 3.9b).
const GROUP: usize = 10;

pub(crate) fn register(formulas: &mut Formulas) {
    formulas.register_fn("upload", |style: &str, trace: &str, how: &str| -> Answer<Map> {
        let found = known(style, trace, how)?;
        Ok(map(&found))
    });
    formulas.register_fn("upload_toy", toy);
    formulas.register_fn("uplink_swings", |trace: &str, window: rhai::INT| -> Answer<Map> {
        let bytes = recorded(trace).or_else(refuse)?;
        let swings = swings(&bytes, usize::try_from(window).unwrap_or(0)).or_else(refuse)?;
        Ok(swings.into_iter().map(|(name, n)| (name.into(), Dynamic::from_float(n))).collect())
    });
}

/// How an uplink varies over windows of `window` ms (section 3.3.3):
///
/// | name | |
/// |---|---|
/// | `low`, `high` | share of the windows that carry at most half, at least one and a half of the mean |
/// | `low_ms`, `high_ms` | mean length of windows in a row that are so |
/// | `gain` | what the high ones carry above the mean, as a multiple of what the low ones lack |
fn swings(bytes: &[f64], window: usize) -> Result<[(&'static str, f64); 5], String> {
    if window == 0 || window > bytes.len() {
        return Err(format!("a trace of {} ms has no windows of {window} ms", bytes.len()));
    }
    let carried: Vec<f64> = bytes.chunks_exact(window).map(|of| of.iter().sum()).collect();
    let mean = carried.iter().sum::<f64>() / carried.len() as f64;
    let low: Vec<bool> = carried.iter().map(|&bytes| bytes <= 0.5 * mean).collect();
    let high: Vec<bool> = carried.iter().map(|&bytes| bytes >= 1.5 * mean).collect();
    let away = |of: &[bool]| -> f64 {
        carried.iter().zip(of).filter(|(_, of)| **of).map(|(bytes, _)| (bytes - mean).abs()).sum()
    };
    let share = |of: &[bool]| of.iter().filter(|of| **of).count() as f64 / of.len() as f64;
    let length = |of: &[bool]| {
        let rows: Vec<usize> = of.split(|of| !of).map(<[bool]>::len).filter(|&length| length > 0).collect();
        (rows.iter().sum::<usize>() * window) as f64 / rows.len() as f64
    };
    Ok([
        ("low", share(&low)),
        ("high", share(&high)),
        ("low_ms", length(&low)),
        ("high_ms", length(&high)),
        ("gain", away(&high) / away(&low)),
    ])
}

/// Bytes that a recorded trace carries in each of its milliseconds.
fn recorded(name: &str) -> Result<Vec<f64>, String> {
    let path = data_trace(name)?.ok_or_else(|| format!("{name} is not here"))?;
    let trace = MahimahiTrace::open(&path).map_err(|error| error.to_string())?;
    let period = trace.duration().as_millis_f64() as usize;
    let mut bytes = vec![0.0; period];
    trace.millis().iter().for_each(|&at| bytes[at as usize % period] += OPPORTUNITY);
    Ok(bytes)
}

/// The thesis' example (section 3.4.1): half a Mbit/s for ten seconds, then three, Q = 1 - 1 / (2 b + 1) at b
/// Mbit/s. Each ten seconds are one frame of the planner. Qualities and the split, as the thesis prints them.
fn toy() -> Answer<Map> {
    let mbit = 1e6 / 8.0 * 10.0;
    let curve = Curve::new(2.0 / mbit, 1.0).map_err(|error| format!("{error:?}"))?;
    let quality = |rate: f64| curve.quality(rate * mbit);
    let window = Window {
        budget: 3.0 * mbit,
        future: vec![curve],
        weight: 2.0,
        past: vec![Past { frame: 0, curve, quality: quality(0.5), weight: 1.0 }],
        sizes: (200.0, 3.0 * mbit),
        least_gain: 0.0,
        run_cost: 0.0,
    };
    let plan = window.solve(Effort::default()).map_err(|error| format!("{error:?}"))?;
    let of = |size: u32| f64::from(size) / mbit;
    let now = of(plan.future[0]);
    let again = plan.again.first().map_or(0.0, |again| of(again.size));
    let all = [
        ("delayed", quality(1.75)),
        ("real_time", (quality(0.5) + quality(3.0)) / 2.0),
        ("now_mbit", now),
        ("again_mbit", again),
        ("now", (quality(0.5) + quality(now)) / 2.0),
        ("later", (quality(again) + quality(now)) / 2.0),
    ];
    Ok(all.into_iter().map(|(name, n)| (name.into(), Dynamic::from_float(n))).collect())
}

/// What was seen of one upload, by name.
type Found = BTreeMap<&'static str, Vec<f64>>;

fn map(found: &Found) -> Map {
    let list = |values: &[f64]| values.iter().map(|&v| Dynamic::from_float(v)).collect::<Array>();
    let item = |(&name, values): (&&'static str, &Vec<f64>)| match values.as_slice() {
        &[one] => (name.into(), Dynamic::from_float(one)),
        all => (name.into(), list(all).into()),
    };
    found.iter().map(item).collect()
}

/// Each upload is run once.
fn known(style: &str, trace: &str, how: &str) -> Answer<Arc<Found>> {
    static KNOWN: Mutex<BTreeMap<String, Arc<Found>>> = Mutex::new(BTreeMap::new());
    let key = format!("{style} {trace} {how}");
    if let Some(found) = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return Ok(found.clone());
    }
    let clip = surveyed(style)?;
    let uplink = Uplink::named(trace).or_else(refuse)?;
    let manner = Manner::parse(how).or_else(refuse)?;
    let found = Arc::new(found(&Upload::run(&clip.0, &uplink, &manner)));
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).insert(key, found.clone());
    Ok(found)
}

/// What a link carries, millisecond by millisecond. Before the run it carried what the trace has at its end.
struct Uplink {
    /// Bytes carried since [`PAST`] before the run, before each millisecond.
    carried: Vec<f64>,
}

impl Uplink {
    /// `constant:MBIT`, or a trace by the name that experiments give it.
    fn named(name: &str) -> Result<Uplink, String> {
        if let Some(mbit) = name.strip_prefix("constant:") {
            let mbit: f64 =
                mbit.parse().map_err(|_| format!("`{name}`: constant:MBIT, such as constant:1.5"))?;
            return Ok(Uplink::of(&[mbit * 125.0]));
        }
        Ok(Uplink::of(&recorded(name)?))
    }

    /// A link that repeats these milliseconds.
    fn of(bytes: &[f64]) -> Uplink {
        let first = (bytes.len() - PAST % bytes.len()) % bytes.len();
        let mut carried = vec![0.0];
        for at in 0..PAST + RUN + FUTURE {
            carried.push(carried[at] + bytes[(first + at) % bytes.len()]);
        }
        Uplink { carried }
    }

    /// Bytes a second over the last `window` ms before `at`.
    fn rate(&self, at: usize, window: usize) -> f64 {
        (self.carried[PAST + at] - self.carried[PAST + at - window]) * 1e3 / window as f64
    }

    /// Bytes between two instants.
    fn between(&self, from: usize, to: usize) -> f64 {
        self.carried[PAST + to] - self.carried[PAST + from]
    }
}

/// How an upload is run.
struct Manner {
    kind: Kind,
    settings: Settings,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// The rate of the last 100 ms, and what does not fit is left out (section 3.6.2).
    RealTime,
    /// The mean rate of the last 30 s, in the order of capture, whenever it arrives.
    Delayed,
    /// The budget of a period is what the last second carried.
    Vantage,
    /// It is what the period will carry, times a factor.
    Foreseeing(f64),
}

impl Manner {
    fn parse(how: &str) -> Result<Manner, String> {
        let settings = Settings::default();
        let vantage = |settings: Settings| Ok(Manner { kind: Kind::Vantage, settings });
        let plain = |kind| Ok(Manner { kind, settings: Settings::default() });
        if let Some(period) = how.strip_prefix("period:") {
            let period: f64 = period.parse().map_err(|_| format!("`{how}`: period:SECONDS"))?;
            return vantage(Settings { period, ..settings });
        }
        if let Some(factor) = how.strip_prefix("oracle:") {
            return plain(Kind::Foreseeing(factor.parse().map_err(|_| format!("`{how}`: oracle:FACTOR"))?));
        }
        match how {
            "base-rt" => plain(Kind::RealTime),
            "base-delay" => plain(Kind::Delayed),
            "vantage" => vantage(settings),
            "early" => vantage(Settings { delays: Delays::early(30), ..settings }),
            "late" => vantage(Settings { delays: Delays::late(30), ..settings }),
            "worst" => vantage(Settings { candidates: 30, ..settings }),
            // Whoever watches after 30 s sees every version.
            "unweighted" => {
                let delays = Delays::new([(30.0, 1.0)]).map_err(|_| "no viewers".to_owned())?;
                vantage(Settings { delays, ..settings })
            }
            "one-curve" => vantage(Settings { own_curves: false, ..settings }),
            // Without candidates nothing is sent again, and frames of now get all.
            "live-only" => vantage(Settings { candidates: 0, ..settings }),
            _ => Err(format!(
                "`{how}` is no way to upload; there are base-rt, base-delay, vantage, early, late, worst, unweighted, one-curve, \
                 live-only, period:SECONDS, oracle:FACTOR"
            )),
        }
    }
}

/// A version on its way.
struct Version {
    frame: u32,
    left: f64,
    quality: f64,
    of_before: bool,
}

/// One upload.
struct Upload<'a> {
    clip: &'a Surveyed,
    uplink: &'a Uplink,
    kind: Kind,
    period: usize,
    engine: Engine,
    /// Frames of now, and of before.
    live: VecDeque<Version>,
    again: VecDeque<Version>,
    /// What left and has not arrived: when it does.
    flying: VecDeque<(usize, Version)>,
    /// The quality of the last frame of now, and frame and quality of the last one of before.
    last_live: Option<f64>,
    last_again: Option<(u32, f64)>,
    /// Of each frame, when a version arrived (ms) and how good it is.
    versions: Vec<Vec<(usize, f64)>>,
    bytes: (f64, f64),
    /// Of each plan, how far below the best it may be.
    gaps: Vec<f64>,
}

impl<'a> Upload<'a> {
    fn run(clip: &'a Surveyed, uplink: &'a Uplink, manner: &Manner) -> Upload<'a> {
        let settings = manner.settings.clone();
        let mut upload = Upload {
            clip,
            uplink,
            kind: manner.kind,
            period: (settings.period * 1e3) as usize,
            engine: Engine::new(settings),
            live: VecDeque::new(),
            again: VecDeque::new(),
            flying: VecDeque::new(),
            last_live: None,
            last_again: None,
            versions: Vec::new(),
            bytes: (0.0, 0.0),
            gaps: Vec::new(),
        };
        (0..RUN).for_each(|at| upload.step(at));
        upload
    }

    fn step(&mut self, at: usize) {
        self.land(at);
        if self.plans() && at.is_multiple_of(self.period) {
            let budget = self.budget(at);
            let plan = self.engine.turn(at as f64 / 1e3, budget);
            self.gaps.extend(plan.map(|plan| plan.gap()));
        }
        if at == captured_ms(self.versions.len()) {
            self.capture(at);
        }
        self.drain(at);
    }

    fn plans(&self) -> bool {
        matches!(self.kind, Kind::Vantage | Kind::Foreseeing(_))
    }

    /// Bytes that the period after the one that begins is taken to carry.
    fn budget(&self, at: usize) -> f64 {
        match self.kind {
            Kind::Foreseeing(factor) => factor * self.uplink.between(at + self.period, at + 2 * self.period),
            _ => self.uplink.rate(at, 1_000) * self.period as f64 / 1e3,
        }
    }

    fn capture(&mut self, at: usize) {
        let frame = self.versions.len() as u32;
        self.versions.push(Vec::new());
        let waiting: f64 = self.live.iter().map(|version| version.left).sum();
        let rate = self.uplink.rate(at, 100);
        let size = match self.kind {
            Kind::Delayed => (self.uplink.rate(at, 30_000) * INTERVAL) as u32,
            Kind::RealTime => real_time(rate, waiting),
            _ => self.engine.live(at as f64 / 1e3, frame, rate, waiting),
        };
        if size == 0 {
            return;
        }
        let quality = self.quality(size, frame, self.last_live);
        self.last_live = Some(quality);
        if self.plans() {
            self.engine.coded_live(frame, f64::from(size), quality);
        }
        self.bytes.0 += f64::from(size);
        self.live.push_back(Version { frame, left: f64::from(size), quality, of_before: false });
    }

    /// What a frame of `size` bytes is worth after one of the quality `before`, or as a key frame.
    fn quality(&self, size: u32, frame: u32, before: Option<f64>) -> f64 {
        let scale = self.clip.footage.pictures().scale_from(PICTURES);
        let rate = Rate::from_f64(f64::from(size) * 8.0 / INTERVAL * scale);
        let (start, frames) = (self.clip.course_start(), self.clip.footage.frames());
        let place = start + frame as usize % (frames - start);
        let model = &self.clip.model;
        before.map_or_else(|| model.key(rate, place), |before| model.next(rate, place, before))
    }

    /// What the link carries in a millisecond: frames of now strictly first.
    fn drain(&mut self, at: usize) {
        let mut free = self.uplink.between(at, at + 1);
        while free > 0.0 {
            if self.live.is_empty() && self.again.is_empty() && !self.next_again(at) {
                return;
            }
            let queue = if self.live.is_empty() { &mut self.again } else { &mut self.live };
            let Some(first) = queue.front_mut() else { return };
            let sent = first.left.min(free);
            (first.left, free) = (first.left - sent, free - sent);
            if first.left <= 0.0
                && let Some(version) = queue.pop_front()
            {
                self.engine.left(version.of_before);
                self.flying.push_back((at + PROPAGATION, version));
            }
        }
    }

    /// Codes the next frame of before, if there is one to be sent.
    fn next_again(&mut self, at: usize) -> bool {
        let rate = self.uplink.rate(at, 100);
        let Some(next) = self.engine.again(at as f64 / 1e3, rate) else { return false };
        let before =
            self.last_again.filter(|&(frame, _)| frame + 1 == next.frame).map(|(_, quality)| quality);
        let quality = self.quality(next.size, next.frame, before);
        self.last_again = Some((next.frame, quality));
        self.engine.coded_again(next.frame, f64::from(next.size), quality);
        self.bytes.1 += f64::from(next.size);
        self.again.push_back(Version {
            frame: next.frame,
            left: f64::from(next.size),
            quality,
            of_before: true,
        });
        true
    }

    /// What arrives; the sender hears of it as late as it came.
    fn land(&mut self, at: usize) {
        while self.flying.front().is_some_and(|(when, _)| *when <= at) {
            let Some((_, version)) = self.flying.pop_front() else { return };
            self.versions[version.frame as usize].push((at, version.quality));
            self.engine.arrived(version.frame, version.quality);
        }
    }

    /// Of each frame that counts, the best version that is there `delay` seconds after its capture.
    fn seen(&self, delay: usize) -> Vec<Option<f64>> {
        let late = if delay == 0 { (AT_ONCE * 1e3) as usize } else { delay * 1_000 };
        let counted = self.versions.iter().enumerate().take_while(|&(frame, _)| captured_ms(frame) < COUNTED);
        let best = |(frame, versions): (usize, &Vec<(usize, f64)>)| {
            let there = versions.iter().filter(|&&(at, _)| at <= captured_ms(frame) + late);
            there.map(|&(_, quality)| quality).max_by(f64::total_cmp)
        };
        counted.map(best).collect()
    }
}

/// Bytes of a frame of Base-RT, 0 to leave it out: at the rate of the last 100 ms, of which what waits is
/// taken off. It is left out if that rate is zero (section 3.7.2), or would not carry what waits in as long.
fn real_time(rate: f64, waiting: f64) -> u32 {
    if rate <= 0.0 || waiting > WINDOW * rate {
        return 0;
    }
    ((rate - waiting / WINDOW) * INTERVAL).max(LEAST) as u32
}

/// When a frame is captured.
fn captured_ms(frame: usize) -> usize {
    (frame as f64 * INTERVAL * 1e3).round() as usize
}

/// Frames missing in groups.
fn in_groups(slots: &[Option<f64>]) -> usize {
    let groups = slots.split(Option::is_some).map(<[_]>::len);
    groups.filter(|&length| length >= GROUP).sum()
}

/// Share of the gaps that are no larger than this; not a number without any.
fn within(gaps: &[f64], most: f64) -> f64 {
    gaps.iter().filter(|&&gap| gap <= most).count() as f64 / gaps.len() as f64
}

/// What is told of an upload.
///
/// | name | of each delay of 0 to 30 s |
/// |---|---|
/// | `sqi`, `ssim` | SQI-SSIM; mean SSIM of the frames that are there |
/// | `mild` | the index where a short pause counts less |
/// | `missing`, `groups` | frames that are not there; those of them in groups of ten and more |
///
/// | name | one number |
/// |---|---|
/// | `now`, `later`, `average` | SQI-SSIM at once and after 30 s, and their mean (Table 3.1) |
/// | `mild_now`, `mild_later` | the first two of `mild` |
/// | `plans`, `near`, `best` | plans; the share of them proven within 1 % and 0.1 % of the best objective |
/// | `again` | share of the bytes sent that are of frames of before |
fn found(upload: &Upload<'_>) -> Found {
    let seen: Vec<Vec<Option<f64>>> = (0..DELAYS).map(|delay| upload.seen(delay)).collect();
    let of_each =
        |of: &dyn Fn(&[Option<f64>]) -> f64| seen.iter().map(|slots| of(slots)).collect::<Vec<f64>>();
    let ssim = |slots: &[Option<f64>]| {
        let there: Vec<f64> = slots.iter().flatten().copied().collect();
        there.iter().sum::<f64>() / there.len() as f64
    };
    let index = of_each(&|slots| sqi(slots, INTERVAL, &SQI).unwrap_or(f64::NAN));
    let mild = of_each(&|slots| sqi(slots, INTERVAL, &MILD).unwrap_or(f64::NAN));
    let (now, later) = (index[0], index[DELAYS - 1]);
    BTreeMap::from([
        ("ssim", of_each(&ssim)),
        ("missing", of_each(&|slots| slots.iter().filter(|slot| slot.is_none()).count() as f64)),
        ("groups", of_each(&|slots| in_groups(slots) as f64)),
        ("now", vec![now]),
        ("later", vec![later]),
        ("average", vec![(now + later) / 2.0]),
        ("near", vec![within(&upload.gaps, 0.01)]),
        ("best", vec![within(&upload.gaps, 0.001)]),
        ("plans", vec![upload.gaps.len() as f64]),
        ("again", vec![upload.bytes.1 / (upload.bytes.0 + upload.bytes.1)]),
        ("sqi", index),
        ("mild_now", vec![mild[0]]),
        ("mild_later", vec![mild[DELAYS - 1]]),
        ("mild", mild),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_repeats_and_carries_what_it_says() {
        let steady = Uplink::named("constant:1.5").unwrap();
        assert!((steady.rate(0, 1_000) - 187_500.0).abs() < 1e-6);
        assert!((steady.between(10, 30) - 3_750.0).abs() < 1e-6);
        // Three milliseconds of which the last carries a packet; the run begins with the first.
        let three = Uplink::of(&[0.0, 0.0, 3_000.0]);
        assert_eq!([0, 1, 2, 3].map(|at| three.between(at, at + 1)), [0.0, 0.0, 3_000.0, 0.0]);
        assert_eq!((three.rate(0, 3), three.rate(1, 1)), (1e6, 0.0));
        assert!(Uplink::named("constant:much").is_err() && Uplink::named("data:nowhere").is_err());
    }

    #[test]
    fn ways_to_upload_go_by_name() {
        assert_eq!(Manner::parse("oracle:0.5").unwrap().kind, Kind::Foreseeing(0.5));
        assert!((Manner::parse("period:4").unwrap().settings.period - 4.0).abs() < 1e-12);
        let wrong = Manner::parse("fastest").err().unwrap();
        assert!(wrong.starts_with("`fastest` is no way to upload; there are base-rt, base-delay"));
        let all = ["base-rt", "base-delay", "vantage", "early", "late", "worst", "unweighted", "one-curve"];
        for name in all.into_iter().chain(["live-only"]) {
            assert!(Manner::parse(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn swings_are_told_by_windows() {
        // Means of two milliseconds: 4, 0, 1, 8, 8, 3; 4 on average.
        let bytes = [8.0, 0.0, 0.0, 0.0, 1.0, 1.0, 8.0, 8.0, 8.0, 8.0, 0.0, 6.0, 9.0];
        let found = swings(&bytes, 2).unwrap();
        let third = 1.0 / 3.0;
        let expected =
            [("low", third), ("high", third), ("low_ms", 4.0), ("high_ms", 4.0), ("gain", 8.0 / 7.0)];
        for (found, expected) in found.into_iter().zip(expected) {
            assert!(found.0 == expected.0 && (found.1 - expected.1).abs() < 1e-12, "{found:?} {expected:?}");
        }
        assert!(swings(&bytes, 0).is_err() && swings(&bytes, 14).is_err());
    }

    #[test]
    fn frames_of_base_rt_have_the_rate_of_100_ms() {
        assert_eq!((real_time(30_000.0, 0.0), real_time(30_000.0, 600.0)), (1_000, 800));
        assert_eq!(real_time(30_000.0, 2_900.0), 200);
        assert_eq!((real_time(30_000.0, 3_100.0), real_time(0.0, 0.0)), (0, 0));
    }

    #[test]
    fn groups_are_ten_frames_or_more() {
        let slots = |lengths: &[(bool, usize)]| {
            let part = |&(there, n): &(bool, usize)| vec![there.then_some(0.9); n];
            lengths.iter().flat_map(part).collect::<Vec<_>>()
        };
        assert_eq!(in_groups(&slots(&[(false, 9), (true, 1), (false, 12), (true, 3), (false, 10)])), 22);
        assert_eq!((captured_ms(0), captured_ms(1), captured_ms(30)), (0, 33, 1_000));
    }
}
