//! The page's receiver and its control stream, without the browser.

use std::sync::{Arc, Mutex};

use cc::{ReceiverHalf, Setup};
use record::{NodeId, Tap};
use session::playout::{self, Playout};
use session::{Receiver, ReceiverConfig, ReceiverCounters};
use units::{HostClock, RemoteTime, Span, Time};
use wire::{Control, Endpoint, Kind, Message, RxMeta, Seen, SeenFrame, Status, Viewing, WireError};

use crate::clock::Clock;
use crate::exchange::Exchange;

/// A viewer of one connection. Sessions follow one another on it: the sender begins a new one (a `Hello` of
/// another number) when the person at the screen chooses another controller.
pub struct Viewer {
    receiver: Receiver,
    /// What the receiver, the browser's decoders and its screen share.
    pub exchange: Exchange,
    /// The sender's clock.
    pub clock: Clock,
    session: Option<u32>,
    /// The session before: a late packet of it begins nothing.
    ended: Option<u32>,
    controller: String,
    /// When frames are shown, as text; empty for the default.
    playout: String,
    /// Bytes of the control stream that are no whole message yet.
    stream: Vec<u8>,
    seen: Vec<SeenFrame>,
    /// Time between the sender's frames, as its hello says.
    interval: Option<Span>,
}

/// What the control stream brought, as the page wants to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Media may come.
    Ready,
    /// Turned away, with the refusal's number and words.
    Refused(u8, String),
    /// The server is done, and why.
    Bye(String),
    /// Connect again.
    Reload,
    /// The clock's estimate is better.
    Clock,
    /// How the sender is.
    Status(Box<Told>),
}

/// A sender's [`Status`], kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Its numbers; the texts in it are empty, and stand below.
    pub figures: Status<'static>,
    /// The controller at work.
    pub controller: String,
    /// What troubles it.
    pub trouble: String,
    /// What its strategy is at; empty if it does not say.
    pub mode: String,
}

impl Default for Viewer {
    fn default() -> Viewer {
        let exchange = Exchange::default();
        Viewer {
            receiver: receiver(None, "", "", &exchange),
            exchange,
            clock: Clock::default(),
            session: None,
            ended: None,
            controller: String::new(),
            playout: String::new(),
            stream: Vec::new(),
            seen: Vec::new(),
            interval: None,
        }
    }
}

/// A receiver of `session` under `controller`, which shows frames when `playout` says.
fn receiver(session: Option<u32>, controller: &str, playout: &str, exchange: &Exchange) -> Receiver {
    let config = ReceiverConfig { session, ..ReceiverConfig::default() };
    let recorder = Arc::new(Mutex::new(exchange.clone()));
    let tap = Tap::new(recorder, NodeId(0), HostClock::default());
    let (decoders, screen) = (exchange.clone(), Box::new(exchange.clone()));
    let receiver = Receiver::new(config, None, Some(screen), tap)
        .with_decoders(Box::new(move |stream| decoders.decoder(stream)))
        .with_half(half(controller));
    match policy(playout) {
        Some(policy) => receiver.with_playout(policy),
        None => receiver,
    }
}

/// The half of `controller` that lives on this side, if it has one and we know it.
fn half(controller: &str) -> Option<Box<dyn ReceiverHalf>> {
    let options = controller.parse().ok()?;
    cc::build_receiver(&options, &Setup::default()).ok()?
}

/// The playout policy of this name and options, if there is one.
fn policy(playout: &str) -> Option<Box<dyn Playout>> {
    playout::build(&playout.parse().ok()?).ok()
}

impl Viewer {
    /// From the next session on, frames are shown when `playout` says (`adaptive`); false if there is no such
    /// policy.
    pub fn set_playout(&mut self, playout: &str) -> bool {
        let known = policy(playout).is_some();
        if known {
            self.playout = playout.to_owned();
        }
        known
    }

    /// A datagram arrived.
    pub fn receive(&mut self, now: Time, datagram: &[u8]) {
        self.follow(datagram);
        let meta = RxMeta { length: datagram.len(), ..RxMeta::default() };
        self.receiver.receive(now, datagram, meta);
    }

    /// Begins with the first session heard, and anew with each that says hello. Whoever sends here has been
    /// let in: the connection is encrypted, and its peer known.
    fn follow(&mut self, datagram: &[u8]) {
        let Ok((kind, session)) = wire::peek(datagram) else { return };
        let first = self.session.is_none() && kind == Kind::Media;
        let control = (kind == Kind::Control).then(|| Control::decode(datagram));
        let hello = match control {
            Some(Ok(Control::Hello { interval_us, .. })) => Some(interval_us),
            _ => None,
        };
        if (first || hello.is_some()) && self.session != Some(session) && self.ended != Some(session) {
            self.ended = self.session;
            self.begin(session);
        }
        if let Some(us) = hello.filter(|us| *us > 0 && self.session == Some(session)) {
            self.interval = Some(Span::from_micros(i64::from(us)));
        }
    }

