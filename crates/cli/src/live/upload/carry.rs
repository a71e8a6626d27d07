//! One sender after the other carries the upload, for as long as the endpoint can be reached now and then.

use std::ops::ControlFlow;

use media::{Codec, CodecConfig, CodecError, Encoder, Measuring, Source};
use real::quic::Said;
use real::{Channel, Clock, Counters, Driver, Ended, Limits, RealError, Settings, ThreadedEncoder};
use session::preset::Choice;
use session::{Sender, SenderBuilder, SenderConfig, Supply, Tracks, rate};
use units::{Rate, Span, Time};
use upload::Upload;
use wire::{Endpoint, Uploading};

use super::film::Film;
use super::{Args, progress, since};
use crate::failure::Failure;
use crate::live::quic::{self, Dial, Line};
use crate::live::send::session_number;
use crate::live::{go_on, ticker};
use crate::operations::{Figures, Running, Sending, Slot, Streams};
use crate::output;
use crate::values::Scheme;

/// Between two attempts to reach an endpoint that is away.
const AGAIN_AFTER: Span = Span::from_secs(1);
/// How often frames' SSIMs are told, and figures shown: a segment is made half a second after its last frame.
const TICK: Span = Span::from_millis(100);
/// The longest datagram a session sends: an IPv4 packet of 1500.
const LONGEST_DATAGRAM: usize = 1472;

/// What the senders did, all together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Carried {
    pub packets: u64,
    pub lost: u64,
    /// Frames of now that were not coded at first, ...
    pub left_out: u64,
    /// ... of these those that an encoder was too slow for.
    pub shed: u64,
    /// Connections, or sessions over UDP.
    pub connections: u64,
}

/// How a sender ended.
enum End {
    /// All is told and repaired, or somebody has interrupted us.
    Done,
    /// The endpoint is away; whether it has forgotten what it had, and why we think so.
    Away { forgot: bool, why: String },
}

/// Carries the upload to its end.
pub fn carry(args: &Args, upload: &Upload, film: &Film, running: &Running) -> Result<Carried, Failure> {
    let choice = Choice::of(Some(args.cc.only().map_err(Failure::Input)?), None, None);
    let streams = std::sync::Arc::new(Streams::default());
    let slot = streams.begin();
    running.board.show(move |out| streams.show(out));
    let carrier = Carrier { args, upload, film, choice, slot, begun: Clock::shared().now() };
    let mut carried = Carried::default();
    let mut line = carrier.dial()?;
    let mut forgot = false;
    loop {
        carried.connections += 1;
        let (end, counts) = carrier.send(line, forgot)?;
        carried.packets += counts.packets;
        carried.lost += counts.lost;
        carried.left_out += counts.skipped;
        carried.shed += counts.shed;
        match end {
            End::Done => return Ok(carried),
            End::Away { forgot: did, why } => {
                output::above_status(|| {
                    eprintln!("{why}; filming goes on, and the endpoint is called again")
                });
                forgot = did;
            }
        }
        line = match carrier.dial_again(&mut forgot)? {
            Some(line) => line,
            None => return Ok(carried),
        };
    }
}

struct Carrier<'a> {
    args: &'a Args,
    upload: &'a Upload,
    film: &'a Film,
    choice: Choice,
    slot: Slot,
    begun: Time,
}

