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
    /// What the receiver, the browser's decoder and its screen share.
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
    /// The sender's figures, its controller and what troubles it.
    Status(Box<Figures>, String, String),
}

/// The numbers of a [`Status`].
pub type Figures = Status<'static>;

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
    let (decoder, screen) = (Box::new(exchange.clone()), Box::new(exchange.clone()));
    let receiver = Receiver::new(config, Some(decoder), Some(screen), tap).with_half(half(controller));
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
                let figures = Status { controller: "", trouble: "", ..status };
                Some(News::Status(Box::new(figures), status.controller.to_owned(), status.trouble.to_owned()))
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
mod tests {
    use super::*;
    use bytes::Bytes;
    use media::{Ask, CodecError, Coded, Encoder, RawFrame};
    use session::{Policies, Sender, SenderConfig, Supply, Video};
    use units::Rng;
    use wire::{Offer, Refusal};

    /// A picture is its frame's number.
    struct Numbers(Option<Coded>);

    impl Encoder for Numbers {
        fn submit(&mut self, _: Time, _: Option<&Arc<RawFrame>>, ask: &Ask) -> Result<(), CodecError> {
            let payload = Some(Bytes::from(vec![ask.frame as u8; 3_000]));
            let (frame, key, target) = (ask.frame, ask.key, ask.bitrate);
            self.0 = Some(Coded {
                frame,
                size: 3_000,
                payload,
                key,
                refers_to: None,
                keeps: None,
                target,
                pieces: Vec::new(),
                quality: None,
                quantiser: None,
                took: None,
            });
            Ok(())
        }
        fn poll(&mut self, _: Time) -> Option<Coded> {
            self.0.take()
        }
        fn next_ready(&self) -> Option<Time> {
            None
        }
    }

    fn sender(session: u32, controller: &str) -> Sender {
        let setup = Setup { frame_interval: Span::from_millis(20), ..Setup::default() };
        let controller = cc::build(&controller.parse().unwrap(), &setup).unwrap();
        let video = Video { encoder: Box::new(Numbers(None)), source: None, interval: setup.frame_interval };
        let config = SenderConfig { session, ..SenderConfig::default() };
        let rng = Rng::stream(1, "sender");
        let supplies = vec![Supply::Video(video)];
        Sender::new(config, &setup, controller, Policies::default(), supplies, rng, Tap::default())
    }

    /// Carries datagrams both ways from `from` ms on for `ms`, with `lose` deciding which of the sender's are
    /// lost; the browser decodes at once. Returns what was shown.
    fn converse(
        sender: &mut Sender,
        viewer: &mut Viewer,
        from: u64,
        ms: u64,
        mut lose: impl FnMut() -> bool,
    ) -> Vec<u32> {
        let (mut shown, mut out) = (Vec::new(), [0; wire::MAX_DATAGRAM]);
        for now in (from..from + ms).map(Time::from_millis) {
            sender.wake(now);
            while let Some(meta) = sender.transmit(now, &mut out) {
                let mut datagram = out[..meta.head].to_vec();
                datagram.extend_from_slice(&meta.payload.unwrap_or_default());
                datagram.resize(meta.length, 0);
                if !lose() {
                    viewer.receive(now, &datagram);
                }
            }
            while let Some(coded) = viewer.exchange.take_coded() {
                assert_eq!((coded.bytes.len(), coded.bytes[0]), (3_000, coded.frame as u8));
                viewer.exchange.decoded(coded.frame);
                viewer.wake(now);
            }
            viewer.wake(now);
            while let Some(due) = viewer.exchange.take_due() {
                shown.push(due.frame);
            }
            while let Some(length) = viewer.transmit(now, &mut out) {
                sender.receive(now, &out[..length], RxMeta { length, ..RxMeta::default() });
            }
        }
        shown
    }

    #[test]
    fn what_is_sent_is_shown_and_acknowledged() {
        let (mut sender, mut viewer) = (sender(7, "sqp"), Viewer::default());
        let shown = converse(&mut sender, &mut viewer, 0, 1_000, || false);
        assert!(shown.len() >= 48 && shown.iter().copied().eq(0..shown.len() as u32), "{shown:?}");
        let counters = viewer.counters();
        assert_eq!((counters.abandoned, counters.decode_errors, sender.counters().lost), (0, 0, 0));
        assert!(sender.srtt() < Span::from_millis(25), "feedback came: {}", sender.srtt());
    }

    #[test]
    fn a_playout_policy_is_followed_from_the_next_session_on() {
        let (mut sender, mut viewer) = (sender(7, "sqp"), Viewer::default());
        assert!(!viewer.set_playout("smooth") && viewer.set_playout("fixed:delay=300ms"));
        let shown = converse(&mut sender, &mut viewer, 0, 1_000, || false);
        assert!((30..36).contains(&shown.len()), "the last 300 ms wait: {shown:?}");
    }