    fn begin(&mut self, session: u32) {
        self.session = Some(session);
        self.exchange = Exchange::default();
        self.receiver = receiver(self.session, &self.controller, &self.playout, &self.exchange);
        self.seen.clear();
    }

    /// Time between the sender's frames; `None` before it has said so.
    pub fn interval(&self) -> Option<Span> {
        self.interval
    }

    /// The session at present.
    pub fn session(&self) -> Option<u32> {
        self.session
    }

    /// Time has passed, or the browser has decoded something.
    pub fn wake(&mut self, now: Time) {
        self.receiver.wake(now);
    }

    /// When [`wake`](Viewer::wake) is wanted next.
    pub fn next_wake(&self) -> Option<Time> {
        self.receiver.next_wake().filter(|at| *at < Time::MAX)
    }

    /// The next datagram for the sender, written to `out`: its length.
    pub fn transmit(&mut self, now: Time, out: &mut [u8]) -> Option<usize> {
        self.receiver.transmit(now, out).map(|meta| meta.head)
    }

    /// What the receiver has counted in this session.
    pub fn counters(&self) -> ReceiverCounters {
        self.receiver.counters()
    }

    /// The sender said that nothing more will come.
    pub fn is_finished(&self) -> bool {
        self.receiver.is_finished()
    }

    /// How long ago, by the clocks' estimate, what the sender captured at `captured` was; `None` before there
    /// is one.
    pub fn age(&self, captured: RemoteTime, now: Time) -> Option<Span> {
        self.clock.localise(captured, now).map(|at| now - at)
    }

    /// Bytes of the control stream arrived; [`news`](Viewer::news) says what they mean. What is no message
    /// yet is kept, and is never longer than the longest message and the bytes just taken.
    pub fn take_stream(&mut self, bytes: &[u8]) {
        self.stream.extend_from_slice(bytes);
    }

    /// The next message of the control stream, if a whole one is there.
    ///
    /// # Errors
    /// [`WireError`] if the stream makes no sense; nothing after that does either.
    pub fn news(&mut self, now: Time) -> Result<Option<News>, WireError> {
        loop {
            let Some((message, length)) = Message::decode(&self.stream)? else { return Ok(None) };
            let news = match message {
                Message::Ready { offer, .. } => {
                    self.controller = offer.controller.to_owned();
                    Some(News::Ready)
                }
                Message::Refused { why, text } => Some(News::Refused(why as u8, text.to_owned())),
                Message::Bye { text } => Some(News::Bye(text.to_owned())),
                Message::Reload => Some(News::Reload),
                Message::Open { .. } | Message::Have { .. } => return Err(WireError::Field("kind")),
                Message::Unknown(_) => {
                    let bytes = self.stream[..length].to_vec();
                    Viewing::decode(&bytes)?.and_then(|viewing| self.hear(now, &viewing))
                }
            };
            self.stream.drain(..length);
            if news.is_some() {
                return Ok(news);
            }
        }
    }

    fn hear(&mut self, now: Time, viewing: &Viewing<'_>) -> Option<News> {
        match *viewing {
            Viewing::ClockTell { asked, heard, told } => {
                let remote = |us: u64| RemoteTime::from_nanos((us as i64).wrapping_mul(1_000));
                let asked = Time::from_nanos(asked.saturating_mul(1_000));
                self.clock.insert(asked, remote(heard), remote(told), now);
                Some(News::Clock)
            }
            Viewing::Status(status) => {
                self.learn_controller(&status);
                let Status { controller, trouble, mode, .. } = status;
                let figures = Status { controller: "", trouble: "", mode: "", ..status };
                let [controller, trouble, mode] = [controller, trouble, mode].map(str::to_owned);
                Some(News::Status(Box::new(Told { figures, controller, trouble, mode })))
            }
            // What viewers say is not for us.
            Viewing::ClockAsk { .. } | Viewing::Wish(_) | Viewing::Seen(_) => None,
        }
    }

    /// Another controller may have a half on this side, and it may be named only after its session has begun.
    fn learn_controller(&mut self, status: &Status<'_>) {
        if self.controller == status.controller {
            return;
        }
        self.controller = status.controller.to_owned();
        if self.session == Some(status.session) {
            self.receiver.set_half(half(&self.controller));
        }
    }

    /// Notes a frame that was shown, for [`write_seen`](Viewer::write_seen). If nobody asks, the oldest are
    /// forgotten.
    pub fn saw(&mut self, frame: SeenFrame) {
        if self.seen.len() == Seen::MOST {
            self.seen.remove(0);
        }
        self.seen.push(frame);
    }

    /// Writes what was shown since the last time to `out`, as a message of the control stream: its length, 0
    /// if there was nothing.
    pub fn write_seen(&mut self, out: &mut [u8]) -> usize {
        let Some(session) = self.session.filter(|_| !self.seen.is_empty()) else { return 0 };
        let length = Viewing::encode_seen(session, &self.seen, out);
        self.seen.clear();
        length
    }
}

#[cfg(test)]
mod tests;
