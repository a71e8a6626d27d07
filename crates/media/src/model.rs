//! A model of an encoder: sizes and qualities of frames without pictures, for runs that need no codec.
//!
//! ```text
//!   rate follows target:   ln r += (ln target - ln r) (1 - e^(-interval/lag)),   lag = lag_up or lag_down
//!   ratio = weight(frame, r)^content * e^(size_noise * N(0,1) - size_noise^2/2)
//!   ratio is held to [1 - undershoot, 1 + overshoot], except at a scene cut
//!   excess = owed / (r * interval) - what the recorded encoder owed before that frame
//!   share = 1 - excess / payback, held to [least, most]
//!   size  = bias * r * share * interval * ratio, at most cap * interval
//!           a key frame is key_frame_ratio times as large, one at a scene cut no larger than the cut unless that is small; either is
//!           at most what is asked; one that refers d frames back is d^0.15 times as large, no more than a key frame
//!   owed  += size / bias - r * interval, at least -credit * r * interval
//!   quality = the table's, at rate r * bias * share * noise
//! ```
//!
//! The account is the [`Memory`] of a rate control: what a key frame, a scene cut or chance takes beyond its
//! budget is taken from the frames after it. A recording contains its encoder's account already; only what
//! the model owes beyond that is paid back, so that a constant rate gives what was recorded. `bias` is an
//! error of the encoder's, which its account does not see, and while a cap binds nothing is saved.
//!
//! `weight` is how far the recorded encoder missed its budget on that frame (see [`Table::weight`]): with
//! `content` 1 a menu undershoots and a fight overshoots as they did in the recording, with `content` 0 they
//! don't. Nor does it leave out what the recorded encoder left out ([`Coded::is_left_out`]), key frames
//! excepted.

use std::collections::VecDeque;
use std::sync::Arc;

use units::{Rate, Rng, Span, Time};

use crate::{Ask, CodecError, Coded, Encoder, Memory, Peer, Quantiser, RawFrame, Table};

/// A frame that is predicted from one `d` frames back is `d` to this power times as large as one predicted
/// from the frame before, and no larger than a key frame: the mean over three clips at 0.5 and 1 Mbit/s,
/// where it is 0.04 to 0.28 (`examples/refer_back.rs`, OpenH264, 320x180, 30 frames/s, 4 to 50 frames back;
/// `docs/references.md` has the table).
const REFER_BACK: f64 = 0.15;

/// A stretch of time in which the content needs no more than a certain rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// First instant.
    pub start: Time,
    /// First instant after it.
    pub end: Time,
    /// What is needed at most.
    pub rate: Rate,
}

/// How an [`EncoderModel`] behaves.
#[derive(Clone, Debug)]
pub struct ModelConfig {
    /// The recorded clip; it repeats when it ends.
    pub table: Arc<Table>,
    /// Time constant towards a higher target; zero follows at once.
    pub lag_up: Span,
    /// Time constant towards a lower target; zero follows at once.
    pub lag_down: Span,
    /// Mean size over budget (above 0): 0.6 is an encoder that always undershoots, 1.2 one that always
    /// overshoots.
    pub bias: f64,
    /// Largest excess of a frame over its budget, as a fraction (0 or more); scene cuts may exceed it.
    pub overshoot: f64,
    /// Largest shortfall, as a fraction (0 to 1).
    pub undershoot: f64,
    /// How much the recorded content moves sizes: 0 not at all, 1 as recorded.
    pub content: f64,
    /// Standard deviation of the logarithm of sizes; 0 is an encoder that hits its budget.
    pub size_noise: f64,
    /// Size of a key frame relative to a delta frame (above 0); none: as recorded, which is more at lower
    /// rates.
    pub key_frame_ratio: Option<f64>,
    /// How what was coded beyond the budget is paid back.
    pub memory: Memory,
    /// Time from submitting a frame until it is ready.
    pub latency: Span,
    /// When the content needs less than the target.
    pub caps: Vec<Cap>,
    /// Where the noise comes from.
    pub seed: u64,
}

