//! What formulas ask of Prism's clips (Devdeep Ray's thesis, chapter 4): qualities of real codings, the
//! black-box model, and the tables that ship.
//!
//! | function | gives |
//! |---|---|
//! | `prism_styles()` | the styles of the tables that ship, in their order |
//! | `prism(style)` | numbers and lists of the style's clip, by name: see [`found`] |
//! | `prism_cost()` | seconds of video to be coded for the thesis' settings: `brute_force`, `key`, `runs` |
//! | `prism_catch_up(backlog, decode, interval)` | ms that a decoder takes to catch up |
//!
//! A clip is coded once: codings stay in `out/prism/cache`, where `framewire prism table` keeps its own.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use prism::encodes::{Coder, Footage, Workshop};
use prism::greedy::{Goal, Place};
use prism::study::{Course, Errors, at_share, gain_by_before, gain_by_frames, gains, gaps, nearness};
use prism::survey::{Survey, Surveyed, loss_ends, thesis_cost};
use prism::{Quality, Table};
use rhai::{Array, Dynamic, Engine, Map};

use crate::data::data_file;
use crate::measure::{Answer, as_number, refuse};

/// The clips that the shipped tables were made from (crates/prism/tables/SOURCES.md).
const CLIPS: [(&str, &str); 6] = [
    ("racing", "video/game/stk_cocoa_temple_720p25_8s_x264crf13.mp4"),
    ("arcade", "video/game/neverball_demo1_720p60_8s_x264crf9.mp4"),
    ("talking-head", "video/talking-head/liveportrait_s18_720p30.mp4"),
    ("close-up", "video/detail-motion/VID_1280x720_cavlc_temporal_direct.264"),
    ("traffic", "video/detail-motion/intel_car-detection.mp4"),
    ("film", "video/animation/big-buck-bunny-1080p24-30s.mp4"),
];
/// Rows and frames of a clip that the tables are of.
const SIZE: (u16, usize) = (270, 200);
/// Random schedules that check the model, with a seed that no table was looked at with.
const SCHEDULES: (usize, u64) = (10, 2);
/// Where codings are kept.
const CODINGS: &str = "out/prism/cache";
/// Share of a change after which a stream counts as changed, as in the claims on Fig. 4.4.
const CHANGED: f64 = 0.8;
/// Frames after a loss over which its quality is compared (ours; the thesis prints curves).
const AFTER: usize = 30;

pub(crate) fn register(engine: &mut Engine) {
    engine.register_fn("prism_styles", || -> Array {
        CLIPS.iter().map(|(style, _)| Dynamic::from((*style).to_owned())).collect()
    });
    engine.register_fn("prism", |style: &str| -> Answer<Map> { Ok(map(&surveyed(style)?.1)) });
    engine.register_fn("prism_cost", || {
        let cost = thesis_cost();
        let all = [("brute_force", cost.brute_force), ("key", cost.key), ("runs", cost.runs)];
        all.into_iter().map(|(name, n)| (name.into(), Dynamic::from_float(n))).collect::<Map>()
    });
    engine.register_fn("prism_catch_up", |backlog: Dynamic, decode: Dynamic, interval: Dynamic| {
        Answer::Ok(catch_up(as_number(&backlog)?, as_number(&decode)?, as_number(&interval)?))
    });
}

fn map(found: &Found) -> Map {
    let list = |values: &[f64]| values.iter().map(|&v| Dynamic::from_float(v)).collect::<Array>();
    let item = |(&name, values): (&&'static str, &Vec<f64>)| {
        let value = match values.as_slice() {
            &[one] => Dynamic::from_float(one),
            all => list(all).into(),
        };
        (name.into(), value)
    };
    found.iter().map(item).collect()
}

/// How long a decoder that takes `decode` for a frame needs until it has caught up with frames that come
/// every `interval`, with `backlog` of them waiting: x with x / decode = (backlog + x) / interval. Infinite
/// where frames come faster than they are decoded.
pub(crate) fn catch_up(backlog: f64, decode: f64, interval: f64) -> f64 {
    if decode < interval { backlog * decode / (interval - decode) } else { f64::INFINITY }
}

/// Numbers and lists of one clip, by name.
type Found = BTreeMap<&'static str, Vec<f64>>;
/// A clip and what was found.
type Known = Arc<(Surveyed, Found)>;

