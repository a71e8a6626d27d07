//! Google Congestion Control: the gradient of the one-way delay against an adaptive threshold, in three
//! generations.
//!
//! ```text
//!  packets -> groups.rs    bursts of 5 ms, and the delay variation between them
//!          -> kalman.rs    the draft's scalar filter, or the old code's in two dimensions
//!             trendline.rs the present code's: slope of the accumulated delay
//!          -> detector.rs  over-use, under-use, normal; adaptive threshold          (delay.rs: these three)
//!          -> rate.rs      0.85 of what arrives on over-use, else up                (capacity.rs, received.rs, throughput.rs)
//!  losses  -> loss.rs      the draft's 2 % and 10 %     loss_v2.rs  the present code's likelihood
//!  probes  <- probe.rs, cluster.rs, alr.rs
//! ```
//!
//! `remb.rs` and `rmcat.rs` are the receiver-side forms, `webrtc.rs` the send-side one. "The draft" is
//! draft-ietf-rmcat-gcc-02, "libwebrtc" the code's defaults, "Carlucci 2016" the paper that `gcc.md` names.

mod alr;
mod capacity;
mod cluster;
mod delay;
mod detector;
mod groups;
mod kalman;
pub mod loss;
mod loss_v2;
mod probe;
mod rate;
mod received;
mod remb;
mod revision;
mod rmcat;
mod throughput;
mod trendline;
mod webrtc;

use units::{Bytes, Rate, Span};

use crate::{Controller, Decision, Entry, OptionError, Options, ReceiverHalf, Setup};
use delay::{Delay, Form};
use groups::Grouping;
use loss::Losses;
use rate::{Params, Rules};
use remb::Stamps;
use revision::Revision;

const PAGE: &str = include_str!("gcc.md");

/// Packets leave at this multiple of the target (libwebrtc `kDefaultPaceMultiplier`).
const PACE: f64 = 2.5;
/// The pacer sends a group of packets this often (draft section 4, `burst_time`; libwebrtc
/// `kMinPacketLimitMs`).
const TICK: Span = Span::from_millis(5);
/// R is measured over this many seconds (Carlucci 2016 section 2.2).
const RATE_WINDOW: f64 = 0.5;
/// The draft leaves chi to 0.001 to 0.1 (section 5.3).
const CHI: f64 = 0.01;
/// No session runs on less, in bit/s (libwebrtc `kCongestionControllerMinBitrate`).
const FLOOR: f64 = 5e3;

/// Groups in the trendline (libwebrtc `TrendlineEstimatorSettings`).
const TRENDLINE: f64 = 20.0;
/// The first probes go no higher (libwebrtc `kDefaultMaxProbingBitrate`).
const PROBE_CAP: Rate = Rate::from_mbps(5);

/// The registry's row of the present form.
pub const ENTRY: Entry = Entry {
    name: "gcc",
    summary: "GCC as WebRTC has it now: send-side trendline, probes, loss-based v2",
    needs_frames: false,
    options: &[
        ("beta", "share of the received rate a cut leaves, 0.8 to 0.95 (default 0.85)"),
        ("growth", "growth a second far from capacity, 1.005 to 1.3 (default 1.08)"),
        ("window", "groups in the trendline, 2 to 200 (default 20)"),
        ("probing", "probe with padding, on or off (default on)"),
        ("probe_cap", "most the first probes go to, such as 5mbit"),
        ("robust", "received rate over a second, on; off: samples of 150 ms (default off)"),
        (
            "loss_v2",
            "likelihood estimator for losses, on; off: the three zones browsers had until December 2022 (default on)",
        ),
    ],
    page: PAGE,
    build: |options, setup| Ok(Box::new(webrtc::Webrtc::new(choice(options, setup)?, setup))),
    receiver: None,
};

/// The registry's row of the draft's form.
pub const RMCAT_02: Entry = Entry {
    name: "gcc-rmcat-02",
    summary: "GCC as draft-ietf-rmcat-gcc-02 has it: scalar filter beside the receiver, REMB",
    needs_frames: false,
    options: &[
        ("beta", "share of the received rate a cut leaves, 0.8 to 0.95 (default 0.85)"),
        ("growth", "growth a second far from capacity, 1.005 to 1.3 (default 1.08)"),
        (
            "burst",
            "packets sent within this are a group, such as 4999us, a tick of the pacer (default half a frame interval)",
        ),
        ("chi", "weight of the newest residual in the noise, 0.001 to 0.1 (default 0.01)"),
    ],
    page: PAGE,
    build: |options, setup| rmcat_sender(options, setup),
    receiver: Some(|options, setup| receiver(draft_form(options)?, Rules::Draft, options, setup)),
};

/// The registry's row of libwebrtc's receiver-side form.
pub const LEGACY: Entry = Entry {
    name: "gcc-legacy",
    summary: "GCC as browsers had it until 2017: two-dimensional filter beside the receiver, REMB",
    needs_frames: false,
    options: &[
        ("beta", "share of the received rate a cut leaves, 0.8 to 0.95 (default 0.85)"),
        ("growth", "growth a second far from capacity, 1.005 to 1.3 (default 1.08)"),
        (
            "burst",
            "packets sent within this are a group, such as 4999us, a tick of the pacer (default half a frame interval)",
        ),
        (
            "per_report",
            "without losses the rate rises by 5 % a report (seed 002, equation 2), on; off: by 8 % a second, as libwebrtc had it (default on)",
        ),
        (
            "coarse",
            "times of packets in whole milliseconds, as libwebrtc had them, on or off (default off); goes with burst=5ms",
        ),
        (
            "received",
            "seconds over which the received rate is measured, 0.1 to 2 (default 0.5, seed 002's; libwebrtc had 1)",
        ),
        (
            "revision",
            "whose constants: 2015-07, 2015-08, 2016-02, 2016-03 or 2016-08 (default 2016-08; gcc-carlucci: 2015-07)",
        ),
    ],
    page: PAGE,
    build: |options, setup| beside_sender(revision::LAST, options, setup),
    receiver: Some(|options, setup| beside(revision::LAST, options, setup)),
};