impl ModelConfig {
    /// An encoder that gives exactly `bitrate * interval` every time, key frames too. Where single parameters
    /// make it less perfect nothing is paid back, so that they do what they say. 4 ms latency.
    pub fn perfect(table: Arc<Table>) -> ModelConfig {
        ModelConfig {
            table,
            lag_up: Span::ZERO,
            lag_down: Span::ZERO,
            bias: 1.0,
            overshoot: 0.0,
            undershoot: 0.0,
            content: 0.0,
            size_noise: 0.0,
            key_frame_ratio: Some(1.0),
            memory: Memory::NONE,
            latency: Span::from_millis(4),
            caps: Vec::new(),
            seed: 1,
        }
    }

    /// An encoder that behaves as the one did that the table was recorded from. 4 ms latency.
    pub fn recorded(table: Arc<Table>, seed: u64) -> ModelConfig {
        let fit = table.fit.clone();
        ModelConfig {
            lag_up: Span::from_secs_f64(fit.lag_up_s),
            lag_down: Span::from_secs_f64(fit.lag_down_s),
            overshoot: fit.overshoot,
            undershoot: fit.undershoot,
            content: 1.0,
            size_noise: fit.size_noise,
            key_frame_ratio: None,
            memory: fit.memory,
            seed,
            ..ModelConfig::perfect(table)
        }
    }

    fn check(&self) -> Result<(), CodecError> {
        let fields = [
            ("lag_up", self.lag_up.as_secs_f64(), 0.0, 100.0),
            ("lag_down", self.lag_down.as_secs_f64(), 0.0, 100.0),
            ("latency", self.latency.as_secs_f64(), 0.0, 100.0),
            ("bias", self.bias, 0.001, 100.0),
            ("overshoot", self.overshoot, 0.0, 1000.0),
            ("undershoot", self.undershoot, 0.0, 1.0),
            ("content", self.content, 0.0, 10.0),
            ("size_noise", self.size_noise, 0.0, 10.0),
            ("key_frame_ratio", self.key_frame_ratio.unwrap_or(1.0), 0.001, 1000.0),
        ];
        match fields
            .into_iter()
            .chain(self.memory.fields())
            .find(|(_, value, low, high)| !(low..=high).contains(&value))
        {
            Some((name, value, low, high)) => Err(CodecError::Codec {
                codec: "encoder model",
                what: format!("{name} is {value}; {low} to {high} are possible"),
            }),
            None => Ok(()),
        }
    }
}

/// An encoder without pictures: frame sizes and qualities as a real one's were recorded, at the rate asked
/// for.
pub struct EncoderModel {
    config: ModelConfig,
    rng: Rng,
    /// Logarithm of the rate that follows the target, in bit/s; none before the first frame.
    rate: Option<f64>,
    /// Logarithm of the configured bias.
    bias: f64,
    /// Bits coded beyond the budgets so far, before the bias; below zero where some were saved.
    owed: f64,
    /// The last frame that came out.
    last: Option<u32>,
    ready: VecDeque<(Time, Coded)>,
}

impl EncoderModel {
    /// An encoder that has not seen a frame.
    ///
    /// # Errors
    /// [`CodecError::Codec`] naming the parameter that is out of range.
    pub fn new(config: ModelConfig) -> Result<EncoderModel, CodecError> {
        config.check()?;
        let rng = Rng::stream(config.seed, "media/model");
        let bias = config.bias.ln();
        Ok(EncoderModel {
            config,
            rng,
            rate: None,
            bias,
            owed: 0.0,
            last: None,
            ready: VecDeque::with_capacity(8),
        })
    }