/// The clip of a style; each is looked at once.
pub(crate) fn surveyed(style: &str) -> Answer<Known> {
    static KNOWN: Mutex<BTreeMap<String, Known>> = Mutex::new(BTreeMap::new());
    // Whoever comes second waits: a clip is not coded twice.
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = known.get(style) {
        return Ok(found.clone());
    }
    let looked = look(style).or_else(refuse)?;
    known.insert(style.to_owned(), looked.clone());
    Ok(looked)
}

fn look(style: &str) -> Result<Known, String> {
    let (_, file) = CLIPS.iter().find(|(known, _)| *known == style).ok_or_else(|| {
        let styles = CLIPS.map(|(style, _)| style);
        format!("no clip is of style `{style}`; {}", units::instead(style, &styles))
    })?;
    let words = |error: &dyn std::fmt::Display| error.to_string();
    let coder = Coder::x264().ok_or("there is no ffmpeg with libx264")?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let workshop = Workshop { coder, folder: Path::new(CODINGS).to_owned(), threads };
    let footage = Footage::open(&data_file(file), SIZE.0, SIZE.1).map_err(|error| words(&error))?;
    let goal = Goal::default();
    let survey = Survey { steps: 20, quick: false, schedules: SCHEDULES, loss: true, goal };
    let seen = survey.look(footage, &workshop, &|_| ()).map_err(|error| words(&error))?;
    let found = found(&seen, style, &goal);
    Ok(Arc::new((seen, found)))
}

/// What the rows ask of a clip.
fn found(seen: &Surveyed, style: &str, goal: &Goal) -> Found {
    let places: Vec<Place<'_>> = seen.places().collect();
    let own = Table::by_style(style).expect("each clip's table ships");
    let (by_own, by_global) = (gains(&places, &own, goal), gains(&places, &Table::global(), goal));
    let (mean_error, mean_exponential) = seen.errors.means();
    let gaps = gaps(&seen.recording);
    let (drop, recovery) = insertion(&seen.insertion);
    let loss = Lost::of(seen);
    let single = [
        ("small", Errors::small(&seen.errors.model)),
        ("predictions", seen.errors.model.len() as f64),
        ("mean_error", mean_error),
        ("mean_exponential", mean_exponential),
        ("insertion_drop", drop),
        ("insertion_recovery", recovery),
        ("near", at_share(&nearness(&places, &own, goal).objective, 0.5)),
        ("loss_frames", loss.frames),
        ("loss_after", loss.after),
        ("loss_after_inserted", loss.after_inserted),
        ("loss_shown", loss.shown),
        ("loss_shown_inserted", loss.shown_inserted),
        ("spurious", loss.spurious),
        ("spurious_inserted", loss.spurious_inserted),
    ];
    let lists = [
        // Of each rate: SSIM of predicted frames above that of key frames; distortion that they don't have.
        ("gap", gaps.iter().map(|gap| gap.predicted - gap.key).collect()),
        ("less_distortion", gaps.iter().map(|gap| gap.less_distortion()).collect()),
        // Of each rate before in steps, and of each length of a recovery in frames.
        ("gain_before", gain_by_before(&places, &own, goal).into_iter().map(|(_, gain)| gain).collect()),
        ("gain_frames", gain_by_frames(&places, &own, goal).into_iter().map(|(_, gain)| gain).collect()),
        // What the own table gains more than the global one.
        ("above_global", by_own.iter().zip(&by_global).map(|(own, global)| own - global).collect()),
        ("change", changes(seen)),
    ];
    let single = single.into_iter().map(|(name, number)| (name, vec![number]));
    single.chain(lists).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    at_share(&values, 0.5)
}

/// Fig. 4.4a: how far a key frame of the same size falls below the predicted stream, and after how many
/// frames the stream that goes on from it has made up for all but a fifth of that; medians over the key
/// frames. One that has not by the next key frame counts as that long.
fn insertion(course: &Course) -> (f64, f64) {
    const EVERY: usize = 15;
    let below: Vec<f64> = course.ssim[0].iter().zip(&course.ssim[1]).map(|(p, with)| p - with).collect();
    let each = below.chunks(EVERY).skip(1).filter(|frames| frames.len() == EVERY);
    let (drops, recoveries) = each
        .map(|frames| {
            let made_up = frames.iter().position(|&below| below <= (1.0 - CHANGED) * frames[0]);
            (frames[0], made_up.unwrap_or(EVERY) as f64)
        })
        .unzip();
    (median(drops), median(recoveries))
}

