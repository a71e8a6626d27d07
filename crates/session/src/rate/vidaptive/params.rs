//! Vidaptive's constants, and the options that change them.

use cc::{OptionError, Options};
use units::{Bytes, Rate, Span};

use super::alpha::Search;
use super::resolution::Resolving;
use crate::rate::{Dummies, Ladder};

/// What can be written after the policy's name.
pub const OPTIONS: &[(&str, &str)] = &[
    ("lambda", "frame rate against bitrate, 0 to 0.999 (paper 0.5)"),
    ("tau", "age of the oldest waiting packet that pauses the encoder (paper 33ms)"),
    ("span", "frames of the last so long decide alpha: T (paper 1s)"),
    ("least", "smallest alpha, 0.01 to 1 (paper 0.05)"),
    ("most", "largest alpha, 0.01 to 1 (paper 1)"),
    ("outage", "at this frame rate or below alpha is lowered, in frames/s (paper 5)"),
    ("backoff", "by so much for each frame (paper 0.15)"),
    ("keep", "a frame left out is encoded after all within so long after its capture (paper 16.7ms)"),
    ("reset", "age of the oldest waiting packet at which all are dropped (paper 1s)"),
    ("key", "a key frame may take so long at the CC-Rate (ours: 500ms)"),
    ("dummy", "bytes of a dummy packet, 100B to the datagram's size (paper 200B)"),
    ("dummy_max", "no dummies above this rate (paper 12mbit)"),
    ("before", "none so long before a camera frame (paper 5ms)"),
    ("after", "... and after it, until its packets are queued (0ms)"),
    (
        "repeat",
        "dummies repeat packets of the last round trip instead of carrying nothing, on or off (paper off)",
    ),
    ("served", "frame delays without the wait behind earlier frames, on or off (paper off)"),
    (
        "fresh",
        "CC-Rate by the latest round trip where it is shorter than the smoothed one, on or off (paper off)",
    ),
    ("floor", "a window over the round trip is not taken for less than this (paper: not said, 100kbit)"),
    (
        "ladder",
        "heights that pictures may be coded with below the source's, or off (1080/720/540/360/270/180; the paper's are in its figure 12 only)",
    ),
    ("rise", "frames in a row that must call for a larger size (paper 30)"),
    ("fall", "frames in a row that must call for a smaller one (paper 15)"),
    ("output", "a larger size when the encoder makes less than this of its target, 0 to 1 (paper 0.9)"),
    ("rise_alpha", "... and alpha is above this, 0 to 1 (paper 0.9)"),
    ("alpha", "look for alpha, on or off; off: alpha is `most`"),
    ("pause", "pause the encoder, on or off"),
    ("resets", "drop what waits too long, on or off"),
    ("dummies", "send dummies, on or off"),
    (
        "probe",
        "while nothing is acknowledged, a packet of a waiting frame leaves this often whatever the window; 0ms: none does (paper 0ms)",
    ),
    ("even", "pace at the CC-Rate, on or off; off: the controller's pacing"),
    (
        "spill",
        "a packet of video leaves while less than the window is in flight, on or off; off: where all of it fits (paper on)",
    ),
];

/// The constants and the parts that are on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// How alpha is searched for, tau among it.
    pub search: Search,
    /// T: the span over which alpha, outages and the encoder's output are judged.
    pub span: Span,
    /// Frames a second that are an outage, if they are half of the source's or less.
    pub outage: f64,
    /// What an outage takes off alpha with each frame.
    pub backoff: f64,
    /// How long a frame that was left out is kept.
    pub keep: Span,
    /// Age of the oldest packet at which what waits is dropped.
    pub reset: Span,
    /// How long a key frame may take at the CC-Rate.
    pub key: Span,
    /// What dummies are like.
    pub dummies: Dummies,
    /// Frame delays count from the moment a frame is the oldest that waits.
    pub served: bool,
    /// A window over the round trip is not taken for less.
    pub floor: Rate,
    /// The CC-Rate is by the latest round trip where that is shorter.
    pub fresh: bool,
    /// While nothing is acknowledged, a packet of a waiting frame leaves this often; zero for never.
    pub probe: Span,
    /// How the size changes, if it does.
    pub resolving: Option<Resolving>,
    /// Which parts are on.
    pub parts: Parts,
}