    /// Moves the rate towards the target and returns it in bit/s, after its logarithm.
    fn follow(&mut self, ask: &Ask) -> (f64, f64) {
        let target = ask.bitrate.as_f64().max(1.0);
        let goal = target.ln();
        let now = self.rate.unwrap_or(goal);
        let lag = if goal > now { self.config.lag_up } else { self.config.lag_down };
        if now == goal || !lag.is_positive() {
            // The target itself: the way through the logarithm would cost the last digit.
            self.rate = Some(goal);
            return (goal, target);
        }
        let step = -(-ask.interval.as_secs_f64() / lag.as_secs_f64()).exp_m1();
        let next = now + (goal - now) * step;
        self.rate = Some(next);
        (next, next.exp())
    }

    /// Logarithm of this frame's noise, whose mean is one.
    fn noise(&mut self) -> f64 {
        let sigma = self.config.size_noise;
        if sigma == 0.0 { 0.0 } else { sigma * self.rng.normal() - sigma * sigma / 2.0 }
    }

    /// What the content makes of this frame's budget at the logarithm of its rate; 0 if the recorded encoder
    /// left it out.
    fn content(&self, ask: &Ask, level: f64) -> f64 {
        match self.config.content {
            0.0 => 1.0,
            1.0 => self.config.table.weight_at(ask.frame, level),
            some => self.config.table.weight_at(ask.frame, level).powf(some),
        }
    }

    /// Size over budget of this frame, from its content's share and the logarithm of its noise.
    fn ratio(&self, ask: &Ask, content: f64, noise: f64) -> f64 {
        let config = &self.config;
        if config.content == 0.0 && noise == 0.0 {
            return 1.0;
        }
        // Nothing is recorded of a frame that was left out where it must be a key frame.
        let content = if content == 0.0 { 1.0 } else { content };
        let ceiling = if config.table.is_cut(ask.frame) { f64::INFINITY } else { 1.0 + config.overshoot };
        (content * noise.exp()).clamp(1.0 - config.undershoot, ceiling)
    }

    fn cap(&self, now: Time) -> f64 {
        let active = self.config.caps.iter().filter(|cap| cap.start <= now && now < cap.end);
        active.map(|cap| cap.rate.as_f64()).fold(f64::INFINITY, f64::min)
    }

    /// Share of its budget of `bits` that a frame gets, for what the account holds.
    fn share(&self, ask: &Ask, level: f64, bits: f64) -> f64 {
        let memory = self.config.memory;
        let (payback, _) = memory.frames(ask.interval.as_secs_f64());
        if payback == 0.0 {
            return 1.0;
        }
        let recorded =
            if self.config.content > 0.0 { self.config.table.owed_at(ask.frame, level) } else { 0.0 };
        let excess = self.owed / bits - recorded;
        // What rounding leaves in the account of an encoder that owes nothing.
        if excess.abs() < 1e-6 { 1.0 } else { (1.0 - excess / payback).clamp(memory.least, memory.most) }
    }

    /// A frame with a budget of `bits` took `coded`; what it did not use is saved, unless that is `wasted`.
    fn settle(&mut self, ask: &Ask, bits: f64, coded: f64, wasted: bool) {
        if self.config.memory.payback == 0.0 {
            return;
        }
        let (_, credit) = self.config.memory.frames(ask.interval.as_secs_f64());
        let least = if wasted { self.owed.min(0.0) } else { f64::NEG_INFINITY };
        self.owed = (self.owed + coded - bits).max(least).max(-credit * bits);
    }

    /// How many times as large as its content has it a frame is, because it must be a key frame or refer
    /// further back. What begins a scene is predicted from nothing already.
    fn key(&self, ask: &Ask, content: f64, level: f64, back: u32) -> f64 {
        let ratio = || self.config.key_frame_ratio.unwrap_or_else(|| self.config.table.key_ratio_at(level));
        match ask.key {
            true if self.is_cut(ask) => (ratio() / content.max(1e-9)).max(1.0),
            true => ratio(),
            false if back <= 1 || self.is_cut(ask) => 1.0,
            false => f64::from(back).powf(REFER_BACK).min(ratio().max(1.0)),
        }
    }

