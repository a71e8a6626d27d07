//! One feedback packet's journey, as `ARCHITECTURE.md` tells it: driver, `Sender::receive`, `Core::heard`,
//! `Controller::on_feedback`, `decision`, `Pacer` and `RateControl`, `Encoder::submit`; losses to `Strategy`.

use std::sync::{Arc, Mutex};

use cc::{Controller, Decision, Report, Sent, Setup};
use framewire_session::{Policies, Receiver, ReceiverConfig, Sender, SenderConfig, Supply, Video};
use media::{Ask, CodecError, Coded, Encoder, RawFrame};
use record::Tap;
use units::{Bytes, Rate, Rng, Span, Time};
use wire::{Endpoint, RxMeta};

#[derive(Default)]
struct Diary(Vec<String>);

/// Doubles its rate with every report and writes down what it was told.
struct Scribe {
    rate: Rate,
    window: Option<Bytes>,
    diary: Arc<Mutex<Diary>>,
}

impl Controller for Scribe {
    fn on_sent(&mut self, _: &Sent) {}
    fn on_feedback(&mut self, report: &Report<'_>) {
        let packets: Vec<u64> = report.acked.iter().map(|acked| acked.packet).collect();
        let lost: Vec<u64> = report.lost.iter().map(|lost| lost.packet).collect();
        self.diary.lock().unwrap().0.push(format!("acked {packets:?} lost {lost:?}"));
        self.rate = self.rate.mul_f64(2.0);
    }
    fn decision(&self) -> Decision {
        let (pacing, media) = (Some(self.rate.mul_f64(2.0)), Some(self.rate));
        Decision { pacing, media, window: self.window, ..Decision::default() }
    }
}

/// Delivers exactly what it was asked for, at once, and writes the ask down.
struct Exact {
    diary: Arc<Mutex<Diary>>,
    ready: Option<Coded>,
    /// Frames that it leaves out.
    leaves_out: &'static [u32],
}

impl Encoder for Exact {
    fn submit(&mut self, _: Time, _: Option<&Arc<RawFrame>>, ask: &Ask) -> Result<(), CodecError> {
        self.diary.lock().unwrap().0.push(format!("frame {} key {}", ask.frame, ask.key));
        let coded = !self.leaves_out.contains(&ask.frame);
        let size = if coded { ask.bitrate.bytes_in(ask.interval).get() as u32 } else { 0 };
        self.ready = Some(Coded::of_size(ask, size));
        Ok(())
    }
    fn poll(&mut self, _: Time) -> Option<Coded> {
        self.ready.take()
    }
    fn next_ready(&self) -> Option<Time> {
        None
    }
}

fn pair(diary: &Arc<Mutex<Diary>>) -> (Sender, Receiver) {
    pair_within(diary, None, &[])
}

/// The same under a window, with an encoder that leaves frames out.
fn pair_within(
    diary: &Arc<Mutex<Diary>>,
    window: Option<Bytes>,
    leaves_out: &'static [u32],
) -> (Sender, Receiver) {
    let setup = Setup::default();
    let controller = Box::new(Scribe { rate: Rate::from_mbps(1), window, diary: diary.clone() });
    let encoder = Box::new(Exact { diary: diary.clone(), ready: None, leaves_out });
    let video = Video { encoder, source: None, interval: Span::from_millis(20) };
    let sender = Sender::new(
        SenderConfig::default(),
        &setup,
        controller,
        Policies::default(),
        vec![Supply::Video(video)],
        Rng::stream(1, "journey"),
        Tap::default(),
    );
    (sender, Receiver::new(ReceiverConfig::default(), None, None, Tap::default()))
}

/// Everything `from` has to say at `now`, except what `lose` picks, reaches `to` at `later`.
fn carry(
    from: &mut dyn Endpoint,
    to: &mut dyn Endpoint,
    now: Time,
    later: Time,
    mut lose: impl FnMut(usize) -> bool,
) {
    let mut out = [0; 1500];
    let mut sent = 0;
    while let Some(meta) = from.transmit(now, &mut out) {
        if !lose(sent) {
            let rx = RxMeta { length: meta.length, payload: meta.payload, ecn: meta.ecn };
            to.receive(later, &out[..meta.head], rx);
        }
        sent += 1;
    }
}

/// Drives both in steps of a millisecond until `end`, losing the datagrams (by count at the sender) in
/// `lost`.
fn drive(sender: &mut Sender, receiver: &mut Receiver, end: Time, lost: &[usize]) {
    drive_on(sender, receiver, Time::ZERO, end, lost);
}