/// The registry's row of the form that the paper on GCC and AQM describes.
pub const CARLUCCI: Entry = Entry {
    name: "gcc-carlucci",
    summary: "GCC as seed 002 describes it: filter in two dimensions, threshold that rises faster than it falls, REMB",
    build: |options, setup| beside_sender(revision::PUBLISHED, options, setup),
    receiver: Some(|options, setup| beside(revision::PUBLISHED, options, setup)),
    ..LEGACY
};

fn choice(options: &Options, setup: &Setup) -> Result<webrtc::Choice, OptionError> {
    Ok(webrtc::Choice {
        rate: params(Rules::Code, options, setup)?,
        window: options.number("window", TRENDLINE, 2.0..=200.0)? as usize,
        probing: options.switch("probing", true)?,
        probe_cap: options.quantity("probe_cap", PROBE_CAP, "a rate such as 5mbit")?.as_f64(),
        robust: options.switch("robust", false)?,
        loss_v2: options.switch("loss_v2", true)?,
    })
}

fn draft_form(options: &Options) -> Result<Form, OptionError> {
    Ok(Form::Scalar(options.number("chi", CHI, 0.001..=0.1)?))
}

/// The sender half takes none of the options, but refuses bad ones as its other half would.
fn rmcat_sender(options: &Options, setup: &Setup) -> Result<Box<dyn Controller>, OptionError> {
    draft_form(options)?;
    burst(options, setup)?;
    params(Rules::Draft, options, setup)?;
    let losses = Losses::Equation(loss::Reports::default());
    Ok(Box::new(rmcat::Rmcat::new(setup, losses)))
}

fn planar(default: Revision, options: &Options) -> Result<Form, OptionError> {
    Ok(Form::Planar(options.quantity("revision", default, revision::EXPECTED)?))
}

fn beside_sender(
    default: Revision,
    options: &Options,
    setup: &Setup,
) -> Result<Box<dyn Controller>, OptionError> {
    planar(default, options)?;
    burst(options, setup)?;
    received(options)?;
    stamps(options)?;
    params(Rules::Beside, options, setup)?;
    let losses = match options.switch("per_report", true)? {
        true => Losses::Equation(loss::Reports::default()),
        false => Losses::Browser(loss::Browser::default()),
    };
    Ok(Box::new(rmcat::Rmcat::new(setup, losses)))
}

fn beside(default: Revision, options: &Options, setup: &Setup) -> Result<Box<dyn ReceiverHalf>, OptionError> {
    receiver(planar(default, options)?, Rules::Beside, options, setup)
}

fn receiver(
    form: Form,
    rules: Rules,
    options: &Options,
    setup: &Setup,
) -> Result<Box<dyn ReceiverHalf>, OptionError> {
    let params = params(rules, options, setup)?;
    let stamps = stamps(options)?;
    let delay = Delay::new(form, Grouping { burst: burst(options, setup)?, grain: stamps.grain() });
    Ok(Box::new(remb::Estimator::new(delay, params, received(options)?, stamps)))
}

/// A group is a frame (the paper on GCC and AQM, section 2.1; Carlucci 2016 section 2.2), and frames leave
/// within 1/2.5 of their interval. With absolute send times libwebrtc took what the pacer sends in a tick
/// instead (`kTimestampGroupLengthMs`): `burst=4999us`.
fn burst(options: &Options, setup: &Setup) -> Result<Span, OptionError> {
    options.quantity("burst", setup.frame_interval / 2, "a time such as 5ms")
}

fn stamps(options: &Options) -> Result<Stamps, OptionError> {
    Ok(if options.switch("coarse", false)? { Stamps::Coarse } else { Stamps::Exact })
}

/// libwebrtc's window was a second from 2013 to 2017 (`kBitrateWindowMs`).
fn received(options: &Options) -> Result<Span, OptionError> {
    options.number("received", RATE_WINDOW, 0.1..=2.0).map(Span::from_secs_f64)
}

/// Carlucci 2016's ranges of eta and alpha.
fn params(rules: Rules, options: &Options, setup: &Setup) -> Result<Params, OptionError> {
    let (min, max) = bounds(setup);
    Ok(Params {
        rules,
        beta: options.number("beta", rate::BETA, 0.8..=0.95)?,
        growth: options.number("growth", rate::GROWTH, 1.005..=1.3)?,
        initial: setup.initial.as_f64(),
        min,
        max,
    })
}

/// Least and most a target may be, in bit/s.
fn bounds(setup: &Setup) -> (f64, f64) {
    let min = setup.min.as_f64().max(FLOOR);
    (min, setup.max.as_f64().max(min))
}

fn decision(target: f64, pace: f64) -> Decision {
    Decision {
        media: Some(Rate::from_f64(target)),
        pacing: Some(Rate::from_f64(target * pace)),
        burst: Bytes::ZERO,
        ..Decision::default()
    }
}
