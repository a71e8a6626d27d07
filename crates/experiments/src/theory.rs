//! The papers' closed forms, for formulas to hold claims against without running anything.

use cc::{Acked, Delivery, Lost, Options, Report, Setup, sqp};
use media::{Ask, Encoder, EncoderModel, ModelConfig, Table};
use rhai::{Array, Dynamic, Engine};
use session::RateControl;
use session::rate::{self, Live, View};
use units::{Bytes, Ecn, Rate, Span, Time};

use crate::measure::{Answer, as_number, refuse};

/// SQP's step in Mbit/s and its reward (seed 000, section 4.4).
const STEP: f64 = 0.32;
const REWARD: f64 = 0.25;

pub(crate) fn register(engine: &mut Engine) {
    four(engine, "sqp_sample", sqp::fluid::sample);
    four(engine, "sqp_settles", settle);
    four(engine, "sqp_pair", sqp::fluid::paired_sample);
    engine.register_fn("sqp_fixed_point", |c: Dynamic, r: Dynamic, m: Dynamic, t: Dynamic| {
        Answer::Ok(sqp::fluid::fixed_point(as_number(&c)?, as_number(&r)?, as_number(&m)?, as_number(&t)?))
    });
    engine.register_fn("sqp_utilization", |a: Dynamic, m: Dynamic, t: Dynamic| {
        Answer::Ok(sqp::fluid::utilisation(as_number(&a)?, as_number(&m)?, as_number(&t)?))
    });
    engine.register_fn("sqp_queue_free_share", |m: Dynamic, t: Dynamic| {
        Answer::Ok(sqp::fluid::queue_free_share(as_number(&m)?, as_number(&t)?))
    });
    engine.register_fn("sqp_total", |n: Dynamic, m: Dynamic, t: Dynamic| {
        Answer::Ok(sqp::fluid::total_utilisation(as_number(&n)? as u32, as_number(&m)?, as_number(&t)?))
    });
    engine.register_fn("window_media", |window: Dynamic, srtt: Dynamic, queued: Dynamic| {
        Answer::Ok(window_media(as_number(&window)?, as_number(&srtt)?, as_number(&queued)?))
    });
    engine.register_fn(
        "encoder_settles",
        |table: &str, up: Dynamic, down: Dynamic, from: Dynamic, to: Dynamic| {
            encoder_settles(table, (as_number(&up)?, as_number(&down)?), (as_number(&from)?, as_number(&to)?))
        },
    );
    engine.register_fn("westwood_filter", |old: Dynamic, sample: Dynamic| {
        Answer::Ok(cc::westwood::quic_filter(as_number(&old)?, as_number(&sample)?))
    });
    engine
        .register_fn("gcc_loss_factor", |lost: Dynamic| Answer::Ok(cc::gcc::loss::factor(as_number(&lost)?)));
    engine.register_fn("accepts", |controller: &str| {
        let built = controller.parse::<Options>().and_then(|o| cc::build(&o, &Setup::default()));
        built.is_ok()
    });
    engine.register_fn("window_after_jump", |controller: &str, segments: Dynamic| {
        let setup = Setup { mtu: 1000, ..Setup::default() };
        let built = controller.parse::<Options>().and_then(|o| cc::build(&o, &setup));
        built.map_or_else(
            |error| refuse(error.to_string()),
            |cc| Ok(window_after_jump(cc, as_number(&segments)?)),
        )
    });
    engine.register_fn("sqp_meeting_jain", |smooth: bool| meeting_jain(smooth));
    engine.register_fn("jain_of", |shares: Array| {
        let shares = shares.iter().map(as_number).collect::<Answer<Vec<f64>>>()?;
        Answer::Ok(lab::metrics::jain(&shares).unwrap_or(f64::NAN))
    });
}

fn four(engine: &mut Engine, name: &str, of: fn(f64, f64, f64, f64) -> f64) {
    engine.register_fn(name, move |a: Dynamic, b: Dynamic, c: Dynamic, d: Dynamic| {
        Answer::Ok(of(as_number(&a)?, as_number(&b)?, as_number(&c)?, as_number(&d)?))
    });
}

/// Where equation 4 settles after 30 s of 60 frames/s beside a constant competitor (in Mbit/s).
fn settle(c: f64, r: f64, m: f64, t: f64) -> f64 {
    (0..30 * 60).fold(2.0, |b, _| sqp::update(b, t * sqp::fluid::sample(c, r, b, m), STEP, REWARD))
}

/// Jain's index of two flows from 0.5 and 2 Mbit/s at the first update at which they fill 90 % of 20 Mbit/s,
/// by equation 4 or by taking each sample as it is (seed 000, figure 6).
fn meeting_jain(smooth: bool) -> f64 {
    const LINK: f64 = 20.0;
    let step = |b: f64, s: f64| if smooth { sqp::update(b, s, STEP, REWARD) } else { s };
    let (mut x, mut y) = (0.5, 2.0);
    while x + y < 0.9 * LINK {
        let samples = (0.9 * sqp::fluid::sample(LINK, y, x, 2.0), 0.9 * sqp::fluid::sample(LINK, x, y, 2.0));
        (x, y) = (step(x, samples.0), step(y, samples.1));
    }
    lab::metrics::jain(&[x, y]).unwrap_or(f64::NAN)
}

