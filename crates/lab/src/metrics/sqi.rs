//! SQI-SSIM: one number for a session, of the quality of its pictures and of how it stalled (Duanmu et al.,
//! "A Quality-of-Experience Index for Streaming Video", IEEE JSTSP 11(1), 2017, with SSIM as the quality of a
//! picture; Devdeep Ray's thesis uses it in chapters 3 and 4).
//!
//! ```text
//!   stall k of L slots:  slot m of it counts  P e^(-m / (f T0)),      P = quality of the last picture shown
//!   after it:            every slot loses     P (1 - e^(-L / (f T0))) e^(-n / (f T1)),   n = 0, 1, ...
//! ```

use units::{Span, Time};

/// Constants of the index, in seconds.
///
/// Deviation: the thesis states none, and the article's could not be read. These are fitted to the table of
/// penalties that the authors released (github.com/zduanmu/ksqi, commit 17462aa7, `pysqoe/models/sqi`), which
/// they reproduce to its last digit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SqiConstants {
    /// How fast the picture that stands loses its worth.
    pub stall: f64,
    /// How fast a stall is forgotten.
    pub memory: f64,
    /// Quality that is assumed before the first picture.
    pub first_quality: f64,
    /// Both times for the wait before the first picture.
    pub first_time: f64,
}

/// The constants that every table uses.
pub const SQI: SqiConstants = SqiConstants { stall: 0.1, memory: 1.2, first_quality: 0.8, first_time: 0.5 };

/// The index over slots of `interval` seconds each: the quality of the new picture that came up in the slot,
/// or `None` where none did. Values may be below zero. `None` without slots.
///
/// ```
/// use framewire_lab::metrics::{SQI, sqi};
///
/// let mut slots = vec![Some(0.9); 303];
/// slots[150..153].fill(None);
/// assert_eq!((1e5 * sqi(&slots, 1.0 / 30.0, &SQI).unwrap()).round(), 83_024.0);
/// ```
pub fn sqi(slots: &[Option<f64>], interval: f64, constants: &SqiConstants) -> Option<f64> {
    let (mut sum, mut penalty) = (0.0, 0.0);
    // The wait for the first picture is forgotten at a speed of its own.
    let mut first_penalty = 0.0;
    let (mut last, mut missing) = (None, 0u32);
    for slot in slots {
        let (quality, time) = match last {
            Some(quality) => (quality, constants.stall),
            None => (constants.first_quality, constants.first_time),
        };
        let stood = f64::from(missing) * interval;
        match slot {
            None => {
                sum += quality * (-stood / time).exp() - penalty - first_penalty;
                missing += 1;
            }
            Some(shown) => {
                if missing > 0 && last.is_some() {
                    penalty += quality * (1.0 - (-stood / time).exp());
                } else if missing > 0 {
                    // As released, this one begins with the second sample.
                    first_penalty = quality * (1.0 - (-stood / time).exp()) * (-interval / time).exp();
                }
                sum += shown - penalty - first_penalty;
                (last, missing) = (Some(*shown), 0);
            }
        }
        penalty *= (-interval / constants.memory).exp();
        first_penalty *= (-interval / constants.first_time).exp();
    }
    (!slots.is_empty()).then(|| sum / slots.len() as f64)
}

/// A frame for [`sqi_slots`]: when it was captured, and when it was shown and with what quality, if it was.
pub type SqiFrame = (Time, Option<(Time, f64)>);