/// Vidaptive's parts, to be switched off one by one (section 5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// alpha is searched for; else it stays at the largest.
    pub alpha: bool,
    /// Whether the encoder pauses while packets wait too long.
    pub pause: bool,
    /// What waits too long is dropped.
    pub resets: bool,
    /// Whether dummies fill what the encoder leaves of the rate.
    pub dummies: bool,
    /// Packets are paced at the CC-Rate.
    pub even: bool,
    /// Packets leave while less than the window is in flight.
    pub spill: bool,
}

impl Params {
    /// The paper's constants (sections 3.2 to 5.1). It sends no dummies "within a few milliseconds of reading
    /// frames"; before them is meant, as its second version says (arXiv 2309.16869v2 section 3.2). Two are
    /// ours: half a second for a key frame, for a larger one could not leave before it is dropped; and the
    /// floor, without which the first packet after an outage would be paced by a round trip of seconds.
    pub fn paper() -> Params {
        Params {
            search: Search { lambda: 0.5, tau: 0.033, least: 0.05, most: 1.0 },
            span: Span::from_secs(1),
            outage: 5.0,
            backoff: 0.15,
            keep: Span::from_micros(16_667),
            reset: Span::from_secs(1),
            key: Span::from_millis(500),
            dummies: Dummies {
                size: Bytes::new(200),
                before: Span::from_millis(5),
                after: Span::ZERO,
                most: Rate::from_mbps(12),
                repeat: false,
            },
            served: false,
            floor: Rate::from_kbps(100),
            fresh: false,
            probe: Span::ZERO,
            resolving: Some(RESOLVING),
            parts: Parts { alpha: true, pause: true, resets: true, dummies: true, even: true, spill: true },
        }
    }

    /// Ours, for a Copa with a delta of 0.58: less delay for the same bitrate. Found on eight cellular
    /// downlinks with two clips, frozen, and then held against eight uplinks (docs/vidaptive.md, "A preset of
    /// our own", has what each change is worth).
    ///
    /// Late frames are those of outages, and what is in flight when the link dies leaves first when it comes
    /// back. So nothing is in flight that is not video: no dummies, and a controller that keeps two packets
    /// in the queue instead of one makes up for them. While nothing is acknowledged a packet of the frame
    /// that waits leaves every 200 ms, so that it is there when the link is. What waits is dropped after 400
    /// ms instead of a second, pictures lose rows after 8 frames of an outage instead of 15, and key frames
    /// are smaller, since each one opens after an outage; 15 frames a second are one already, and alpha may
    /// fall to 0.02 in it. The rest pays with a little of the frame rate for the bitrate: a frame's wait
    /// behind others is not held against it, tau is 45 ms and lambda 0.3.
    pub fn ours() -> Params {
        let paper = Params::paper();
        Params {
            search: Search { lambda: 0.3, tau: 0.045, least: 0.02, ..paper.search },
            outage: 15.0,
            reset: Span::from_millis(400),
            key: Span::from_millis(40),
            served: true,
            probe: Span::from_millis(200),
            resolving: Some(Resolving { down: 8, ..RESOLVING }),
            parts: Parts { dummies: false, even: false, spill: false, ..paper.parts },
            ..paper
        }
    }

    /// Age of the oldest waiting packet that pauses the encoder.
    pub fn tau(&self) -> Span {
        Span::from_secs_f64(self.search.tau)
    }

    /// These constants with what `options` changes.
    ///
    /// # Errors
    /// [`OptionError`] naming what can't be taken.
    pub fn with(self, options: &Options) -> Result<Params, OptionError> {
        let time = |key: &str, now: Span| {
            let span: Span = options.quantity(key, now, EXPECTED_TIME)?;
            let possible = (Span::ZERO..=Span::from_secs(60)).contains(&span);
            if possible { Ok(span) } else { Err(options.refuse(key, EXPECTED_TIME.to_owned())) }
        };
        let on = |key: &str, now: bool| options.switch(key, now);
        let most = options.number("most", self.search.most, 0.01..=1.0)?;
        Ok(Params {
            search: Search {
                lambda: options.number("lambda", self.search.lambda, 0.0..=0.999)?,
                tau: time("tau", self.tau())?.as_secs_f64(),
                least: options.number("least", self.search.least, 0.01..=1.0)?.min(most),
                most,
            },
            span: time("span", self.span)?,
            outage: options.number("outage", self.outage, 0.0..=240.0)?,
            backoff: options.number("backoff", self.backoff, 0.0..=1.0)?,
            keep: time("keep", self.keep)?,
            reset: time("reset", self.reset)?,
            key: time("key", self.key)?,
            dummies: Dummies {
                size: Bytes::new(
                    options.number("dummy", self.dummies.size.get() as f64, 100.0..=1472.0)? as u64
                ),
                before: time("before", self.dummies.before)?,
                after: time("after", self.dummies.after)?,
                most: options.quantity("dummy_max", self.dummies.most, EXPECTED_RATE)?,
                repeat: on("repeat", self.dummies.repeat)?,
            },
            served: on("served", self.served)?,
            floor: options.quantity("floor", self.floor, EXPECTED_RATE)?,
            fresh: on("fresh", self.fresh)?,
            probe: time("probe", self.probe)?,
            resolving: self.resolving(options)?,
            parts: Parts {
                alpha: on("alpha", self.parts.alpha)?,
                pause: on("pause", self.parts.pause)?,
                resets: on("resets", self.parts.resets)?,
                dummies: on("dummies", self.parts.dummies)?,
                even: on("even", self.parts.even)?,
                spill: on("spill", self.parts.spill)?,
            },
        })
    }

