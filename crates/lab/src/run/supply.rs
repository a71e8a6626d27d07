//! What a flow of a scenario sends, built from its description.

use std::path::Path;
use std::sync::Arc;

use media::{
    Cap, ClipOptions, Codec, CodecConfig, CodecError, CodecOptions, Encoder, EncoderModel, ModelConfig,
    Resizing, Shelf, Source, SyntheticConfig, SyntheticGame, Table,
};
#[cfg(feature = "vixnn")]
use media::{VixnnConfig, VixnnEncoder, VixnnLooks, VixnnModelDecoder, VixnnTable};
use session::{Decoders, Supply, Tracks};
use units::{Rng, Span, Time};
use wire::Media;

use super::pictures::{Footage, MOST_BYTES, Originals, Watched};
use crate::scenario::{self, Behaviour, EncoderKind, SYNTHETIC, Scenario, ScenarioError};

/// Frames per second of sources that have no rate of their own (SQP's paper assumes it throughout).
const DEFAULT_FPS: f64 = 60.0;
/// Picture size of the synthetic source.
const DEFAULT_SIZE: scenario::PictureSize = scenario::PictureSize { width: 1280, height: 720 };

/// Clips that the runs of this process share, each below as many bytes as [`Originals`] hold.
static CLIPS: Shelf = Shelf::new(MOST_BYTES);

/// A flow's supply, and what the other end needs to make pictures of it again.
pub(super) struct Prepared {
    /// What the sender sends.
    pub supply: Supply,
    /// Time between frames; of a backlogged flow, what its controller is told.
    pub interval: Span,
    /// Picture size in pixels; zero where there are no pictures.
    pub picture: (u16, u16),
    /// Decoders and how frames look, where there is anything to decode.
    pub pictures: Option<Pictures>,
}

/// What makes pictures again, and what they should look like.
pub(super) type Pictures = (Decoders, Look);

/// How what is shown looks.
pub(super) enum Look {
    /// As what was captured, more or less: each picture is held against it.
    Measured(Originals),
    /// As a table says of what arrived; there are no pictures.
    #[cfg(feature = "vixnn")]
    Modelled(VixnnLooks),
}

/// Builds what flow number `index` sends.
pub(super) fn prepare(scenario: &Scenario, index: usize) -> Result<Prepared, ScenarioError> {
    let flow = &scenario.flows[index];
    let Some(video) = flow.video() else {
        let interval = interval_of(DEFAULT_FPS);
        return Ok(Prepared { supply: Supply::Backlog, interval, picture: (0, 0), pictures: None });
    };
    let choice = flow.choice();
    let strategy = session::strategy::build(&choice.strategy, &choice.recovery);
    let strategy =
        strategy.map_err(|e| scenario.error(format!("flow[{}].strategy", index + 1), e.to_string()))?;
    let tracks = strategy.tracks(0).len();
    match video.encoder.kind {
        EncoderKind::Model => model(scenario, index, &video.encoder, tracks),
        EncoderKind::VixnnModel => vixnn_model(scenario, index, video, tracks),
        EncoderKind::Codec(named) => codec(scenario, index, video, named, tracks),
    }
}

fn interval_of(fps: f64) -> Span {
    Span::from_secs_f64(1.0 / fps)
}

