//! `framewire receive`: QUIC or UDP through session and decoder to a file, in real time.

use std::collections::VecDeque;
use std::fs::File;
use std::io::BufWriter;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use cc::{OptionError, ReceiverHalf, Setup};
use media::{AnyDecoder, Codec, CodecOptions, RawFrame};
use real::{Channel, Counters, Driver, Limits, Peer, RealError, Settings, ThreadedDecoder};
use record::{Tap, Traffic, Vantage};
use serde_json::json;
use session::{Receiver, ReceiverConfig, Screen, Shown};
use units::{RelativeDelay, Span, Time};

use super::log::Log;
use super::play::Player;
use super::watch::DecoderWatch;
use super::y4m::Pictures;
use super::{catch_interrupts, codec_threads, go_on, quic, refuse_over_udp, refused, ticker};
use crate::args;
use crate::failure::Failure;
use crate::operations::{Figures, Slot, Streams, Verbosity};
use crate::output;
use crate::table::Table;
use crate::values::{Scheme, Sink};

/// Delays kept for percentiles: 36 minutes of 30 frames a second.
const DELAYS: usize = 1 << 16;
/// The rate a file is labelled with. Frames are shown when they come, and Y4M knows one rate only.
const LABEL: Span = Span::from_nanos(33_333_333);

/// A track that was heard of within this time is one that the sender codes at present: six frames of 30 a
/// second.
const LATELY: Span = Span::from_millis(200);

/// What the screen has seen.
#[derive(Default)]
struct Seen {
    /// Capture to display; the two clocks' offset is unknown, so only differences mean something.
    delays: VecDeque<RelativeDelay>,
    least: Option<RelativeDelay>,
    /// Pictures shown of each track, the first track first.
    by_track: Vec<u64>,
    file: Option<Recording>,
    window: Option<Player>,
    /// The window was closed.
    closed: bool,
    trouble: Option<String>,
}

/// A clip being written; the file is made with the first picture.
struct Recording {
    path: PathBuf,
    writer: Option<Pictures<BufWriter<File>>>,
}

impl Recording {
    fn write(&mut self, picture: &RawFrame) -> std::io::Result<()> {
        if self.writer.is_none() {
            let file = BufWriter::new(File::create(&self.path)?);
            self.writer = Some(Pictures::new(file, picture, LABEL)?);
        }
        self.writer.as_mut().map_or(Ok(()), |writer| writer.write(picture))
    }

    fn finish(self) -> std::io::Result<()> {
        self.writer.map_or(Ok(()), Pictures::finish)
    }
}

#[derive(Clone, Default)]
struct Viewer(Arc<Mutex<Seen>>);

impl Viewer {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().expect("the screen does not panic")
    }
}

impl Screen for Viewer {
    fn show(&mut self, now: Time, shown: &Shown) {
        let mut seen = self.seen();
        let delay = RelativeDelay::between(shown.captured, now);
        seen.least = Some(seen.least.map_or(delay, |least| least.min(delay)));
        if seen.delays.len() == DELAYS {
            seen.delays.pop_front();
        }
        seen.delays.push_back(delay);
        let track = usize::from(session::track_of(shown.stream));
        if seen.by_track.len() <= track {
            seen.by_track.resize(track + 1, 0);
        }
        seen.by_track[track] += 1;
        let Seen { file, window, closed, trouble, .. } = &mut *seen;
        if let (Some(window), Some(picture)) = (window, &shown.picture) {
            *closed = !window.show(picture);
        }
        if let (Some(file), Some(picture), None) = (file, &shown.picture, &trouble) {
            *trouble = file.write(picture).err().map(|error| format!("{}: {error}", file.path.display()));
        }
    }
}