/// The same from `start` on.
fn drive_on(sender: &mut Sender, receiver: &mut Receiver, start: Time, end: Time, lost: &[usize]) {
    let step = Span::from_millis(1);
    let mut count = 0;
    let mut now = start;
    while now < end {
        let later = now + step;
        sender.wake(now);
        carry(sender, receiver, now, later, |_| {
            count += 1;
            lost.contains(&(count - 1))
        });
        receiver.wake(later);
        carry(receiver, sender, later, later, |_| false);
        now = later;
    }
}

#[test]
fn feedback_reaches_controller_pacer_and_encoder() {
    let diary = Arc::new(Mutex::new(Diary::default()));
    let (mut sender, mut receiver) = pair(&diary);
    drive(&mut sender, &mut receiver, Time::from_millis(100), &[]);
    let diary = diary.lock().unwrap();
    assert_eq!(diary.0[0], "frame 0 key true");
    assert!(diary.0[1].starts_with("acked [0"), "{:?}", diary.0);
    assert!(diary.0.iter().any(|line| line == "frame 1 key false"), "{:?}", diary.0);
    assert_eq!(sender.decision().media, sender.decision().pacing.map(|p| p.mul_f64(0.5)));
    let bytes = Bytes::new(sender.counters().bytes);
    assert!(
        Rate::average(bytes, Span::from_millis(100)) > Rate::from_mbps(2),
        "the encoder followed: {bytes:?}"
    );
    let (encoded, displayed) = (sender.counters().encoded, receiver.counters().displayed);
    assert!(encoded - displayed <= 1, "{displayed} of {encoded} shown, at most one is on its way");
}

#[test]
fn losses_reach_recovery_and_are_sent_again() {
    let diary = Arc::new(Mutex::new(Diary::default()));
    let (mut sender, mut receiver) = pair(&diary);
    // The fourth datagram: a media packet of the first frames (the first is the hello).
    drive(&mut sender, &mut receiver, Time::from_millis(400), &[4]);
    assert!(diary.lock().unwrap().0.iter().any(|line| line.ends_with("lost [3]")));
    assert_eq!((sender.counters().lost, sender.counters().retransmissions), (1, 1));
    assert_eq!(receiver.counters().abandoned, 0);
}

#[test]
fn what_a_lost_frame_makes_useless_is_dropped_and_the_key_frame_awaits_the_window() {
    let diary = Arc::new(Mutex::new(Diary::default()));
    // A frame has 2500 bytes: the second one is half on its way when the window is full.
    let (mut sender, mut receiver) = pair_within(&diary, Some(Bytes::new(4_000)), &[]);
    let at = Time::from_millis;
    let step = |sender: &mut Sender, receiver: &mut Receiver, ms: u64, heard: bool| {
        sender.wake(at(ms));
        carry(sender, receiver, at(ms), at(ms), |_| false);
        receiver.wake(at(ms));
        carry(receiver, sender, at(ms), at(ms), |_| !heard);
    };
    (0..50).for_each(|ms| step(&mut sender, &mut receiver, ms, false));
    assert_eq!((sender.counters().encoded, sender.counters().expired), (3, 0), "two frames wait");
    let request = wire::KeyFrameRequest { session: 1, stream: 0, sequence: 1, after: 0 };
    let mut datagram = [0; 64];
    let length = request.encode(&mut datagram);
    sender.receive(at(50), &datagram[..length], RxMeta { length, ..RxMeta::default() });
    let before = sender.counters().packets;
    (50..150).for_each(|ms| step(&mut sender, &mut receiver, ms, false));
    let shut = sender.counters();
    assert_eq!(
        (shut.encoded, shut.expired, shut.packets),
        (3, 2, before),
        "nothing leaves, nothing is coded"
    );
    // A probe for an answer opens the window.
    (150..1_500).for_each(|ms| step(&mut sender, &mut receiver, ms, true));
    let diary = diary.lock().unwrap();
    let frames: Vec<&String> = diary.0.iter().filter(|line| line.starts_with("frame")).collect();
    assert!(frames[3].ends_with("key true") && frames[4].ends_with("key false"), "{frames:?}");
}

#[test]
fn what_the_encoder_leaves_out_is_skipped_and_the_next_frame_refers_across_it() {
    let diary = Arc::new(Mutex::new(Diary::default()));
    let (mut sender, mut receiver) = pair_within(&diary, None, &[3, 7, 8]);
    drive(&mut sender, &mut receiver, Time::from_millis(395), &[]);
    let (sent, got) = (sender.counters(), receiver.counters());
    assert_eq!((sent.captured, sent.encoded, sent.skipped, sent.encoder_errors), (20, 17, 3, 0));
    assert_eq!((got.displayed, got.abandoned), (17, 0));
    let keys = diary.lock().unwrap().0.iter().filter(|line| line.ends_with("key true")).count();
    assert_eq!(keys, 1);
}

