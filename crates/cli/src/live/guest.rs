//! One viewer of `framewire serve`: a sender, an encoder and a clip of its own, for as long as it looks.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use cc::Setup;
use media::{RawFrame, Source};
use real::quic::{AdmissionWatch, Reason};
use real::web::{Heard, Visitor, WebChannel};
use real::{Channel, Counters, Driver, Limits, STEADY_DATAGRAM};
use record::Tap;
use session::Sender;
use tracing::{error, info, warn};
use units::{Rate, Span, Time};
use wire::{Endpoint, Offer, Status, Viewing};

use super::clip::{Clip, Trouble, open};
use super::send::{self, How};
use super::serve::{Note, Show, date_us};
use super::watch::Watch;
use crate::args::Rates;
use crate::failure::Failure;
use crate::operations::{Figures, Sending, Slot, Streams};

/// How often a viewer's wishes are heard, and twice how often it is told figures.
const TICK: Span = Span::from_millis(100);
/// A WebTransport datagram carries its session's number (RFC 9297 section 2.1).
const SESSION_ID: usize = 8;
/// A silent viewer keeps its place for so long when another wants it: three of the questions for the clock
/// that pages ask each second.
const SILENCE: Span = Span::from_secs(3);
/// Delays kept for the closing line: 36 minutes of 30 frames a second.
const DELAYS: usize = 1 << 16;

/// Opens the clip, to be repeated for as long as anybody looks.
pub fn clip(show: &Show) -> Result<(Box<dyn Source>, Trouble), Failure> {
    open(&Clip { input: &show.input, look: show.look, length: Some(Span::MAX) })
}

/// A clip that goes on where it was when one sender takes over from another, and notes each picture.
#[derive(Clone)]
struct Shared {
    source: Arc<Mutex<Box<dyn Source>>>,
    size: (usize, usize),
    interval: Span,
    pictures: Arc<AtomicU32>,
    /// The session at present and the picture it began with.
    session: (u32, u32),
    show: Arc<Show>,
    viewer: u64,
}

impl Source for Shared {
    fn size(&self) -> (usize, usize) {
        self.size
    }
    fn interval(&self) -> Span {
        self.interval
    }
    fn is_ready(&mut self) -> bool {
        self.source.lock().expect("a clip does not panic").is_ready()
    }
    fn next_picture(&mut self) -> Option<Arc<RawFrame>> {
        let at = date_us();
        let picture = self.pictures.fetch_add(1, Ordering::Relaxed);
        let (session, first) = self.session;
        let note = Note::Captured { session, frame: picture - first, picture, at };
        (self.show.notes)(self.viewer, &note);
        self.source.lock().expect("a clip does not panic").next_picture()
    }
}

/// What the viewer wants, and why it did not get it or would better not have.
struct Wishes {
    paused: bool,
    max: Rate,
    controller: String,
    trouble: String,
}

/// What was seen, for the closing line.
#[derive(Default)]
struct Seen {
    frames: u64,
    delays_ms: Vec<f64>,
}

struct Guest {
    number: u64,
    show: Arc<Show>,
    admission: AdmissionWatch,
    channel: Arc<WebChannel>,
    wishes: Wishes,
    seen: Seen,
    /// Where metrics are shown from.
    slot: Slot,
}

/// How long a viewer has been silent. A page speaks several times a second, and a tunnel may last for as long
/// as `--idle`; but one whose browser was killed says no goodbye, and must not keep others out meanwhile.
#[derive(Default)]
struct Silence {
    since: Time,
    /// UDP datagrams received by then.
    received: u64,
    /// Viewers turned away by then, for want of a place.
    turned_away: u64,
}

impl Silence {
    /// Whether the viewer has been silent for [`SILENCE`] and another has been turned away meanwhile.
    fn is_too_long(&mut self, now: Time, received: u64, turned_away: u64) -> bool {
        if received != self.received {
            *self = Silence { since: now, received, turned_away };
        }
        received > 0 && now - self.since >= SILENCE && turned_away > self.turned_away
    }
}

/// Why a sender stopped.
enum Next {
    /// Another controller is wished for.
    Begin,
    /// The viewer has gone, or the clip has ended.
    Over(String),
}