    /// The frame that this one is predicted from, where that is told: the one before, or the newest that the
    /// peer is known to have. None if only a key frame helps.
    fn reference(&self, ask: &Ask) -> Option<u32> {
        let Some(Peer { known, broken_from: Some(from) }) = ask.peer else { return self.last };
        known.filter(|&known| known < from)
    }

    /// Whether the content begins a scene with this frame.
    fn is_cut(&self, ask: &Ask) -> bool {
        self.config.content > 0.0 && self.config.table.is_cut(ask.frame)
    }

    fn code(&mut self, now: Time, ask: &Ask) -> Coded {
        let reference = self.reference(ask);
        let ask = &Ask { key: ask.key || ask.peer.is_some() && reference.is_none(), ..*ask };
        let refers_to = reference.filter(|_| ask.peer.is_some() && !ask.key);
        let (level, rate) = self.follow(ask);
        let noise = self.noise();
        let content = self.content(ask, level);
        let bits = (rate * ask.interval.as_nanos() as f64 / 1e9).max(1.0);
        // What replaces frames that are lost is not left out.
        let needed = ask.key || ask.peer.is_some_and(|peer| peer.broken_from.is_some());
        if content == 0.0 && !needed {
            self.settle(ask, bits, 0.0, false);
            return Coded::of_size(ask, 0);
        }
        let share = self.share(ask, level, bits);
        let cap = self.cap(now);
        let wanted = rate * self.config.bias * self.ratio(ask, content, noise) * share;
        let far = refers_to.filter(|_| ask.peer.is_some_and(|peer| peer.broken_from.is_some()));
        let back = far.map_or(1, |to| ask.frame.saturating_sub(to));
        let key = self.key(ask, content, level, back);
        let bytes = wanted.min(cap) * key * ask.interval.as_nanos() as f64 / 8e9;
        let bounded = ask.largest.filter(|_| ask.key || self.is_cut(ask));
        let bytes = bytes.min(bounded.map_or(f64::INFINITY, |largest| largest.get() as f64));
        self.settle(ask, bits, bytes * 8.0 / self.config.bias, wanted > cap);
        self.last = Some(ask.frame);
        let seen = level + self.bias + noise + if share == 1.0 { 0.0 } else { share.ln() };
        Coded {
            frame: ask.frame,
            // Rounded down as `Rate::bytes_in` does; the small number is far above the error of the products.
            size: (bytes + 1e-6).clamp(1.0, f64::from(u32::MAX)) as u32,
            payload: None,
            key: ask.key,
            refers_to,
            keeps: ask.peer.map(|_| ask.frame),
            target: ask.bitrate,
            pieces: Vec::new(),
            apart: false,
            quality: Some(self.config.table.quality_at(ask.frame, seen)),
            quantiser: self.config.table.quantiser_at(seen).map(Quantiser::Vp8),
            took: None,
            earlier: 0,
        }
    }
}

impl Encoder for EncoderModel {
    fn submit(&mut self, now: Time, _picture: Option<&Arc<RawFrame>>, ask: &Ask) -> Result<(), CodecError> {
        let coded = self.code(now, ask);
        self.ready.push_back((now + self.config.latency, coded));
        Ok(())
    }

    fn poll(&mut self, now: Time) -> Option<Coded> {
        let due = self.ready.front().is_some_and(|(at, _)| *at <= now);
        if due { self.ready.pop_front().map(|(_, coded)| coded) } else { None }
    }

    fn next_ready(&self) -> Option<Time> {
        self.ready.front().map(|(at, _)| *at)
    }

