//! `framewire send`: a clip through encoder, session and UDP, in real time.

use std::ops::ControlFlow;
use std::sync::Arc;

use media::{CodecChoice, CodecConfig, Encoder, Source};
use real::{Channel, Counters, Driver, Limits, RealError, Settings, ThreadedEncoder};
use record::{Tap, Traffic, Vantage};
use serde_json::{Value, json};
use session::preset::Choice;
use session::{ModeCount, Remedy, Sender, SenderBuilder, SenderConfig, SenderCounters, Supply, Tracks, rate};
use units::{Rate, Span, Time};
use wire::Endpoint;

use super::clip::{Clip, open};
use super::log::Log;
use super::quic::{Dial, Line};
use super::watch::Watch;
use super::{catch_interrupts, codec_threads, go_on, quic, refuse_over_udp, refused, ticker};
use crate::args::{self, Rates, Send};
use crate::failure::Failure;
use crate::operations::{Figures, Sending, Streams, Verbosity};
use crate::output;
use crate::table::Table;
use crate::values::{Feed, Input, Scheme};

/// The longest datagram a session sends: an IPv4 packet of 1500.
const LONGEST_DATAGRAM: usize = 1472;
/// A clip that has not ended so long after the time asked for is cut.
const LATE: Span = Span::from_millis(100);

/// Sends until the clip or the time asked for ends.
pub fn send(args: &args::Send) -> Result<(), Failure> {
    let choice = args.choice().map_err(Failure::Input)?;
    let controller = choice.controller.as_str();
    if args.target.scheme == Scheme::Udp {
        refuse_protection(args)?;
    }
    output::warn_of_pair(controller, &choice.rate);
    args.codec.codec.check().map_err(Failure::input)?;
    let clip = Clip { input: &args.input, look: args.look, length: args.duration };
    let (source, trouble) = open(&clip)?;
    if let Feed::Clip(Input::File(path)) = &args.input {
        output::mention_sound(path);
    }
    let running = args.operations.start(Verbosity::warnings())?;
    let log = Log::open(
        args.qlog.as_ref(),
        Vantage::Sender,
        Traffic::Media,
        &format!("{} by {controller}", args.target),
    )?;
    let line = match args.target.scheme {
        Scheme::Udp => None,
        Scheme::Quic => Some(by_quic(args, controller)?),
    };
    let mut driver = match &line {
        Some(line) => Driver::over(line.channel.clone()),
        None => by_udp(args)?,
    };
    // Over QUIC a path's MTU is searched for, and the driver says what fits; a UDP socket knows no more than
    // we.
    let (most, first) = match &line {
        Some(line) => (args.mtu.map_or(LONGEST_DATAGRAM, usize::from), line.channel.max_datagram()),
        None => (args.mtu.map_or(SenderConfig::default().mtu, usize::from), usize::MAX),
    };
    let how = How {
        first: most.min(first),
        choice: &choice,
        codec: args.codec.clone(),
        slices: args.slices,
        session: session_number(&driver),
        mtu: most,
        rates: args.rates,
    };
    let mut sender = build(&how, &driver, source, log.tap())?;
    catch_interrupts();
    let start = driver.clock().now();
    let streams = Arc::new(Streams::default());
    let slot = streams.begin();
    running.board.show(move |out| streams.show(out));
    let _log = line.as_ref().map(|line| line.channel.span().enter());
    let mut watch = Watch::default();
    let run = drive(&mut driver, &mut sender, args, &mut |now, sender, driver| {
        output::warn(watch.look(now, sender));
        slot.post(Figures {
            driver: *driver,
            transport: line.as_ref().map(|line| line.channel.stats()),
            inbox: line.as_ref().map(|line| line.channel.inbox().counters()),
            sending: Some(Sending::of(sender)),
            ..Figures::default()
        });
    });
    let elapsed = driver.clock().now() - start;
    let ended = match (&line, run) {
        (Some(line), Ok(()) | Err(RealError::Ended { .. })) => quic::hang_up(line, "the sender is done"),
        (_, run) => run.map_err(Failure::work),
    };
    log.finish()?;
    trouble.check()?;
    if driver.counters().received == 0 {
        ended?;
        return Err(Failure::Work(format!(
            "{} has not answered; is `framewire receive` running there?",
            args.target
        )));
    }
    let warnings = output::pair(controller, &choice.rate).into_iter().chain(watch.told()).collect();
    report(args, &choice, &sender, &driver, elapsed, warnings);
    ended
}

