//! At which size pictures are coded (Vidaptive, section 3.4 and appendix A.2).
//!
//! ```text
//!  each frame:   few frames have left within T                      -> decrease      15 in a row: one rung down
//!                else output / target < 0.9 and alpha* > 0.9        -> increase      30 in a row: one rung up
//!                else                                               -> hold          at most one change within T
//! ```
//!
//! The ladder begins with the source's own height. Output over target is taken over the frames that left
//! within T: what the encoder made of those it was given, not what became of frames that it was not. After a
//! change it begins anew, since it tells of another size.
//!
//! Deviation: Algorithm 2 as printed leaves the signal undefined where it should hold, compares seconds with
//! milliseconds, and needs 17 and 32 frames where the text says 15 and 30.

use std::collections::VecDeque;

use units::{Span, Time};

use crate::rate::{Departed, Ladder};

/// When the size changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resolving {
    /// The sizes to choose from, in rows.
    pub ladder: Ladder,
    /// Output over target below this calls for a larger size, ...
    pub least_output: f64,
    /// ... if alpha is above this.
    pub least_alpha: f64,
    /// Frames in a row that must call for a larger size.
    pub up: u32,
    /// Frames in a row that must call for a smaller one.
    pub down: u32,
}

/// What one frame calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signal {
    Hold,
    Decrease,
    Increase,
}

/// What the choice goes by, besides the frames that have left.
#[derive(Clone, Copy, Debug)]
pub struct Evidence {
    /// The time, by the sender's clock.
    pub now: Time,
    /// So few frames have left within T that they count as an outage.
    pub few: bool,
    /// The share of the CC-Rate that was just found best.
    pub alpha: f64,
    /// The source's height in rows, above 0.
    pub source: u16,
}

/// The size in use.
#[derive(Clone, Debug)]
pub struct Resolution {
    resolving: Resolving,
    /// T.
    span: Span,
    height: Option<u16>,
    /// Frames that left since the last change and within T: when, their bits and what they should have had.
    outputs: VecDeque<(Time, f64, f64)>,
    signal: Signal,
    in_a_row: u32,
    changed: Option<(Time, u32)>,
}

impl Resolution {
    /// The source's size, until frames say otherwise. `span` is T.
    pub fn new(resolving: Resolving, span: Span) -> Resolution {
        let outputs = VecDeque::new();
        Resolution {
            resolving,
            span,
            height: None,
            outputs,
            signal: Signal::Hold,
            in_a_row: 0,
            changed: None,
        }
    }

    /// A frame has left that comes `interval` before the next.
    pub fn left(&mut self, frame: &Departed, interval: Span) {
        // What was coded before the last change says nothing of this size.
        if self.changed.is_some_and(|(_, first)| frame.frame < first) {
            return;
        }
        let budget = frame.target.as_f64() * interval.as_secs_f64();
        self.outputs.push_back((frame.at, frame.size.bits() as f64, budget));
    }

    /// What the encoder made of its target over the frames of the last T; `None` without any.
    pub fn output(&self) -> Option<f64> {
        let sum = |of: fn(&(Time, f64, f64)) -> f64| self.outputs.iter().map(of).sum::<f64>();
        let budget = sum(|output| output.2);
        (budget > 0.0).then(|| sum(|output| output.1) / budget)
    }

    /// Chooses the height of capture number `frame`.
    pub fn choose(&mut self, frame: u32, evidence: &Evidence) -> u16 {
        let Evidence { now, source, .. } = *evidence;
        while self.outputs.front().is_some_and(|(at, ..)| now - *at > self.span) {
            self.outputs.pop_front();
        }
        let height = self.height.unwrap_or(source).min(source);
        let next = self.next(height, evidence);
        if next != height {
            self.changed = Some((now, frame));
            self.in_a_row = 0;
            self.outputs.clear();
        }
        self.height = Some(next);
        next
    }

    fn next(&mut self, height: u16, evidence: &Evidence) -> u16 {
        let signal = self.signal(evidence);
        self.in_a_row = if signal == self.signal { self.in_a_row.saturating_add(1) } else { 1 };
        self.signal = signal;
        if self.changed.is_some_and(|(at, _)| evidence.now - at < self.span) {
            return height;
        }
        let ladder = &self.resolving.ladder;
        let rung = match signal {
            Signal::Decrease if self.in_a_row >= self.resolving.down => ladder.below(height),
            Signal::Increase if self.in_a_row >= self.resolving.up => ladder.above(height, evidence.source),
            _ => None,
        };
        rung.unwrap_or(height)
    }