/// Fig. 4.4b: frames until 80 % of a change is made, of predicted frames upwards and downwards and of key
/// frames; 1 is at once.
fn changes(seen: &Surveyed) -> Vec<f64> {
    let (from, recording) = (seen.course_start(), &seen.recording);
    let of = |steps: u64| {
        let rate = units::Rate::from_bps(seen.step.as_bps() * steps);
        recording.rates.iter().position(|&known| known == rate).expect("10 and 20 steps are recorded")
    };
    let (half, twice) = (of(10), of(20));
    let frames = |ssim: &[f64], long_run: &[Vec<f64>], at: usize, to: usize, back: usize| {
        let made = |frame: usize| {
            let (old, new) = (long_run[back][from + frame], long_run[to][from + frame]);
            (ssim[frame] - old) / (new - old) >= CHANGED
        };
        (at..(at + 30).min(ssim.len())).position(made).map_or(30.0, |after| (after + 1) as f64)
    };
    let (p, key) = (&seen.change.ssim[0], &seen.change.ssim[1]);
    vec![
        frames(p, &recording.steady, 30, twice, half),
        frames(p, &recording.steady, 60, half, twice),
        frames(key, &recording.key, 30, twice, half),
        frames(key, &recording.key, 60, half, twice),
    ]
}

/// Fig. 4.7a: six frames are lost of a stream of 20 steps.
struct Lost {
    /// Frames after the loss for which the split stream is above the one with key frames, without a break.
    frames: f64,
    /// Mean SSIM of the 30 frames after it, split.
    after: f64,
    /// The same with key frames of 10 steps inserted.
    after_inserted: f64,
    /// Mean SSIM while it lasts: key frames of 8 steps.
    shown: f64,
    /// The same: of 10 steps.
    shown_inserted: f64,
    /// If there was no loss, by how much SSIM falls below the undisturbed stream over a second of 60 Hz.
    spurious: f64,
    /// The same with key frames inserted.
    spurious_inserted: f64,
}

impl Lost {
    fn of(seen: &Surveyed) -> Lost {
        const BESIDE: u64 = 8;
        const FIRST: usize = 5;
        const SECOND: usize = 60;
        let start = seen.course_start();
        let [undisturbed, inserted, split] = &seen.loss.ssim[..] else { unreachable!("it was asked for") };
        let (first, end) = (start + FIRST, start + loss_ends());
        let after = |ssim: &[f64]| mean(&ssim[end..end + AFTER]);
        let key = |frame| seen.model.key(units::Rate::from_bps(seen.step.as_bps() * BESIDE), frame);
        let below =
            |ssim: &[f64]| mean(&undisturbed[first..first + SECOND]) - mean(&ssim[first..first + SECOND]);
        let above = (end..split.len()).take_while(|&frame| split[frame] > inserted[frame]);
        Lost {
            frames: above.count() as f64,
            after: after(split),
            after_inserted: after(inserted),
            shown: mean(&(first..end).map(key).collect::<Vec<f64>>()),
            shown_inserted: mean(&inserted[first..end]),
            spurious: below(split),
            spurious_inserted: below(inserted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thesis_decoder_catches_up_in_a_tenth_of_a_second() {
        assert_eq!(catch_up(60.0, 10.0, 16.0), 100.0);
        assert_eq!(catch_up(60.0, 16.0, 16.0), f64::INFINITY);
    }

    #[test]
    fn an_inserted_key_frame_drops_and_recovers() {
        // Below the stream by 0.1, and a quarter less with every frame: 0.8^... under a fifth at the sixth.
        let with = (0..90).map(|k: i32| 0.9 - if k < 15 { 0.0 } else { 0.1 * 0.75f64.powi(k % 15) });
        let course = Course { labels: Vec::new(), ssim: vec![vec![0.9; 90], with.collect()] };
        let (drop, recovery) = insertion(&course);
        assert!((drop - 0.1).abs() < 1e-9 && recovery == 6.0, "{drop} {recovery}");
    }

    #[test]
    fn every_style_that_ships_has_its_clip() {
        let styles: Vec<&str> = Table::styles().skip(1).collect();
        assert_eq!(styles, CLIPS.map(|(style, _)| style));
    }
}