/// Plain UDP has nobody who would look at a token, a pin or a name.
fn refuse_protection(args: &args::Send) -> Result<(), Failure> {
    let given = args.contact.given(&args.target).into_iter();
    let given = given.chain([("--name", !args.name.is_empty())]);
    refuse_over_udp(&args.target.to_string(), &Vec::from_iter(given))
}

fn by_quic(args: &args::Send, controller: &str) -> Result<Line, Failure> {
    let Send { target, contact, name, codec, .. } = args;
    quic::call(&Dial { target, contact, name, codec: codec.codec, controller })
}

fn by_udp(args: &args::Send) -> Result<Driver, Failure> {
    let peer = args.target.resolve().map_err(Failure::Input)?;
    Driver::connect(peer, &Settings::default()).map_err(refused)
}

/// Runs until all is sent, an interrupt, the end of the connection, or a silence that is too long.
fn drive(
    driver: &mut Driver,
    sender: &mut Sender,
    args: &args::Send,
    on_tick: &mut dyn FnMut(Time, &Sender, &Counters),
) -> Result<(), RealError> {
    let bar = ticker();
    let start = driver.clock().now();
    let limits = Limits { patience: Some(args.timeout), silence: Some(args.timeout), ..Limits::default() };
    let run = driver.run(sender, &limits, &mut |now, sender: &mut Sender, counters| {
        on_tick(now, sender, counters);
        // A slow input would take longer for its pictures.
        if args.duration.is_some_and(|length| now - start > length + LATE) {
            sender.end();
        }
        bar.set_message(progress(sender, now - start));
        // A sender that waits for nothing any more may not have looked at its clock since; only then is it
        // done.
        sender.wake(now);
        if sender.is_finished() { ControlFlow::Break(()) } else { go_on() }
    });
    bar.finish_and_clear();
    run
}

/// How a sender is to send.
pub struct How<'a> {
    /// The congestion controller and the policies.
    pub choice: &'a Choice,
    /// What codes the pictures.
    pub codec: CodecChoice,
    /// Whether frames are cut into slices.
    pub slices: bool,
    /// The session's number.
    pub session: u32,
    /// Largest datagram in bytes, if the path carries it.
    pub mtu: usize,
    /// What the path carries at first, which controllers count in.
    pub first: usize,
    /// The rate to start at, and the highest.
    pub rates: Rates,
}

/// A sender of `source`, its encoder on a thread of its own.
pub fn build(how: &How<'_>, driver: &Driver, source: Box<dyn Source>, tap: Tap) -> Result<Sender, Failure> {
    let (size, interval) = (source.size(), source.interval());
    // Its packets decode alone if it makes slices, or always.
    let sliced = how.slices || how.codec.codec.is_standalone();
    let config = CodecConfig {
        width: size.0,
        height: size.1,
        interval,
        initial: how.rates.initial,
        max: how.rates.max,
        slices: sliced.then_some(how.mtu.min(how.first) - wire::Media::LEN),
        // Encoding takes its own time here.
        latency: Some(Span::ZERO),
    };
    let strategy = session::strategy::build(&how.choice.strategy, &how.choice.recovery);
    let tracks = strategy.map_err(Failure::input)?.tracks(0).len();
    if let Some(fallback) = session::strategy::fallback(&how.choice.strategy) {
        output::above_status(|| eprintln!("note: {fallback}"));
    }
    let CodecChoice { codec, mut options } = how.codec.clone();
    if codec.options().contains(&"threads") {
        options.threads = options.threads.or(Some(codec_threads()));
    }
    let encoder = |_| {
        let encoder = codec.encoder_with(config, &options).map_err(Failure::input)?;
        let encoder = ThreadedEncoder::new(Box::new(encoder), driver.clock(), driver.waker());
        Ok(Box::new(encoder) as Box<dyn Encoder>)
    };
    let encoders = (0..tracks).map(encoder).collect::<Result<_, Failure>>()?;
    let sender = SenderBuilder::default()
        .choice(how.choice)
        .starting_at(how.rates.initial, how.rates.max)
        .session(how.session)
        .mtu(how.mtu)
        .path_mtu(how.first)
        .picture(size.0 as u16, size.1 as u16)
        .tap(tap)
        .supply(Supply::Tracks(Tracks { encoders, source: Some(source), interval }));
    sender.build().map_err(Failure::input)
}

/// A number that the last session of this machine is unlikely to have had.
pub fn session_number(driver: &Driver) -> u32 {
    let now = driver.clock().now().as_micros() as u32;
    now.rotate_left(12) ^ std::process::id()
}