#[test]
fn a_key_frame_that_is_left_out_is_asked_for_again() {
    let diary = Arc::new(Mutex::new(Diary::default()));
    let (mut sender, mut receiver) = pair_within(&diary, None, &[0]);
    drive(&mut sender, &mut receiver, Time::from_millis(95), &[]);
    assert_eq!((sender.counters().encoded, receiver.counters().displayed), (4, 4));
    let diary = diary.lock().unwrap();
    let frames: Vec<&String> = diary.0.iter().filter(|line| line.starts_with("frame")).collect();
    assert!(frames[1].ends_with("key true") && frames[2].ends_with("key false"), "{frames:?}");
}

#[test]
fn a_pause_captures_nothing_and_the_next_frame_follows_the_last() {
    let diary = Arc::new(Mutex::new(Diary::default()));
    let (mut sender, mut receiver) = pair(&diary);
    let at = Time::from_millis;
    drive_on(&mut sender, &mut receiver, at(0), at(200), &[]);
    sender.set_paused(at(200), true);
    drive_on(&mut sender, &mut receiver, at(200), at(300), &[]);
    let before = (sender.counters().captured, receiver.counters().displayed);
    assert_eq!(before, (10, 10));
    drive_on(&mut sender, &mut receiver, at(300), at(1_000), &[]);
    assert_eq!((sender.counters().captured, receiver.counters().displayed), before);
    sender.set_paused(at(1_000), false);
    drive_on(&mut sender, &mut receiver, at(1_000), at(1_210), &[]);
    let (sent, got) = (sender.counters(), receiver.counters());
    assert!(sent.captured >= 20 && got.displayed + 1 >= sent.captured, "{sent:?} {got:?}");
    assert_eq!((got.abandoned, got.key_requests), (0, 0), "the chain goes on");
}

#[test]
fn a_cap_holds_whatever_the_controller_advises() {
    let diary = Arc::new(Mutex::new(Diary::default()));
    let (mut sender, mut receiver) = pair(&diary);
    sender.set_max(Rate::from_mbps(2));
    drive(&mut sender, &mut receiver, Time::from_millis(500), &[]);
    assert!(sender.decision().media.unwrap() > Rate::from_mbps(20), "the scribe doubles its advice");
    let rate = Rate::average(Bytes::new(sender.counters().bytes), Span::from_millis(500));
    assert!(rate <= Rate::from_mbps(2), "{rate}");
    sender.set_max(Rate::from_kbps(1));
    let before = sender.counters().bytes;
    drive_on(&mut sender, &mut receiver, Time::from_millis(500), Time::from_secs(1), &[]);
    let rate = Rate::average(Bytes::new(sender.counters().bytes - before), Span::from_millis(500));
    assert!(rate > Rate::from_kbps(200), "the session's floor holds: {rate}");
}

/// A source of three pictures.
struct Three(u32);

impl media::Source for Three {
    fn size(&self) -> (usize, usize) {
        (16, 16)
    }
    fn interval(&self) -> Span {
        Span::from_millis(20)
    }
    fn next_picture(&mut self) -> Option<Arc<RawFrame>> {
        self.0 = self.0.checked_sub(1)?;
        Some(Arc::new(RawFrame::filled(16, 16, 0, 128, 128)))
    }
}

#[test]
fn the_end_is_told_even_to_a_receiver_that_has_gone() {
    let diary = Arc::new(Mutex::new(Diary::default()));
    let encoder = Box::new(Exact { diary, ready: None, leaves_out: &[] });
    let video = Video { encoder, source: Some(Box::new(Three(3))), interval: Span::from_millis(20) };
    let setup = Setup::default();
    let controller = cc::build(&cc::Options::of("sqp"), &setup).unwrap();
    let supplies = vec![Supply::Video(video)];
    let rng = Rng::stream(1, "end");
    let mut sender = Sender::new(
        SenderConfig::default(),
        &setup,
        controller,
        Policies::default(),
        supplies,
        rng,
        Tap::default(),
    );
    let mut out = [0; 1500];
    let mut now = Time::ZERO;
    // Driven by nothing but its own wish to be woken.
    while let Some(at) = sender.next_wake().filter(|at| *at < Time::from_secs(60) && !sender.is_finished()) {
        now = now.max(at);
        sender.wake(now);
        while sender.transmit(now, &mut out).is_some() {}
    }
    assert!(sender.is_finished() && now < Time::from_secs(3), "still waiting at {now:?}");
}