fn model(
    scenario: &Scenario,
    index: usize,
    encoder: &scenario::Encoder,
    tracks: usize,
) -> Result<Prepared, ScenarioError> {
    let (wanted, at) = (encoder.clone(), format!("flow[{}].encoder", index + 1));
    let table = Table::by_name(&wanted.table).ok_or_else(|| {
        scenario.error(format!("{at}.table"), format!("no table is called `{}`", wanted.table))
    })?;
    let interval = interval_of(wanted.fps.unwrap_or(DEFAULT_FPS));
    let full = (table.width, table.height);
    let smaller = Table::smaller(&wanted.table);
    // A clip that was recorded at one size only cannot change it. A size that is named is what the sender
    // says of its pictures, whatever they were recorded at.
    let picture = match wanted.size {
        Some(size) => (size.width as u16, size.height as u16),
        None if smaller.is_empty() => (0, 0),
        None => (full.0 as u16, full.1 as u16),
    };
    let encoder = |track: usize| {
        // Each track has randomness of its own; the first one's has the name it always had.
        let suffix = if track == 0 { String::new() } else { format!("{track}") };
        let mut seeds = Rng::stream(scenario.seed, &format!("flow{index}/encoder{suffix}"));
        let (wanted, table, smaller) = (wanted.clone(), table.clone(), smaller.clone());
        let open = move |(_, height): (usize, usize)| -> Result<Box<dyn Encoder>, CodecError> {
            let near = smaller.iter().min_by_key(|table| table.height.abs_diff(height));
            let table = near.filter(|_| height < full.1).unwrap_or(&table);
            Ok(Box::new(EncoderModel::new(behaviour(&wanted, table.clone(), seeds.next_u64()))?))
        };
        let encoder = Resizing::new(full, Box::new(open));
        let encoder = encoder.map_err(|error| scenario.error(&at, error.to_string()))?;
        Ok(Box::new(encoder) as Box<dyn Encoder>)
    };
    let encoders = (0..tracks).map(encoder).collect::<Result<_, _>>()?;
    let supply = Supply::Tracks(Tracks { encoders, source: None, interval });
    Ok(Prepared { supply, interval, picture, pictures: None })
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

fn codec(
    scenario: &Scenario,
    index: usize,
    video: &scenario::Video,
    codec: Codec,
    tracks: usize,
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
    let options = options(scenario, wanted);
    let config = CodecConfig {
        width,
        height,
        interval,
        initial: flow.initial,
        max: flow.max,
        slices: wanted.has_slices().then(|| payload(video)),
        latency: wanted.latency,
    };
    let encoder = |_| {
        let encoder = codec.encoder_with(config, &options).map_err(refuse)?;
        Ok(Box::new(encoder) as Box<dyn Encoder>)
    };
    let encoders = (0..tracks).map(encoder).collect::<Result<_, _>>()?;
    // That there is one is known before anything runs.
    let mut first = Some(codec.decoder_with(&options).map_err(refuse)?);
    let decoders: Decoders = Box::new(move |_| first.take().or_else(|| codec.decoder_with(&options).ok()));
    Ok(Prepared {
        supply: Supply::Tracks(Tracks { encoders, source: Some(Box::new(source)), interval }),
        interval,
        picture: (width as u16, height as u16),
        pictures: Some((decoders, Look::Measured(originals))),
    })
}

/// ViXNN by what was recorded of it.
#[cfg(feature = "vixnn")]
fn vixnn_model(
    scenario: &Scenario,
    index: usize,
    video: &scenario::Video,
    tracks: usize,
) -> Result<Prepared, ScenarioError> {
    let (flow, wanted) = (&scenario.flows[index], &video.encoder);
    let at = format!("flow[{}].encoder", index + 1);
    let table = match VixnnTable::by_name(&wanted.table) {
        Some(table) => table,
        None => {
            let read = VixnnTable::read(&scenario.beside(Path::new(&wanted.table)));
            Arc::new(read.map_err(|error| scenario.error(format!("{at}.table"), error.to_string()))?)
        }
    };
    let (width, height) = (table.width, table.height);
    if let Some(size) =
        wanted.size.filter(|size| (size.width as usize, size.height as usize) != (width, height))
    {
        let what =
            format!("{}x{} was not recorded; the table is of {width}x{height}", size.width, size.height);
        return Err(scenario.error(format!("{at}.size"), what));
    }
    let interval = wanted.fps.map_or(table.interval(), interval_of);
    let options = wanted.options();
    let base = VixnnConfig::new(width, height, interval);
    let config = VixnnConfig {
        max: flow.max,
        payload: payload(video),
        latency: wanted.latency.unwrap_or(base.latency),
        order: options.order.unwrap_or(base.order),
        group: options.group.unwrap_or(base.group),
        ..base
    };
    let encoder = |_| {
        let encoder = VixnnEncoder::modelled(config.clone(), &table);
        let encoder = encoder.map_err(|error| scenario.error(&at, error.to_string()))?;
        Ok(Box::new(encoder) as Box<dyn Encoder>)
    };
    let encoders = (0..tracks).map(encoder).collect::<Result<_, _>>()?;
    let looks = VixnnLooks::default();
    let told = looks.clone();
    let decoders: Decoders =
        Box::new(move |stream| Some(Box::new(VixnnModelDecoder::new(table.clone(), stream, told.clone()))));
    Ok(Prepared {
        supply: Supply::Tracks(Tracks { encoders, source: None, interval }),
        interval,
        picture: (width as u16, height as u16),
        pictures: Some((decoders, Look::Modelled(looks))),
    })
}

#[cfg(not(feature = "vixnn"))]
fn vixnn_model(
    scenario: &Scenario,
    index: usize,
    _: &scenario::Video,
    _: usize,
) -> Result<Prepared, ScenarioError> {
    let refused = Codec::by_name("vixnn").and_then(|codec| codec.check().err());
    let what = refused.map_or_else(String::new, |error| error.to_string());
    Err(scenario.error(format!("flow[{}].encoder.kind", index + 1), what))
}

/// Room for a frame's bytes in a packet.
fn payload(video: &scenario::Video) -> usize {
    video.session.mtu.get() as usize - Media::LEN
}

/// What only some codecs are told, a file by its path from here.
fn options(scenario: &Scenario, wanted: &scenario::Encoder) -> CodecOptions {
    let mut options = wanted.options();
    let beside = |name: &String| scenario.beside(Path::new(name)).display().to_string();
    options.model = options.model.map(|name| match name.ends_with(".safetensors") {
        true => beside(&name),
        false => name,
    });
    options
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
    let clip = CLIPS.open(&scenario.beside(Path::new(&wanted.clip)), options);
    clip.map(|clip| Footage::Clip(Box::new(clip)))
        .map_err(|error| scenario.error(format!("{at}.clip"), error.to_string()))
}