/// The slots of frames in capture order, a slot each. A frame's slot begins when it is due, which is as long
/// after its capture as the median frame takes, and lasts for an interval. It is played if its frame was
/// shown by its end; or if another picture that is newer than all before came up within it, as when a decoder
/// catches up. A frame that was left out is missing, whatever came later.
pub fn sqi_slots(frames: &[SqiFrame], interval: Span) -> Vec<Option<f64>> {
    let mut delays: Vec<Span> =
        frames.iter().filter_map(|(captured, shown)| Some(shown.as_ref()?.0 - *captured)).collect();
    delays.sort_unstable();
    let Some(&usual) = delays.get(delays.len() / 2) else { return vec![None; frames.len()] };
    let mut late: Vec<(Time, f64)> = Vec::new();
    let mut slots: Vec<Option<f64>> = Vec::with_capacity(frames.len());
    for (captured, shown) in frames {
        let end = *captured + usual + interval;
        slots.push(shown.filter(|shown| shown.0 <= end).map(|shown| shown.1));
        late.extend(shown.filter(|shown| shown.0 > end));
    }
    let first = frames[0].0 + usual;
    for (at, quality) in late {
        let index = ((at - first).as_nanos() / interval.as_nanos().max(1)) as usize;
        if let Some(slot) = slots.get_mut(index).filter(|slot| slot.is_none()) {
            *slot = Some(quality);
        }
    }
    slots
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many frames of 0.9 at 30 Hz, and after each stall of so many slots as many again.
    fn session(stalls: &[usize], frames: usize) -> f64 {
        let mut slots = vec![Some(0.9); frames];
        for &stall in stalls {
            slots.extend(vec![None; stall]);
            slots.extend(vec![Some(0.9); frames]);
        }
        sqi(&slots, 1.0 / 30.0, &SQI).unwrap()
    }

    #[test]
    fn stalls_cost_what_the_vectors_say() {
        for (stall, expected) in
            [(0, 0.9), (1, 0.86954), (3, 0.83024), (15, 0.76517), (30, 0.72980), (90, 0.61752)]
        {
            let found = session(&[stall], 150);
            assert!((found - expected).abs() < 6e-6, "{stall}: {found}, not {expected}");
        }
        let three = session(&[10, 10, 10], 75);
        assert!((three - 0.57120).abs() < 6e-6, "{three}");
    }

    /// The released table: 30 samples a second, sums in seconds of the quality that is lost, of 100.
    #[test]
    fn penalties_are_those_of_the_released_table() {
        let lost = |quality: f64, seconds: usize, first: bool| {
            let before = if first { 0 } else { 1 };
            let mut slots = vec![Some(quality); before];
            slots.extend(vec![None; 30 * seconds]);
            slots.extend(vec![Some(quality); 6_000]);
            let all = slots.len() as f64;
            let constants = SqiConstants { first_quality: 80.0, ..SQI };
            (all * quality - all * sqi(&slots, 1.0 / 30.0, &constants).unwrap()) / 30.0
        };
        for (quality, seconds, expected) in [(55.0, 1, 115.451), (95.0, 2, 294.42), (5.0, 10, 55.496)] {
            let found = lost(quality, seconds, false);
            assert!((found - expected).abs() < 0.005, "{quality} {seconds}: {found}");
        }
        for (seconds, expected) in [(1, 77.694), (3, 237.340), (10, 797.333)] {
            let found = lost(80.0, seconds, true);
            assert!((found - expected).abs() < 0.001, "{seconds}: {found}");
        }
    }

    #[test]
    fn a_slot_is_played_when_its_frame_or_another_new_one_comes_up_in_it() {
        let ms = Time::from_millis;
        let on_time = |k: u64, q: f64| (ms(20 * k), Some((ms(20 * k + 50), q)));
        // Frame 3 is lost, 4 comes within the interval, 5 and 6 in the slot of 7, whose own never comes.
        let mut frames: Vec<SqiFrame> = (0..12).map(|k| on_time(k, 0.9)).collect();
        frames[3].1 = None;
        frames[4].1 = Some((ms(20 * 4 + 69), 0.8));
        frames[5].1 = Some((ms(20 * 7 + 55), 0.5));
        frames[6].1 = Some((ms(20 * 7 + 60), 0.6));
        frames[7].1 = None;
        let slots = sqi_slots(&frames, Span::from_millis(20));
        let expected = [0.9, 0.9, 0.9, -1.0, 0.8, -1.0, -1.0, 0.5, 0.9, 0.9, 0.9, 0.9];
        let found: Vec<f64> = slots.iter().map(|slot| slot.unwrap_or(-1.0)).collect();
        assert_eq!(found, expected);
        assert_eq!(sqi_slots(&[(ms(0), None)], Span::from_millis(20)), [None]);
        assert_eq!(sqi(&[], 1.0, &SQI), None);
    }
}