    fn signal(&self, evidence: &Evidence) -> Signal {
        let Resolving { least_output, least_alpha, .. } = self.resolving;
        let short = self.output().is_some_and(|output| output < least_output);
        match evidence.few {
            true => Signal::Decrease,
            false if short && evidence.alpha > least_alpha => Signal::Increase,
            false => Signal::Hold,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use units::{Bytes, Rate};

    const INTERVAL: Span = Span::from_nanos(33_333_333);
    const T: Span = Span::from_secs(1);

    fn paper() -> Resolving {
        Resolving { ladder: Ladder::CALLS, least_output: 0.9, least_alpha: 0.9, up: 30, down: 15 }
    }

    fn at(frame: u32) -> Time {
        Time::ZERO + INTERVAL * i64::from(frame)
    }

    /// What happened to a frame, and around it.
    #[derive(Clone, Copy, Debug)]
    struct Step {
        few: bool,
        alpha: f64,
        /// Output over target of the frame that has just left, if one has.
        output: Option<f64>,
    }

    fn step(resolution: &mut Resolution, frame: u32, source: u16, step: Step) -> u16 {
        if let Some(output) = step.output {
            let target = Rate::from_mbps(1);
            let size = target.bytes_in(INTERVAL).get() as f64 * output;
            let (size, span) = (Bytes::new(size as u64), Span::from_millis(5));
            let left = Departed {
                frame: frame.saturating_sub(1),
                at: at(frame),
                queued: span,
                served: span,
                size,
                sent: size,
                target,
                quantiser: None,
            };
            resolution.left(&left, INTERVAL);
        }
        let Step { few, alpha, .. } = step;
        resolution.choose(frame, &Evidence { now: at(frame), few, alpha, source })
    }

    /// The frames at which the height changes, and to what, when all frames are alike.
    fn changes(
        resolution: &mut Resolution,
        frames: std::ops::Range<u32>,
        source: u16,
        like: Step,
    ) -> Vec<(u32, u16)> {
        let mut last = resolution.height.unwrap_or(source);
        let mut all = Vec::new();
        for frame in frames {
            let height = step(resolution, frame, source, like);
            if height != last {
                all.push((frame, height));
            }
            last = height;
        }
        all
    }

    const OUTAGE: Step = Step { few: true, alpha: 0.5, output: None };
    const SHORT: Step = Step { few: false, alpha: 1.0, output: Some(0.5) };

    #[test]
    fn fifteen_frames_down_and_thirty_up_and_a_second_between() {
        let mut resolution = Resolution::new(paper(), T);
        let down = changes(&mut resolution, 0..200, 720, OUTAGE);
        // The fifteenth frame; then a second each, which is 31 frames of 33.3 ms.
        assert_eq!(down, [(14, 540), (45, 360), (76, 270), (107, 180)]);
        let up = changes(&mut resolution, 200..500, 720, SHORT);
        assert_eq!(up[0], (229, 270));
        assert!(up.is_sorted_by(|(earlier, _), (later, _)| earlier + 30 <= *later), "{up:?}");
        assert!(matches!(up.last(), Some((_, 720))), "back at the source's own height: {up:?}");
    }

    #[test]
    fn the_ladder_ends_with_the_sources_own_height() {
        let mut resolution = Resolution::new(paper(), T);
        assert_eq!(changes(&mut resolution, 0..20, 480, OUTAGE), [(14, 360)]);
        assert_eq!(changes(&mut resolution, 20..120, 480, SHORT), [(49, 480)]);
        let mut small = Resolution::new(paper(), T);
        assert!(changes(&mut small, 0..100, 144, OUTAGE).is_empty());
    }

    #[test]
    fn neither_a_full_encoder_nor_a_small_alpha_raises_it() {
        for like in [
            Step { output: Some(0.91), ..SHORT },
            Step { alpha: 0.9, ..SHORT },
            Step { output: None, ..SHORT },
        ] {
            let mut resolution = Resolution::new(paper(), T);
            changes(&mut resolution, 0..20, 720, OUTAGE);
            assert!(changes(&mut resolution, 20..200, 720, like).is_empty(), "{like:?}");
        }
    }

    #[test]
    fn output_is_of_this_size_only() {
        let mut resolution = Resolution::new(paper(), T);
        assert!(changes(&mut resolution, 0..5, 720, Step { few: true, ..SHORT }).is_empty());
        assert!((resolution.output().unwrap() - 0.5).abs() < 0.01);
        changes(&mut resolution, 5..15, 720, OUTAGE);
        assert_eq!((resolution.height, resolution.output()), (Some(540), None));
        // Coded before the change and sent after it.
        let span = Span::from_millis(5);
        let late = Departed {
            frame: 13,
            at: at(15),
            queued: span,
            served: span,
            size: Bytes::new(9),
            sent: Bytes::new(9),
            target: Rate::from_mbps(1),
            quantiser: None,
        };
        resolution.left(&late, INTERVAL);
        assert_eq!(resolution.output(), None);
    }

    fn any_step() -> impl Strategy<Value = Step> {
        let output = prop::option::of(0.0f64..2.0);
        (any::<bool>(), 0.05f64..=1.0, output).prop_map(|(few, alpha, output)| Step { few, alpha, output })
    }

    proptest! {
        /// Whatever happens, a change is one rung, not within T of the last, not above the source, and only
        /// after as many frames that call for it.
        #[test]
        fn no_network_makes_it_jump(
            runs in prop::collection::vec((any_step(), 1u32..60), 1..30), source in 16u16..2_200
        ) {
            let mut resolution = Resolution::new(paper(), T);
            let (mut frame, mut last, mut changed, mut few_in_a_row) = (0, source, None, 0);
            let mut sizes = vec![source];
            sizes.extend(Ladder::CALLS.heights().iter().filter(|&&rung| rung < source));
            for (like, length) in runs {
                for _ in 0..length {
                    few_in_a_row = if like.few { few_in_a_row + 1 } else { 0 };
                    let height = step(&mut resolution, frame, source, like);
                    let place = |height| sizes.iter().position(|&size| size == height).expect("a rung");
                    if height != last {
                        prop_assert_eq!(place(height).abs_diff(place(last)), 1);
                        prop_assert!(changed.is_none_or(|then| at(frame) - then >= T));
                        prop_assert_eq!(height < last, like.few);
                        prop_assert!(height > last || few_in_a_row >= 15);
                        prop_assert!(height < last || like.alpha > 0.9);
                        changed = Some(at(frame));
                    }
                    last = height;
                    frame += 1;
                }
            }
        }
    }
}