/// Seconds until the model of a recorded encoder, with these lags (up and down, in ms), gives a new rate
/// (from and to, in Mbit/s) to within a tenth over a third of a second of 30 frames/s.
fn encoder_settles(table: &str, lags: (f64, f64), rates: (f64, f64)) -> Answer<f64> {
    const INTERVAL: Span = Span::from_nanos(33_333_333);
    /// Ten seconds at the old rate, and as long at most at the new one.
    const FRAMES: u32 = 300;
    const AVERAGED: usize = 10;
    let table = Table::by_name(table).ok_or_else(|| format!("no table is called `{table}`"))?;
    let (lag_up, lag_down) = (Span::from_secs_f64(lags.0 / 1e3), Span::from_secs_f64(lags.1 / 1e3));
    let config = ModelConfig { lag_up, lag_down, ..ModelConfig::recorded(table, 1) };
    let mut encoder = EncoderModel::new(config).map_err(|error| error.to_string())?;
    let mut code = |frame: u32| {
        let bitrate = Rate::from_f64(1e6 * if frame < FRAMES { rates.0 } else { rates.1 });
        let ask = Ask {
            frame,
            bitrate,
            interval: INTERVAL,
            key: frame == 0,
            largest: None,
            height: None,
            peer: None,
        };
        encoder.submit(Time::ZERO, None, &ask).map_err(|error| error.to_string())?;
        let coded = encoder.poll(Time::MAX).map_or(0, |coded| coded.size);
        Answer::Ok(f64::from(coded) * 8.0 / INTERVAL.as_secs_f64() / 1e6)
    };
    let given = (0..2 * FRAMES).map(&mut code).collect::<Answer<Vec<f64>>>()?;
    let near =
        |recent: &[f64]| (recent.iter().sum::<f64>() / recent.len() as f64 / rates.1 - 1.0).abs() <= 0.1;
    let settled = given[FRAMES as usize..].windows(AVERAGED).position(near);
    Ok(settled.map_or(f64::INFINITY, |first| (first + AVERAGED) as f64 * INTERVAL.as_secs_f64()))
}

/// The media rate in Mbit/s that the session gives a window-based controller: window and queue in bytes,
/// round trip in ms.
fn window_media(window: f64, srtt: f64, queued: f64) -> f64 {
    let of_window = cc::Decision { window: Some(Bytes::new(window as u64)), ..cc::Decision::default() };
    let view = View {
        now: Time::ZERO,
        stream: 0,
        frame: 0,
        interval: Span::from_millis(16),
        cc_rate: rate::cc_rate(&of_window, Span::from_secs_f64(srtt / 1e3), Rate::from_bps(1), Rate::ZERO),
        queued: Bytes::new(queued as u64),
        in_flight: Bytes::ZERO,
        waited: Span::ZERO,
        cut: false,
        open: true,
        patience: Span::from_secs(1),
        limits: (Rate::from_bps(1), Rate::MAX),
        height: 0,
        departed: &[],
    };
    Live::default().plan(&view).bitrate.as_f64() / 1e6
}

/// The window, in segments, of a controller that met a timeout with ten segments in its first window, and
/// then one acknowledgement that moves by so many segments, all but one of which were known to have arrived
/// (seed 003, section 7.4.2).
fn window_after_jump(mut cc: Box<dyn cc::Controller>, segments: f64) -> f64 {
    let at = Time::from_millis;
    let delivery = Delivery::default();
    let lost = [Lost { packet: 0, sent_at: at(10), size: 1000, frame: None, delivery }];
    let acked = [Acked {
        packet: 1,
        sent_at: at(1_100),
        arrived_at: None,
        size: 1000,
        ecn: Ecn::NotEct,
        frame: None,
        delivery,
    }];
    let report = |now| Report {
        now: at(now),
        acked: &[],
        lost: &[],
        spurious: &[],
        in_flight: Bytes::new(1_000),
        limited: true,
        latest_rtt: Some(Span::from_millis(40)),
        srtt: Span::from_millis(40),
        rttvar: Span::from_millis(1),
        min_rtt: Span::from_millis(40),
        ce_marks: 0,
        persistent_congestion: false,
        recovering: None,
        delivered: 10_000,
        lost_bytes: 1_000,
        in_order: 0,
        blob: &[],
    };
    cc.on_feedback(&Report { lost: &lost, persistent_congestion: true, ..report(1_010) });
    cc.on_feedback(&Report { acked: &acked, in_order: segments as u64 * 1_000, ..report(1_140) });
    cc.decision().window.map_or(f64::INFINITY, |window| window.get() as f64 / 1_000.0)
}