/// Shows `visitor` the clip until they go.
pub fn entertain(
    show: &Arc<Show>,
    streams: &Arc<Streams>,
    admission: &AdmissionWatch,
    number: u64,
    visitor: Visitor,
) {
    let offer = Offer { codec: "", controller: &show.controller };
    let Some(channel) = visitor.welcome(&offer) else { return };
    let _log = channel.span().clone().entered();
    info!("viewer {number} watches");
    let wishes = Wishes {
        paused: false,
        max: show.rates.max,
        controller: show.controller.clone(),
        trouble: show.advice(&show.controller),
    };
    let slot = streams.begin();
    let (show, admission) = (show.clone(), admission.clone());
    let mut guest = Guest { number, show, admission, channel, wishes, seen: Seen::default(), slot };
    let end = guest.play().unwrap_or_else(|failure| {
        error!("viewer {number} can't be shown anything: {}", failure.text());
        "the server can't play its clip; its log says why".to_owned()
    });
    guest.channel.farewell(&end);
    info!("viewer {number} has left: {end}; {}", guest.seen.closing());
}

impl Guest {
    fn play(&mut self) -> Result<String, Failure> {
        let mut driver = Driver::over(self.channel.clone());
        let (source, trouble) = clip(&self.show)?;
        let mut source = Shared {
            size: source.size(),
            interval: source.interval(),
            source: Arc::new(Mutex::new(source)),
            pictures: Arc::default(),
            session: (0, 0),
            show: self.show.clone(),
            viewer: self.number,
        };
        loop {
            let session = send::session_number(&driver);
            source.session = (session, source.pictures.load(Ordering::Relaxed));
            let mut sender = self.sender(&driver, session, source.clone())?;
            if let Next::Over(why) = self.drive(&mut driver, &mut sender, session) {
                trouble.check()?;
                return Ok(why);
            }
        }
    }

    fn sender(&self, driver: &Driver, session: u32, source: Shared) -> Result<Sender, Failure> {
        let how = How {
            choice: &self.show.choice(&self.wishes.controller),
            codec: self.show.codec.clone(),
            slices: false,
            session,
            mtu: STEADY_DATAGRAM - SESSION_ID,
            first: STEADY_DATAGRAM - SESSION_ID,
            rates: Rates { initial: self.show.rates.initial.min(self.show.rates.max), ..self.show.rates },
        };
        send::build(&how, driver, Box::new(source), Tap::default())
    }

