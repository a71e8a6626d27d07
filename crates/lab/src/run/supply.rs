//! What a flow of a scenario sends, built from its description.

use std::path::Path;
use std::sync::Arc;

use media::{
    Cap, Clip, ClipOptions, Codec, CodecConfig, CodecError, Decoder, Encoder, EncoderModel, ModelConfig,
    Resizing, Source, SyntheticConfig, SyntheticGame, Table,
};
use session::{Supply, Video};
use units::{Rng, Span, Time};
use wire::Media;

use super::pictures::{Footage, Originals, Watched};
use crate::scenario::{self, Behaviour, EncoderKind, SYNTHETIC, Scenario, ScenarioError};

/// Frames per second of sources that have no rate of their own (SQP's paper assumes it throughout).
const DEFAULT_FPS: f64 = 60.0;
/// Picture size of the synthetic source.
const DEFAULT_SIZE: scenario::PictureSize = scenario::PictureSize { width: 1280, height: 720 };

/// A flow's supply, and what the other end needs to make pictures of it again.
pub(super) struct Prepared {
    /// What the sender sends.
    pub supply: Supply,
    /// Time between frames; of a backlogged flow, what its controller is told.
    pub interval: Span,
    /// Picture size in pixels; zero where there are no pictures.
    pub picture: (u16, u16),
    /// Decoder and originals, where there are pictures.
    pub pictures: Option<Pictures>,
}

/// What makes pictures again, and what they should look like.
pub(super) type Pictures = (Box<dyn Decoder>, Originals);

/// Builds what flow number `index` sends.
pub(super) fn prepare(scenario: &Scenario, index: usize) -> Result<Prepared, ScenarioError> {
    let Some(video) = scenario.flows[index].video() else {
        let interval = interval_of(DEFAULT_FPS);
        return Ok(Prepared { supply: Supply::Backlog, interval, picture: (0, 0), pictures: None });
    };
    match video.encoder.kind {
        EncoderKind::Model => model(scenario, index, &video.encoder),
        EncoderKind::Codec(named) => codec(scenario, index, video, named),
    }
}

fn interval_of(fps: f64) -> Span {
    Span::from_secs_f64(1.0 / fps)
}

fn model(scenario: &Scenario, index: usize, encoder: &scenario::Encoder) -> Result<Prepared, ScenarioError> {
    let (wanted, at) = (encoder.clone(), format!("flow[{}].encoder", index + 1));
    let table = Table::by_name(&wanted.table).ok_or_else(|| {
        scenario.error(format!("{at}.table"), format!("no table is called `{}`", wanted.table))
    })?;
    let interval = interval_of(wanted.fps.unwrap_or(DEFAULT_FPS));
    let full = (table.width, table.height);
    let smaller = Table::smaller(&wanted.table);
    // A clip that was recorded at one size only cannot change it.
    let picture = if smaller.is_empty() { (0, 0) } else { (full.0 as u16, full.1 as u16) };
    let mut seeds = Rng::stream(scenario.seed, &format!("flow{index}/encoder"));
    let open = move |(_, height): (usize, usize)| -> Result<Box<dyn Encoder>, CodecError> {
        let near = smaller.iter().min_by_key(|table| table.height.abs_diff(height));
        let table = near.filter(|_| height < full.1).unwrap_or(&table);
        Ok(Box::new(EncoderModel::new(behaviour(&wanted, table.clone(), seeds.next_u64()))?))
    };
    let encoder =
        Resizing::new(full, Box::new(open)).map_err(|error| scenario.error(&at, error.to_string()))?;
    Ok(Prepared { supply: supply_of(encoder, None, interval), interval, picture, pictures: None })
}

/// The model that a scenario describes, of what was recorded in `table`.
fn behaviour(wanted: &scenario::Encoder, table: Arc<Table>, seed: u64) -> ModelConfig {
    let base = match wanted.behaviour {
        Behaviour::Perfect => ModelConfig { seed, ..ModelConfig::perfect(table) },
        Behaviour::Recorded => ModelConfig::recorded(table, seed),
    };
    let cap = |&(from, to, rate)| Cap { start: Time::ZERO + from, end: Time::ZERO + to, rate };
    ModelConfig {
        lag_up: wanted.lag_up.or(wanted.lag).unwrap_or(base.lag_up),
        lag_down: wanted.lag_down.or(wanted.lag).unwrap_or(base.lag_down),
        bias: wanted.bias.unwrap_or(base.bias),
        overshoot: wanted.overshoot.unwrap_or(base.overshoot),
        undershoot: wanted.undershoot.unwrap_or(base.undershoot),
        content: wanted.content.unwrap_or(base.content),
        size_noise: wanted.noise.unwrap_or(base.size_noise),
        key_frame_ratio: wanted.key_ratio.or(base.key_frame_ratio),
        latency: wanted.latency.unwrap_or(base.latency),
        caps: wanted.cap.iter().map(cap).collect(),
        ..base
    }
}

fn supply_of(encoder: Resizing, source: Option<Box<dyn Source>>, interval: Span) -> Supply {
    Supply::Video(Video { encoder: Box::new(encoder), source, interval })
}

fn codec(
    scenario: &Scenario,
    index: usize,
    video: &scenario::Video,
    codec: Codec,
) -> Result<Prepared, ScenarioError> {
    let (flow, wanted) = (&scenario.flows[index], &video.encoder);
    let at = format!("flow[{}].encoder", index + 1);
    let refuse = |error: media::CodecError| scenario.error(&at, error.to_string());
    let originals = Originals::default();
    let source = Watched {
        footage: footage(scenario, wanted, &at)?,
        originals: originals.clone(),
        barcode: wanted.barcode,
    };
    let ((width, height), interval) = (source.size(), source.interval());
    let config = CodecConfig {
        width,
        height,
        interval,
        initial: flow.initial,
        max: flow.max,
        slices: wanted.slices.then_some(video.session.mtu.get() as usize - Media::LEN),
        latency: wanted.latency,
    };
    let encoder = codec.encoder(config).map_err(refuse)?;
    let decoder = codec.decoder().map_err(refuse)?;
    Ok(Prepared {
        supply: supply_of(encoder, Some(Box::new(source)), interval),
        interval,
        picture: (width as u16, height as u16),
        pictures: Some((decoder, originals)),
    })
}

fn footage(scenario: &Scenario, wanted: &scenario::Encoder, at: &str) -> Result<Footage, ScenarioError> {
    if wanted.clip == SYNTHETIC {
        let size = wanted.size.unwrap_or(DEFAULT_SIZE);
        let config = SyntheticConfig::new(size.width as usize, size.height as usize);
        let interval = interval_of(wanted.fps.unwrap_or(DEFAULT_FPS));
        let game = SyntheticGame::new(SyntheticConfig { interval, seed: scenario.seed, ..config });
        return Ok(Footage::Endless(Box::new(game)));
    }
    let options = ClipOptions {
        loop_clip: true,
        max_frames: None,
        fps: wanted.fps,
        size: wanted.size.map(|size| (size.width as usize, size.height as usize)),
    };
    let clip = Clip::open(&scenario.beside(Path::new(&wanted.clip)), options);
    clip.map(|clip| Footage::Clip(Box::new(clip)))
        .map_err(|error| scenario.error(format!("{at}.clip"), error.to_string()))
}