impl Seen {
    /// Prepares for pictures.
    fn open(&mut self, output: &Sink) -> Result<(), Failure> {
        match output {
            Sink::Null => {}
            Sink::Play => self.window = Some(Player::open(LABEL)?),
            Sink::Y4m(path) => {
                let folder = path.parent().filter(|folder| folder.as_os_str().is_empty() || folder.is_dir());
                if path.is_dir() || folder.is_none() {
                    return Err(Failure::Input(format!(
                        "--output {}: its folder is not there",
                        path.display()
                    )));
                }
                self.file = Some(Recording { path: path.clone(), writer: None });
            }
        }
        Ok(())
    }

    /// Nobody looks any more, or nothing can be written.
    fn is_over(&self) -> bool {
        self.closed || self.trouble.is_some()
    }

    /// Closes file and window.
    fn finish(&mut self) -> Result<(), Failure> {
        self.window = None;
        if let Some(file) = self.file.take() {
            file.finish().map_err(Failure::work)?;
        }
        self.trouble.take().map_or(Ok(()), |trouble| Err(Failure::Work(trouble)))
    }

    /// A percentile of the delay above its own minimum, in ms.
    fn above_least_ms(&self, share: f64) -> Option<f64> {
        let least = self.least?;
        let mut delays: Vec<_> = self.delays.iter().map(|&delay| delay - least).collect();
        delays.sort_unstable();
        let rank = (share * delays.len() as f64).ceil() as usize;
        delays.get(rank.saturating_sub(1)).map(|span| span.as_millis_f64())
    }
}

/// Receives until the sender says that it is done, or is silent for too long.
pub fn receive(args: &args::Receive) -> Result<(), Failure> {
    if args.listen.scheme == Scheme::Udp {
        let given = [("--token", args.token.is_some()), ("--cert", args.certificate.cert.is_some())];
        let given = given.into_iter().chain(args.limits.given());
        refuse_over_udp(&format!("udp://{}", args.listen.at), &Vec::from_iter(given))?;
    }
    let viewer = Viewer::default();
    viewer.seen().open(&args.output)?;
    let options = options(args)?;
    half(args, "")?;
    let running = args.operations.start(Verbosity::warnings())?;
    let log =
        Log::open(args.qlog.as_ref(), Vantage::Receiver, Traffic::Media, &format!("{}", args.listen.at))?;
    catch_interrupts();
    let line = match args.listen.scheme {
        Scheme::Udp => None,
        Scheme::Quic => Some(quic::answer(args, &running)?),
    };
    let mut driver = match &line {
        Some(line) => Driver::over(line.channel.clone()),
        None => {
            let driver = Driver::open(args.listen.at, Peer::First, &Settings::default()).map_err(refused)?;
            eprintln!("listening on udp://{}", driver.local());
            driver
        }
    };
    let (mut receiver, mut watch) = build(args, options, &driver, line.as_ref(), &viewer, log.tap())?;
    let streams = Arc::new(Streams::default());
    let slot = streams.begin();
    running.board.show(move |out| streams.show(out));
    let _log = line.as_ref().map(|line| line.channel.span().enter());
    let heard = listen(&mut driver, &mut receiver, args.timeout, &viewer, &mut |now, receiver, driver| {
        output::warn(watch.look(now));
        post(&slot, line.as_ref(), receiver, driver, &viewer);
    });
    let ended = line.as_ref().map_or(Ok(()), |line| quic::hang_up(line, "the receiver is done"));
    log.finish()?;
    if let Some(error) = receiver.trouble() {
        return Err(of_the_sender(error));
    }
    let heard = heard?;
    let (scheme, local) = (args.listen.scheme, driver.local());
    if heard == Heard::Nothing {
        ended?;
        return Err(Failure::Work(format!("nothing came to {scheme}://{local} for {}", args.timeout)));
    }
    let mut seen = viewer.seen();
    seen.finish()?;
    report(args, &receiver, &seen, watch.told());
    // A sender that said that it is done may close in any way.
    if receiver.is_finished() {
        return Ok(());
    }
    ended?;
    if heard == Heard::ThenSilence {
        let peer = driver.peer().map_or_else(|| local.to_string(), |peer| peer.to_string());
        return Err(Failure::Work(format!(
            "{scheme}://{peer} has stopped sending {} ago, without a word that it is done",
            args.timeout
        )));
    }
    Ok(())
}