    fn drive(&mut self, driver: &mut Driver, sender: &mut Sender, session: u32) -> Next {
        let limits = Limits { tick: TICK, ..Limits::default() };
        let (mut next, mut ticks) = (Next::Over("the clip ended".to_owned()), 0u64);
        let (mut silence, mut watch) = (Silence::default(), Watch::default());
        self.grant(driver.clock().now(), sender);
        let run = driver.run(sender, &limits, &mut |now, sender, counters| {
            self.post(sender, counters);
            watch.look(now, sender).into_iter().for_each(|line| warn!("{line}"));
            let turned_away = self.admission.counters().refused(Reason::Guests);
            // Not the driver's count: one that is paused answers nothing, and still speaks on its control
            // stream.
            if silence.is_too_long(now, self.channel.stats().udp_received, turned_away) {
                next = Next::Over(format!("silent for {SILENCE}, and others wait for a place"));
                return ControlFlow::Break(());
            }
            if self.listen(now, sender) {
                next = Next::Begin;
                return ControlFlow::Break(());
            }
            if ticks.is_multiple_of(2) {
                self.tell(sender, session);
            }
            ticks += 1;
            let note = Note::Sent {
                session,
                at: date_us(),
                bytes: sender.counters().bytes,
                estimate: sender.decision().media,
                mode: sender.mode(),
                modes: sender.modes(),
            };
            (self.show.notes)(self.number, &note);
            // A sender that waits for nothing any more may not have looked at its clock since; only then is
            // it done.
            sender.wake(now);
            if sender.is_finished() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        match run {
            Ok(()) => next,
            Err(error) => Next::Over(error.to_string()),
        }
    }

    /// Hears what the viewer has to say; true if another controller is to begin.
    fn listen(&mut self, now: Time, sender: &mut Sender) -> bool {
        let mut begin = false;
        for heard in self.channel.heard() {
            match heard {
                Heard::Wish { paused, max_bps, controller } => {
                    begin |= self.wish(paused, max_bps, &controller);
                    self.grant(now, sender);
                }
                Heard::Seen { session, frames } => {
                    for frame in frames {
                        self.seen.note(f64::from(frame.delay_us) / 1e3);
                        (self.show.notes)(self.number, &Note::Seen { session, frame });
                    }
                }
            }
        }
        begin
    }

    /// Takes a wish; true if it asks for another controller, which there is.
    fn wish(&mut self, paused: bool, max_bps: u64, controller: &str) -> bool {
        self.wishes.paused = paused;
        self.wishes.max =
            if max_bps == 0 { self.show.rates.max } else { Rate::from_bps(max_bps).min(self.show.rates.max) };
        if controller.is_empty() || controller == self.wishes.controller {
            self.wishes.trouble = self.advice(&self.wishes.controller);
            return false;
        }
        let options = self.show.choice(controller).controller.parse();
        match options.and_then(|options| cc::build(&options, &Setup::default())) {
            Ok(_) => {
                controller.clone_into(&mut self.wishes.controller);
                self.wishes.trouble = self.advice(controller);
                true
            }
            Err(error) => {
                self.wishes.trouble = error.to_string();
                false
            }
        }
    }

    /// What is to be known of a controller under the server's rate policy, if anything.
    fn advice(&self, controller: &str) -> String {
        self.show.advice(controller)
    }

    fn grant(&self, now: Time, sender: &mut Sender) {
        sender.set_paused(now, self.wishes.paused);
        sender.set_max(self.wishes.max);
    }

    /// Copies how things stand to where metrics are shown from.
    fn post(&self, sender: &Sender, driver: &Counters) {
        self.slot.post(Figures {
            driver: *driver,
            transport: Some(self.channel.stats()),
            inbox: Some(self.channel.inbox().counters()),
            sending: Some(Sending::of(sender)),
            ..Figures::default()
        });
    }

    fn tell(&self, sender: &Sender, session: u32) {
        let counters = sender.counters();
        let slow = sender.slow_encoder().map_or_else(String::new, |slow| slow.to_string());
        let status = Status {
            session,
            paused: self.wishes.paused,
            max_bps: if self.wishes.max < self.show.rates.max { self.wishes.max.as_bps() } else { 0 },
            estimate_bps: sender.decision().media.map_or(0, Rate::as_bps),
            srtt_us: sender
                .measured_srtt()
                .map_or(0, |srtt| srtt.as_micros().clamp(0, i64::from(u32::MAX)) as u32),
            packets: counters.packets,
            lost: counters.lost.saturating_sub(counters.spurious),
            captured: counters.captured,
            skipped: counters.skipped,
            controller: &self.wishes.controller,
            trouble: if self.wishes.trouble.is_empty() { &slow } else { &self.wishes.trouble },
            mode: sender.mode(),
            mode_changes: mode_changes(sender),
        };
        // A viewer that does not read is told the next time.
        let _ = self.channel.say(&Viewing::Status(status));
    }
}

/// How often the strategy's mode has changed.
fn mode_changes(sender: &Sender) -> u32 {
    let begun: u64 = sender.modes().iter().map(|count| count.entered).sum();
    u32::try_from(begun.saturating_sub(1)).unwrap_or(u32::MAX)
}

impl Seen {
    fn note(&mut self, delay_ms: f64) {
        if self.delays_ms.len() < DELAYS {
            self.delays_ms.push(delay_ms);
        }
        self.frames += 1;
    }

    fn closing(&mut self) -> String {
        self.delays_ms.sort_by(f64::total_cmp);
        let rank = |share: f64| (share * self.delays_ms.len() as f64) as usize;
        let delay = |share| self.delays_ms.get(rank(share).min(self.delays_ms.len().saturating_sub(1)));
        match (delay(0.5), delay(0.95)) {
            (Some(median), Some(p95)) => {
                format!("{} frames shown, delay p50 {median:.0} ms, p95 {p95:.0} ms", self.frames)
            }
            _ => "no frame shown".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_viewer_makes_room_only_where_room_is_wanted() {
        let mut silence = Silence::default();
        let ms = Time::from_millis;
        assert!(
            !silence.is_too_long(ms(9_000), 0, 0),
            "one that has not spoken yet is admission control's business"
        );
        assert!(!silence.is_too_long(ms(10_000), 5, 7));
        assert!(!silence.is_too_long(ms(19_000), 5, 7), "nobody wants its place");
        assert!(silence.is_too_long(ms(19_100), 5, 8));
        // One that speaks again stays, whoever was turned away before.
        assert!(!silence.is_too_long(ms(19_200), 6, 8));
        assert!(!silence.is_too_long(ms(22_100), 6, 9), "not for long enough");
        assert!(silence.is_too_long(ms(22_200), 6, 9));
    }

    #[test]
    fn the_closing_line_tells_the_delays() {
        let mut seen = Seen::default();
        assert_eq!(seen.closing(), "no frame shown");
        (0..100).for_each(|ms| seen.note(f64::from(ms)));
        assert_eq!(seen.closing(), "100 frames shown, delay p50 50 ms, p95 95 ms");
    }
}