    fn refers_back(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use units::Bytes;

    use super::*;

    #[test]
    fn a_frame_that_refers_back_costs_more_than_a_delta_and_less_than_a_key_frame() {
        let table = Table::by_name("big_buck_bunny").unwrap();
        let config = ModelConfig { key_frame_ratio: Some(4.0), ..ModelConfig::perfect(table) };
        let size = |back: Option<u32>| {
            let known = back.map(|back| 40 - back);
            let peer = |i| Peer { known, broken_from: known.filter(|_| i == 40).map(|known| known + 1) };
            let asks = (0..41).map(|i| Ask { peer: Some(peer(i)), key: i == 0, ..ask(i, 4.0) });
            let coded = run(config.clone(), asks).pop().unwrap();
            assert!(!coded.key && coded.refers_to == Some(known.unwrap_or(39)));
            coded.size
        };
        let (usual, near, far) = (size(None), size(Some(4)), size(Some(30)));
        assert!(usual < near && near < far && far < usual * 4, "{usual}, {near}, {far}");
        let unknown = Ask { peer: Some(Peer { known: None, broken_from: Some(0) }), ..ask(1, 4.0) };
        assert!(run(config, [ask(0, 4.0), unknown].into_iter()).pop().unwrap().key);
    }

    const INTERVAL: Span = Span::from_nanos(16_666_667);

    fn run(config: ModelConfig, asks: impl Iterator<Item = Ask>) -> Vec<Coded> {
        let mut model = EncoderModel::new(config).unwrap();
        let mut now = Time::ZERO;
        let code = |ask: Ask| {
            model.submit(now, None, &ask).unwrap();
            now += ask.interval;
            model.poll(Time::MAX).unwrap()
        };
        asks.map(code).collect()
    }

    fn ask(frame: u32, mbps: f64) -> Ask {
        Ask {
            frame,
            bitrate: Rate::from_f64(mbps * 1e6),
            interval: INTERVAL,
            key: frame.is_multiple_of(50),
            largest: None,
            height: None,
            peer: None,
        }
    }

    fn perfect() -> ModelConfig {
        ModelConfig::perfect(Table::big_buck_bunny())
    }

    #[test]
    fn what_was_left_out_is_left_out_but_no_key_frame() {
        let mut table = Table::clone(&Table::big_buck_bunny());
        table.curves.iter_mut().for_each(|curve| (curve.bytes[50], curve.bytes[60]) = (0, 0));
        let recorded = |content| ModelConfig { content, ..ModelConfig::recorded(Arc::new(table.clone()), 1) };
        let missing = |config| -> Vec<u32> {
            let coded = run(config, (0..100).map(|i| ask(i, 2.0)));
            coded.iter().filter(|coded| coded.is_left_out()).map(|coded| coded.frame).collect()
        };
        // Frame 50 is asked for as a key frame, and as large as one.
        assert_eq!(missing(recorded(1.0)), [60]);
        let key = run(recorded(1.0), (0..51).map(|i| ask(i, 2.0))).pop().unwrap();
        let usual = 2e6 / 8.0 / 60.0 * table.fit.key_frame_ratio;
        assert!((0.5..2.0).contains(&(f64::from(key.size) / usual)), "{} of {usual}", key.size);
        assert!(missing(recorded(0.0)).is_empty());
    }

    #[test]
    fn a_perfect_encoder_hits_every_budget_exactly() {
        let mut rng = Rng::stream(1, "targets");
        for coded in run(perfect(), (0..2_000).map(|i| ask(i, rng.uniform_in(0.1, 90.0)))) {
            assert_eq!(
                Bytes::new(u64::from(coded.size)),
                coded.target.bytes_in(INTERVAL),
                "frame {}",
                coded.frame
            );
            assert!(coded.quality.is_some() && coded.payload.is_none());
        }
    }

    #[test]
    fn more_rate_looks_better() {
        let mean = |mbps: f64| {
            let coded = run(perfect(), (0..132).map(|i| ask(i, mbps)));
            coded.iter().map(|c| c.quality.unwrap().psnr_y).sum::<f64>() / 132.0
        };
        let at = [0.3, 1.0, 3.0, 10.0, 30.0].map(mean);
        assert!(at.windows(2).all(|w| w[1] > w[0] + 0.5), "{at:?}");
    }

    #[test]
    fn the_rate_lags_by_its_time_constants() {
        let frames = |lag_up, lag_down| {
            let config = ModelConfig { lag_up, lag_down, ..perfect() };
            let mbps = |i: u32| if (1..200).contains(&i) { 4.0 } else { 1.0 };
            run(config, (0..400).map(|i| ask(i, mbps(i))))
        };
        let coded = frames(INTERVAL * 6, INTERVAL * 2);
        // After one time constant 1/e of the logarithmic distance is left: 4 Mbit/s / 4^(1/e), and 1 Mbit/s *
        // 4^(1/e).
        let mbps = |i: usize| f64::from(coded[i].size) * 8.0 / INTERVAL.as_secs_f64() / 1e6;
        let left = 4f64.powf((-1f64).exp());
        assert!((mbps(6) - 4.0 / left).abs() < 0.02, "{}", mbps(6));
        assert!((mbps(199) - 4.0).abs() < 0.01);
        assert!((mbps(201) - left).abs() < 0.02, "{}", mbps(201));
    }

    #[test]
    fn bias_bounds_and_noise_shape_sizes() {
        let ratios = |config: ModelConfig| -> Vec<f64> {
            let coded = run(config, (0..20_000).map(|i| ask(i, 8.0)));
            coded.iter().map(|c| f64::from(c.size) * 8.0 / (8e6 * INTERVAL.as_secs_f64())).collect()
        };
        let free = ModelConfig { size_noise: 0.2, overshoot: 9.0, undershoot: 1.0, ..perfect() };
        let all = ratios(free.clone());
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let deviation = (all.iter().map(|r| (r.ln() + 0.02).powi(2)).sum::<f64>() / all.len() as f64).sqrt();
        assert!((mean - 1.0).abs() < 0.01 && (deviation - 0.2).abs() < 0.01, "{mean} {deviation}");
        // The clip's own cuts (here only its first frame) may exceed the bound.
        let bound = ratios(ModelConfig { overshoot: 0.1, undershoot: 0.3, ..free.clone() });
        let within = |(i, r): (usize, &f64)| (0.699..1.101).contains(r) || perfect().table.is_cut(i as u32);
        assert!(bound.iter().enumerate().all(within));
        let low = ratios(ModelConfig { bias: 0.6, ..free });
        assert!((low.iter().sum::<f64>() / low.len() as f64 - 0.6).abs() < 0.01);
    }

    #[test]
    fn caps_bind_in_their_windows_only() {
        let rate = Rate::from_mbps(2);
        let cap = Cap { start: Time::from_secs(1), end: Time::from_secs(2), rate };
        let coded = run(ModelConfig { caps: vec![cap], ..perfect() }, (0..180).map(|i| ask(i, 10.0)));
        let full = Rate::from_mbps(10).bytes_in(INTERVAL).get();
        for (i, coded) in coded.iter().enumerate() {
            // Frame 60 is submitted at 1.00000002 s.
            let expected = if (60..120).contains(&i) { rate.bytes_in(INTERVAL).get() } else { full };
            assert_eq!(u64::from(coded.size), expected, "frame {i}");
        }
    }

    #[test]
    fn key_frames_are_larger_and_latency_counts() {
        let config = ModelConfig { key_frame_ratio: Some(3.0), latency: Span::from_millis(7), ..perfect() };
        let mut model = EncoderModel::new(config).unwrap();
        for i in 0..2 {
            model.submit(Time::from_millis(10), None, &ask(i, 4.0)).unwrap();
        }
        assert_eq!(model.next_ready(), Some(Time::from_millis(17)));
        assert!(model.poll(Time::from_millis(16)).is_none());
        let (key, delta) =
            (model.poll(Time::from_millis(17)).unwrap(), model.poll(Time::from_millis(17)).unwrap());
        assert!(key.key && !delta.key && key.size.abs_diff(delta.size * 3) <= 3);
    }

    #[test]
    fn a_key_frame_is_paid_back() {
        let sizes = |memory| -> Vec<f64> {
            let config = ModelConfig { key_frame_ratio: Some(6.0), memory, ..perfect() };
            let coded = run(config, (0..120).map(|i| Ask { key: i == 30, ..ask(i, 4.0) }));
            coded.iter().map(|coded| f64::from(coded.size) / (4e6 / 8.0 * INTERVAL.as_secs_f64())).collect()
        };
        let over = |sizes: &[f64]| sizes.iter().sum::<f64>() - sizes.len() as f64;
        assert!((over(&sizes(Memory::NONE)) - 5.0).abs() < 0.01, "five frames' worth remain");
        for memory in [Memory::OPENH264, Memory::LIBVPX] {
            let sizes = sizes(memory);
            assert!(sizes[..30].iter().all(|size| (size - 1.0).abs() < 1e-3) && sizes[30] > 5.9);
            assert!(sizes[31..].iter().all(|size| *size >= memory.least - 1e-3));
            let left = over(&sizes) / 5.0;
            // What is owed shrinks by a share of 1 / payback a frame.
            let (payback, _) = memory.frames(INTERVAL.as_secs_f64());
            assert!(left < (-89.0 / payback).exp() + 0.02, "{left} of it is left");
        }
    }

    #[test]
    fn a_constant_rate_gives_what_was_recorded() {
        let table = Table::big_buck_bunny();
        let config = ModelConfig { size_noise: 0.0, ..ModelConfig::recorded(table.clone(), 1) };
        let interval = table.interval();
        for curve in table.curves.iter().skip(1) {
            let asks = (0..132).map(|i| Ask {
                bitrate: Rate::from_bps(curve.bps),
                interval,
                key: false,
                ..ask(i, 0.0)
            });
            let coded: u64 = run(config.clone(), asks).iter().map(|coded| u64::from(coded.size)).sum();
            let recorded: u64 = curve.bytes.iter().map(|&bytes| u64::from(bytes)).sum();
            let ratio = coded as f64 / recorded as f64;
            assert!((ratio - 1.0).abs() < 0.02, "{ratio} at {} bit/s", curve.bps);
        }
    }

    #[test]
    fn after_a_fall_no_more_is_coded_than_asked_for() {
        let config = ModelConfig::recorded(Table::big_buck_bunny(), 1);
        let mbps = |i: u32| if i < 300 { 2.0 } else { 0.441 };
        let coded = run(config, (0..1_500).map(|i| Ask { key: i % 300 == 0, ..ask(i, mbps(i)) }));
        let late: f64 = coded[360..].iter().map(|coded| f64::from(coded.size) * 8.0).sum();
        let share = late / (1_140.0 * 0.441e6 * INTERVAL.as_secs_f64());
        assert!((0.9..1.05).contains(&share), "{share} of what was asked for");
    }

    #[test]
    fn the_seed_decides_and_extremes_are_survived() {
        let config = |seed| ModelConfig::recorded(Table::big_buck_bunny(), seed);
        let sizes = |seed| {
            run(config(seed), (0..300).map(|i| ask(i, 5.0))).iter().map(|c| c.size).collect::<Vec<_>>()
        };
        assert_eq!(sizes(1), sizes(1));
        assert_ne!(sizes(1), sizes(2));
        for bitrate in [Rate::ZERO, Rate::MAX] {
            let extreme = |i| Ask { bitrate, interval: Span::from_secs(i), ..ask(i as u32, 0.0) };
            assert!(run(config(1), (0..60).map(extreme)).iter().all(|c| c.size >= 1));
        }
    }

    #[test]
    fn parameters_out_of_range_are_named() {
        let said = |config| EncoderModel::new(config).err().unwrap().to_string();
        assert_eq!(
            said(ModelConfig { undershoot: 1.5, ..perfect() }),
            "encoder model: undershoot is 1.5; 0 to 1 are possible"
        );
        assert!(said(ModelConfig { size_noise: f64::NAN, ..perfect() }).contains("size_noise"));
        assert!(said(ModelConfig { lag_up: Span::from_millis(-1), ..perfect() }).contains("lag_up"));
    }
}