impl Carrier<'_> {
    /// The connection, where there is such a thing.
    fn dial(&self) -> Result<Option<Line>, Failure> {
        let Args { target, contact, name, .. } = self.args;
        if target.scheme == Scheme::Udp {
            return Ok(None);
        }
        let controller = self.choice.controller.as_str();
        quic::call(&Dial { target, contact, name, codec: Codec::default(), controller }).map(Some)
    }

    /// Calls until the endpoint answers, and films meanwhile. `None` if somebody interrupted us.
    fn dial_again(&self, forgot: &mut bool) -> Result<Option<Option<Line>>, Failure> {
        let away = Clock::shared().now();
        loop {
            let answer = std::thread::scope(|scope| {
                let call = scope.spawn(|| self.dial());
                let until = Clock::shared().now() + AGAIN_AFTER;
                while go_on().is_continue() && (!call.is_finished() || Clock::shared().now() < until) {
                    self.film_alone();
                    if call.is_finished() && matches!(self.args.target.scheme, Scheme::Udp) {
                        break;
                    }
                }
                call.join().expect("dialling does not panic")
            });
            if go_on().is_break() {
                return Ok(None);
            }
            match answer {
                Ok(line) => return Ok(Some(line)),
                Err(error) if since(away) > self.args.timeout => return Err(error),
                // Nobody listens there: whoever does next is another process.
                Err(_) => *forgot = true,
            }
        }
    }

    /// Films for an interval without anybody to send to.
    fn film_alone(&self) {
        let clock = Clock::shared();
        let next = clock.now() + self.film.interval();
        self.upload.film_alone(clock.now(), &mut self.film.clone());
        clock.sleep_until(next);
    }

    /// Sends until all is done or the endpoint is away.
    fn send(&self, line: Option<Line>, forgot: bool) -> Result<(End, session::SenderCounters), Failure> {
        let mut driver = match &line {
            Some(line) => Driver::over(line.channel.clone()),
            None => {
                let peer = self.args.target.resolve().map_err(Failure::Input)?;
                Driver::connect(peer, &Settings::default()).map_err(Failure::input)?
            }
        };
        let mut sender = self.sender(&driver, line.as_ref(), forgot)?;
        let bar = ticker();
        let (mut heard, mut last) = (0, driver.clock().now());
        // Over UDP nobody tells of an endpoint that is away but its silence; over QUIC the connection does.
        let limits = Limits { patience: Some(self.args.timeout), tick: TICK, ..Limits::default() };
        let run = driver.run(&mut sender, &limits, &mut |now, sender: &mut Sender, counters: &Counters| {
            if counters.received > heard {
                (heard, last) = (counters.received, now);
            }
            self.post(sender, counters, line.as_ref());
            self.talk(line.as_ref());
            self.upload.tick(now);
            bar.set_message(self.progress(sender));
            sender.wake(now);
            let silent = line.is_none() && now - last > self.args.timeout;
            if sender.is_finished() || silent { ControlFlow::Break(()) } else { go_on() }
        });
        bar.finish_and_clear();
        let counters = sender.counters();
        let end = match (&line, run) {
            _ if sender.is_finished() || go_on().is_break() => End::Done,
            (Some(line), Ok(()) | Err(RealError::Ended { .. })) => away(line),
            (_, Err(error)) => return Err(Failure::work(error)),
            (None, Ok(())) if heard == 0 => {
                return Err(Failure::Work(format!(
                    "{} has not answered; is `framewire ingest` running there?",
                    self.args.target
                )));
            }
            (None, Ok(())) => End::Away { forgot: false, why: format!("silent for {}", self.args.timeout) },
        };
        if let Some(line) = &line {
            // Why it ended is told already.
            let _ = quic::hang_up(line, "the upload is done");
        }
        Ok((end, counters))
    }

    fn sender(&self, driver: &Driver, line: Option<&Line>, forgot: bool) -> Result<Sender, Failure> {
        let &Carrier { args, upload, film, ref choice, .. } = self;
        let (size, interval) = (film.size(), film.interval());
        let (most, first) = match line {
            Some(line) => (LONGEST_DATAGRAM, line.channel.max_datagram()),
            None => (SenderConfig::default().mtu, usize::MAX),
        };
        let strategy = upload.strategy_after(forgot);
        let (camera, archive) = (upload.camera(Box::new(film.clone())), upload.archive(size, interval));
        let again = archive.interval();
        let tracks = |source: Box<dyn Source>, interval| -> Result<Supply, Failure> {
            let encoder = encoder(size, interval, args.rates.max).map_err(Failure::input)?;
            let encoder = ThreadedEncoder::new(encoder, driver.clock(), driver.waker());
            Ok(Supply::Tracks(Tracks { encoders: vec![Box::new(encoder)], source: Some(source), interval }))
        };
        let sender = SenderBuilder::default()
            .choice(choice)
            .with_strategy(strategy)
            .starting_at(args.rates.initial, args.rates.max)
            .session(session_number(driver))
            .mtu(most)
            .path_mtu(first)
            .supply(tracks(camera, interval)?)
            .supply(tracks(archive, again)?);
        sender.build().map_err(Failure::input)
    }

    /// Tells the endpoint how good frames are, and hears who watches.
    fn talk(&self, line: Option<&Line>) {
        // Over UDP there is nothing to tell it by.
        let Some(Line { channel, .. }) = line else { return self.upload.tell(|_| true) };
        self.upload.tell(|frames| channel.say(Uploading::quality(frames)));
        if let Some(last) = self.upload.filmed() {
            channel.say(Uploading::filmed((last - Time::ZERO).as_nanos().unsigned_abs() / 1_000));
        }
        for said in channel.heard() {
            if let Said::Watching(watchers) = said {
                self.upload.watched(&watchers, self.args.delays.is_none());
            }
        }
    }

    fn post(&self, sender: &Sender, counters: &Counters, line: Option<&Line>) {
        self.slot.post(Figures {
            driver: *counters,
            transport: line.map(|line| line.channel.stats()),
            inbox: line.map(|line| line.channel.inbox().counters()),
            sending: Some(Sending::of(sender)),
            ..Figures::default()
        });
    }

    fn progress(&self, sender: &Sender) -> String {
        let rate =
            rate::cc_rate(&sender.decision(), sender.srtt(), Rate::ZERO, Rate::ZERO).unwrap_or(Rate::ZERO);
        progress(self.upload, self.film.interval(), since(self.begun), rate)
    }
}

/// Why the connection ended.
fn away(line: &Line) -> End {
    match line.channel.inbox().ended() {
        Some(ended) => End::Away {
            forgot: matches!(ended, Ended::Restarted),
            why: format!("quic://{}: {ended}", line.channel.peer()),
        },
        None => End::Done,
    }
}

/// An encoder that says how good its frames are.
fn encoder(
    (width, height): (usize, usize),
    interval: Span,
    max: Rate,
) -> Result<Box<dyn Encoder>, CodecError> {
    let codec = Codec::default();
    let latency = Some(Span::ZERO);
    let config = CodecConfig { width, height, interval, initial: max, max, slices: None, latency };
    Ok(Box::new(Measuring::new(codec.encoder(config)?, codec)?))
}