    #[test]
    fn losses_are_repaired() {
        let (mut sender, mut viewer) = (sender(7, "sqp"), Viewer::default());
        let mut rng = Rng::stream(2, "loss");
        let shown = converse(&mut sender, &mut viewer, 0, 2_000, || rng.below(20) == 0);
        assert!(shown.len() > 85, "{} of 100 shown", shown.len());
        assert!(sender.counters().retransmissions > 0);
        // What is missing among the numbers is what was lost on the way, but for the last moments.
        let (expected, arrived) = (viewer.exchange.expected(), viewer.counters().packets);
        let missing = (expected - arrived) as f64 / expected as f64;
        assert!((0.03..0.07).contains(&missing), "{missing} of {expected} missing, and one in 20 was lost");
        assert_eq!(viewer.interval(), Some(Span::from_millis(20)));
    }

    #[test]
    fn a_new_session_takes_over_and_the_old_one_does_not_come_back() {
        let mut viewer = Viewer::default();
        let (mut first, mut second) = (sender(7, "sqp"), sender(8, "newreno"));
        converse(&mut first, &mut viewer, 0, 500, || false);
        assert_eq!(viewer.session(), Some(7));
        let shown = converse(&mut second, &mut viewer, 500, 500, || false);
        assert_eq!((viewer.session(), shown.first()), (Some(8), Some(&0)));
        assert!(shown.len() >= 23, "{shown:?}");
        let mut hello = [0; 32];
        let late = Control::Hello { session: 7, width: 2, height: 2, interval_us: 1, announcement: None }
            .encode(&mut hello);
        viewer.receive(Time::from_secs(2), &hello[..late]);
        assert_eq!(viewer.session(), Some(8));
    }

    #[test]
    fn a_controller_gets_the_half_that_lives_here() {
        let mut viewer = Viewer::default();
        viewer.take_stream(&Message::ready(Offer { codec: "", controller: "sqp" }).to_vec());
        assert_eq!(viewer.news(Time::ZERO), Ok(Some(News::Ready)));
        let mut sprout = sender(9, "sprout");
        converse(&mut sprout, &mut viewer, 0, 40, || false);
        let status = Viewing::Status(Status { session: 9, controller: "sprout", ..Status::default() });
        let mut out = [0; Viewing::MAX_LEN];
        let length = status.encode(&mut out);
        viewer.take_stream(&out[..length]);
        assert!(matches!(viewer.news(Time::ZERO), Ok(Some(News::Status(_, name, _))) if name == "sprout"));
        converse(&mut sprout, &mut viewer, 40, 2_000, || false);
        // Sprout without forecasts from its other half stays at its smallest window.
        assert!(viewer.counters().displayed > 80, "{:?}", viewer.counters());
    }

    #[test]
    fn messages_come_out_whole_and_nonsense_is_told() {
        let mut viewer = Viewer::default();
        let refused = Message::Refused { why: Refusal::Token, text: "no" };
        let bytes = [Message::Unknown(200).to_vec(), refused.to_vec(), Message::Reload.to_vec()].concat();
        for byte in &bytes[..bytes.len() - 3] {
            assert!(viewer.stream.len() < Message::MAX_LEN);
            viewer.take_stream(&[*byte]);
            if viewer.stream.len() < 4 {
                assert_eq!(viewer.news(Time::ZERO), Ok(None));
            }
        }
        assert_eq!(viewer.news(Time::ZERO), Ok(Some(News::Refused(2, "no".to_owned()))));
        viewer.take_stream(&[0, 1, 5, 0, 0]);
        assert_eq!(viewer.news(Time::ZERO), Ok(Some(News::Reload)));
        assert!(viewer.news(Time::ZERO).is_err());
    }

    #[test]
    fn what_was_seen_is_told_once_and_bounded() {
        let mut viewer = Viewer::default();
        let mut out = [0; Viewing::MAX_LEN];
        let frame = SeenFrame { frame: 1, picture: 2, shown: 3, delay_us: 4 };
        (0..200).for_each(|_| viewer.saw(frame));
        assert_eq!(viewer.write_seen(&mut out), 0, "there is no session to speak of");
        viewer.begin(7);
        (0..200).for_each(|frame_number| viewer.saw(SeenFrame { frame: frame_number, ..frame }));
        let length = viewer.write_seen(&mut out);
        let Ok(Some(Viewing::Seen(seen))) = Viewing::decode(&out[..length]) else { panic!("it decodes") };
        assert!(seen.frames().map(|seen| seen.frame).eq(152..200));
        assert_eq!(viewer.write_seen(&mut out), 0);
    }
}