/// What a receiver heard until it ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Heard {
    /// Not one packet.
    Nothing,
    /// A sender, until one of the two had enough.
    Sender,
    /// A sender, and then nothing for as long as `--timeout` says.
    ThenSilence,
}

/// The receiver half of a controller: of the one that `--cc` names, else of the one that the sender says
/// before its first hello, which says it more exactly.
pub fn half(args: &args::Receive, said: &str) -> Result<Option<Box<dyn ReceiverHalf>>, Failure> {
    let (name, wrong): (&str, fn(OptionError) -> Failure) = match &args.cc {
        Some(list) => (list.only().map_err(Failure::Input)?, Failure::input),
        None if said.is_empty() => return Ok(None),
        None => (said, |error| of_the_sender(&error)),
    };
    cc::build_receiver(&name.parse().map_err(wrong)?, &Setup::default()).map_err(wrong)
}

fn of_the_sender(error: &OptionError) -> Failure {
    let error = output::plain(&error.to_string());
    Failure::Work(format!("the sender's controller is not known here, update the older of the two: {error}"))
}

/// What only some codecs are told, if they take it.
fn options(args: &args::Receive) -> Result<CodecOptions, Failure> {
    let model = args.vixnn_model.as_ref().map(|path| path.display().to_string());
    let temporal = args.vixnn_temporal;
    let given = model.is_some();
    let options = CodecOptions { model, threads: Some(codec_threads()), temporal, ..CodecOptions::default() };
    if given {
        Codec::VIXNN.check().and_then(|()| Codec::VIXNN.decoder_with(&options)).map_err(Failure::input)?;
    }
    Ok(options)
}

fn build(
    args: &args::Receive,
    options: CodecOptions,
    driver: &Driver,
    line: Option<&quic::Line>,
    viewer: &Viewer,
    tap: Tap,
) -> Result<(Receiver, DecoderWatch), Failure> {
    let half = half(args, line.map_or("", |line| &line.controller))?;
    let (told, clock, waker) = (viewer.clone(), driver.clock(), driver.waker());
    let decoder = move || {
        let told = told.clone();
        let decoder = AnyDecoder::new(move |error| {
            told.seen().trouble.get_or_insert(error.to_string());
        });
        ThreadedDecoder::new(Box::new(decoder.with_options(options.clone())), clock, waker.clone())
    };
    let (decoder, further) = (decoder(), decoder);
    let watch = DecoderWatch::new(decoder.times());
    let screen = Box::new(viewer.clone());
    let config = ReceiverConfig { conceal: args.conceal, ..ReceiverConfig::default() };
    let receiver = Receiver::new(config, Some(Box::new(decoder)), Some(screen), tap);
    let receiver = receiver.with_decoders(Box::new(move |_| Some(Box::new(further()))));
    let receiver = receiver.with_half(half).with_playout(args.playout.build());
    Ok((if args.cc.is_some() { receiver } else { receiver.following() }, watch))
}

/// Runs the driver.
fn listen(
    driver: &mut Driver,
    receiver: &mut Receiver,
    timeout: Span,
    viewer: &Viewer,
    on_tick: &mut dyn FnMut(Time, &Receiver, &Counters),
) -> Result<Heard, Failure> {
    let bar = ticker();
    let (mut packets, mut last) = (0, driver.clock().now());
    let mut silent = false;
    let run = driver.run(receiver, &Limits::default(), &mut |now, receiver: &mut Receiver, counters| {
        if counters.received > packets {
            (packets, last) = (counters.received, now);
        }
        on_tick(now, receiver, counters);
        bar.set_message(progress(receiver, now, &viewer.seen()));
        let over = receiver.is_finished() || receiver.trouble().is_some();
        let over = over || viewer.seen().is_over();
        silent = !over && now - last > timeout;
        if over || silent { ControlFlow::Break(()) } else { go_on() }
    });
    bar.finish_and_clear();
    match run {
        // Why a connection ended is told when it is hung up, after the figures.
        Ok(()) | Err(RealError::Ended { .. }) => Ok(match (driver.counters().received > 0, silent) {
            (false, _) => Heard::Nothing,
            (true, false) => Heard::Sender,
            (true, true) => Heard::ThenSilence,
        }),
        Err(error) => Err(Failure::work(error)),
    }
}