fn progress(sender: &Sender, elapsed: Span) -> String {
    let counters = sender.counters();
    let media =
        rate::cc_rate(&sender.decision(), sender.srtt(), Rate::ZERO, Rate::ZERO).unwrap_or(Rate::ZERO);
    let mut line = format!(
        "{:.1} s  {} frames  {media}  srtt {} ms  {} lost",
        elapsed.as_secs_f64(),
        counters.encoded,
        srtt(sender),
        counters.lost
    );
    sender.observe_rate(&mut |name, value| match name {
        "alpha" => line += &format!("  alpha {value:.2}"),
        "height" => line += &format!("  {value:.0}p"),
        _ => {}
    });
    line += &format!("  {}", mode(sender));
    if counters.skipped + counters.resets > 0 {
        line += &format!("  {} skipped  {} resets", counters.skipped, counters.resets);
    }
    if counters.dummies > 0 {
        line += &format!("  {:.0} % dummies", 100.0 * dummy_share(&counters));
    }
    line
}

/// What the strategy is at, and how often it has begun that, if it is ever at anything else.
fn mode(sender: &Sender) -> String {
    let now = sender.modes().iter().find(|count| count.mode == sender.mode());
    match now.filter(|_| sender.modes().len() > 1) {
        Some(now) => format!("{} ({})", now.mode, now.entered),
        None => sender.mode().to_owned(),
    }
}

/// What the strategy has been at, for programs.
pub fn modes(modes: &[ModeCount]) -> Value {
    let each =
        |count: &ModeCount| json!({ "mode": count.mode, "frames": count.frames, "entered": count.entered });
    modes.iter().map(each).collect()
}

/// The round trip in ms, or a dash before it was measured.
fn srtt(sender: &Sender) -> String {
    sender.measured_srtt().map_or_else(|| "–".to_owned(), |srtt| format!("{:.1}", srtt.as_millis_f64()))
}

/// Dummies' share of the bytes sent.
fn dummy_share(counters: &SenderCounters) -> f64 {
    counters.dummy_bytes as f64 / counters.bytes.max(1) as f64
}

fn report(
    args: &args::Send,
    choice: &Choice,
    sender: &Sender,
    driver: &Driver,
    elapsed: Span,
    warnings: Vec<String>,
) {
    let c = sender.counters();
    let seconds = elapsed.as_secs_f64();
    let mean_bps = c.bytes as f64 * 8.0 / seconds;
    if args.format.json {
        output::json(&json!({
            "target": args.target.to_string(), "cc": args.cc.0[0], "controller": choice.controller, "rate": choice.rate, "duration_s": seconds,
            "frames": {
                "captured": c.captured, "encoded": c.encoded, "skipped": c.skipped, "shed": c.shed, "starved": c.starved, "expired": c.expired,
                "resumed": c.resumed, "resets": c.resets,
            },
            "strategy": choice.strategy, "recovery": choice.recovery, "modes": modes(sender.modes()),
            "picture": { "height": sender.height(), "changes": c.resized },
            "slow_encoder": sender.slow_encoder().map(|slow| json!({
                "frame_ms": slow.cost.as_millis_f64(), "rows": slow.rows,
                "limit": match slow.remedy { Remedy::Rows(rows) => Some(rows), Remedy::Frames => None },
            })),
            "dummies": { "sent": c.dummies, "share": dummy_share(&c) },
            "packets": { "sent": c.packets, "lost": c.lost, "spurious": c.spurious, "retransmitted": c.retransmissions },
            "datagrams": { "sent": driver.counters().sent, "unsent": driver.counters().unsent, "blocked": driver.counters().blocked, "longest": sender.mtu() },
            "throughput_bps": mean_bps, "srtt_ms": sender.measured_srtt().map(Span::as_millis_f64),
            "warnings": warnings,
            "refused": { "malformed": c.malformed, "foreign": c.foreign, "implausible": c.implausible },
        }));
        return;
    }
    let mut table = Table::new(["sent to", "s", "frames", "skipped", "packets", "lost", "Mbit/s", "srtt ms"]);
    table.row([
        args.target.to_string(),
        format!("{seconds:.1}"),
        c.encoded.to_string(),
        c.skipped.to_string(),
        c.packets.to_string(),
        c.lost.to_string(),
        format!("{:.2}", mean_bps / 1e6),
        srtt(sender),
    ]);
    print!("{table}");
}