    fn resolving(&self, options: &Options) -> Result<Option<Resolving>, OptionError> {
        let now = self.resolving.unwrap_or(RESOLVING);
        let wanted = Steps(self.resolving.map(|now| now.ladder));
        let Steps(ladder) = options.quantity("ladder", wanted, EXPECTED_LADDER)?;
        let frames = |key: &str, now: u32| Ok(options.number(key, f64::from(now), 1.0..=10_000.0)? as u32);
        let resolving = Resolving {
            ladder: ladder.unwrap_or(now.ladder),
            least_output: options.number("output", now.least_output, 0.0..=1.0)?,
            least_alpha: options.number("rise_alpha", now.least_alpha, 0.0..=1.0)?,
            up: frames("rise", now.up)?,
            down: frames("fall", now.down)?,
        };
        Ok(ladder.map(|_| resolving))
    }
}

/// The paper's constants of the ladder (Algorithm 2).
const RESOLVING: Resolving =
    Resolving { ladder: Ladder::CALLS, least_output: 0.9, least_alpha: 0.9, up: 30, down: 15 };

/// A ladder, or none.
struct Steps(Option<Ladder>);

impl std::str::FromStr for Steps {
    type Err = ();

    fn from_str(text: &str) -> Result<Steps, ()> {
        if text == "off" { Ok(Steps(None)) } else { Ok(Steps(Some(text.parse()?))) }
    }
}

/// What a rate must be.
const EXPECTED_RATE: &str = "a rate such as 12mbit";
/// What a time must be.
const EXPECTED_TIME: &str = "a time from 0ms to 60s";
/// What a ladder must be.
const EXPECTED_LADDER: &str = "off, or one to twelve heights, descending, such as 720/360/180";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_change_one_constant_each_and_refuse_clearly() {
        let read = |text: &str| Params::paper().with(&text.parse().unwrap());
        assert_eq!(read("vidaptive"), Ok(Params::paper()));
        let ours = Params::ours().with(&"vidaptive:dummies=on".parse().unwrap()).unwrap();
        assert!(ours.parts.dummies && ours.probe == Span::from_millis(200));
        let found = read("vidaptive:lambda=0.7,tau=500ms,dummies=off,dummy_max=5mbit").unwrap();
        assert_eq!((found.search.lambda, found.tau()), (0.7, Span::from_millis(500)));
        assert_eq!((found.parts.dummies, found.dummies.most), (false, Rate::from_mbps(5)));
        let sizes = |text| read(text).unwrap().resolving.map(|resolving| resolving.ladder.heights().to_vec());
        assert_eq!(sizes("vidaptive"), Some(vec![1080, 720, 540, 360, 270, 180]));
        assert_eq!(
            (sizes("vidaptive:ladder=off"), sizes("vidaptive:ladder=720/360")),
            (None, Some(vec![720, 360]))
        );
        let said = |text| read(text).unwrap_err().to_string();
        assert!(said("vidaptive:ladder=360/720").contains("one to twelve heights, descending"));
        assert_eq!(
            said("vidaptive:tau=soon"),
            "option `tau` of vidaptive is `soon`; it must be a time from 0ms to 60s"
        );
        assert!(said("vidaptive:span=-1s").contains("a time from 0ms to 60s"));
        assert!(said("vidaptive:lambda=1").contains("a number from 0 to 0.999"));
    }
}