fn progress(receiver: &Receiver, now: Time, seen: &Seen) -> String {
    let c = receiver.counters();
    let mut line = format!("{} frames  {} abandoned  {} packets", c.displayed, c.abandoned, c.packets);
    let tracks = receiver.streams_since(now.saturating_sub(LATELY)).map(session::track_of);
    let tracks = Vec::from_iter(tracks.map(|track| track.to_string()));
    if seen.by_track.len() > 1 || tracks.len() > 1 {
        let shown = Vec::from_iter(seen.by_track.iter().map(u64::to_string));
        let tracks = if tracks.is_empty() { "none".to_owned() } else { tracks.join(" + ") };
        line += &format!("  shown by track {}  tracks arriving {tracks}", shown.join(" + "));
    }
    line
}

/// Copies how things stand to where metrics are shown from.
fn post(slot: &Slot, line: Option<&quic::Line>, receiver: &Receiver, driver: &Counters, viewer: &Viewer) {
    let seen = viewer.seen();
    let newest = seen.delays.back().zip(seen.least).map(|(&newest, least)| newest - least);
    slot.post(Figures {
        driver: *driver,
        transport: line.map(|line| line.channel.stats()),
        inbox: line.map(|line| line.channel.inbox().counters()),
        sending: None,
        receiving: Some(receiver.counters()),
        frame_delay: newest,
    });
}

fn report(args: &args::Receive, receiver: &Receiver, seen: &Seen, warning: Option<String>) {
    let c = receiver.counters();
    let delay = |share| seen.above_least_ms(share);
    if args.format.json {
        output::json(&json!({
            "frames": { "assembled": c.assembled, "displayed": c.displayed, "late": c.late, "passed_over": c.passed_over,
                        "abandoned": c.abandoned,
                        "concealed": c.concealed, "decode_errors": c.decode_errors, "by_track": seen.by_track },
            "packets": { "received": c.packets, "bytes": c.bytes, "duplicates": c.duplicates, "malformed": c.malformed,
                         "foreign": c.foreign, "stale": c.stale, "far_future": c.far_future, "buffer_full": c.buffer_full },
            "frame_delay_above_least_ms": { "p50": delay(0.5), "p90": delay(0.9), "p99": delay(0.99) },
            "warnings": Vec::from_iter(warning),
        }));
        return;
    }
    let ms = |share| delay(share).map_or("–".to_owned(), |ms| format!("{ms:.1}"));
    let mut table = Table::new(["frames", "late", "abandoned", "packets", "+delay p50 ms", "p90", "p99"]);
    table.row([
        c.displayed.to_string(),
        c.late.to_string(),
        c.abandoned.to_string(),
        c.packets.to_string(),
        ms(0.5),
        ms(0.9),
        ms(0.99),
    ]);
    print!("{table}");
    println!(
        "+delay: capture to display above the smallest seen; the offset between two machines' clocks is unknown."
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::playout::Arrival;

    #[test]
    fn delays_are_counted_from_the_smallest() {
        let mut viewer = Viewer::default();
        for (frame, ms) in [(0, 120), (1, 100), (2, 150), (3, 110)] {
            let captured = Time::from_secs(9).on_wire();
            let arrival = Arrival::default();
            let (late, concealed, picture) = (false, false, None);
            let shown = Shown { stream: 0, frame, version: 0, captured, late, arrival, concealed, picture };
            viewer.show(Time::from_millis(ms), &shown);
        }
        let seen = viewer.seen();
        assert_eq!((seen.above_least_ms(0.5), seen.above_least_ms(1.0)), (Some(10.0), Some(50.0)));
        assert_eq!(Seen::default().above_least_ms(0.5), None);
    }
}
