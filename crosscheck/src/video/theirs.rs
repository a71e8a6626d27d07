//! The crate `vidaptive` 0.2.0, driven as its page says.

use std::time::{Duration, Instant};

use units::Time;
use vidaptive::{
    AckInfo, CaptureAdvice, CongestionController, Copa, CopaConfig, DummyFiller, EncodedFrame, EncoderAdvice,
    LostPacket, NoopCc, SentPacket, TransmitAction, Vidaptive, VidaptiveConfig, chunk_payload,
};

use super::{Controlled, DATAGRAM, DUMMY, Datagram, FRAME, Moment, RTT, Script, Size, VideoSender};

/// The session wants one type of controller.
enum Either {
    Fixed(NoopCc),
    Copa(Box<Copa>),
}

impl Either {
    fn get(&self) -> &dyn CongestionController {
        match self {
            Either::Fixed(fixed) => fixed,
            Either::Copa(copa) => &**copa,
        }
    }

    fn get_mut(&mut self) -> &mut dyn CongestionController {
        match self {
            Either::Fixed(fixed) => fixed,
            Either::Copa(copa) => &mut **copa,
        }
    }
}

impl CongestionController for Either {
    fn on_packet_sent(&mut self, packet: &SentPacket) {
        self.get_mut().on_packet_sent(packet);
    }
    fn on_packets_acked(&mut self, acks: &[AckInfo]) {
        self.get_mut().on_packets_acked(acks);
    }
    fn on_packet_lost(&mut self, packet: &LostPacket) {
        self.get_mut().on_packet_lost(packet);
    }
    fn pacing_rate(&self) -> u64 {
        self.get().pacing_rate()
    }
    fn cc_rate(&self) -> u64 {
        self.get().cc_rate()
    }
    fn cwnd(&self) -> u64 {
        self.get().cwnd()
    }
    fn rtt(&self) -> Duration {
        self.get().rtt()
    }
    fn can_send(&self, bytes_in_flight: u64) -> bool {
        self.get().can_send(bytes_in_flight)
    }
}

/// A session of the crate.
pub struct TheirVideo {
    session: Vidaptive<Either, DummyFiller>,
    /// The crate wants instants; only differences count.
    epoch: Instant,
    size: Size,
    frame: u32,
    frame_at: Time,
    next_id: u64,
    sizes: Vec<usize>,
    encoded: u64,
    advice: EncoderAdvice,
}

impl TheirVideo {
    /// With its default configuration, for this camera.
    #[expect(
        clippy::disallowed_methods,
        reason = "the crate's instants must begin somewhere; only differences count"
    )]
    pub fn new(script: &Script) -> TheirVideo {
        let epoch = Instant::now();
        let controller = match script.controller {
            Controlled::Fixed(bps, window) => {
                let rtt = Duration::from_micros(RTT.as_micros() as u64);
                Either::Fixed(NoopCc::new(bps / 8, window, rtt))
            }
            Controlled::Copa => {
                // Ten packets to start with, as ours has; else as it comes.
                let config = CopaConfig { initial_cwnd: 10 * DATAGRAM as u64, ..CopaConfig::default() };
                Either::Copa(Box::new(Copa::new(config)))
            }
        };
        let filler = DummyFiller::with_packet_size(DUMMY);
        let interval = Duration::from_micros(FRAME.as_micros() as u64);
        let config = VidaptiveConfig::builder().frame_interval(interval).build().expect("a valid interval");
        TheirVideo {
            session: Vidaptive::new(controller, filler, config),
            epoch,
            size: script.size,
            frame: 0,
            frame_at: Time::ZERO,
            next_id: 1,
            sizes: vec![0],
            encoded: 0,
            advice: EncoderAdvice::INITIAL,
        }
    }

    fn instant(&self, at: Time) -> Instant {
        self.epoch + Duration::from_micros(at.as_micros())
    }

    fn capture(&mut self, now: Time) {
        let at = self.instant(now);
        // A held frame is half an interval old at least when the next is captured, and so never encoded.
        if self.session.advise_capture(at, at) == CaptureAdvice::Encode {
            let target_bitrate = self.session.poll_encoder(at).target_bitrate_bps;
            let packets = chunk_payload(vec![0; (self.size)(self.frame, target_bitrate as f64)], DATAGRAM);
            let frame =
                EncodedFrame { id: u64::from(self.frame) + 1, captured_at: at, target_bitrate, packets };
            self.session.enqueue_packets(frame, at);
            self.encoded += 1;
        }
        self.frame += 1;
    }
}

impl VideoSender for TheirVideo {
    fn wake(&mut self, now: Time) {
        self.session.tick(self.instant(now));
        if now >= self.frame_at {
            self.capture(now);
            self.frame_at += FRAME;
        }
        self.advice = self.session.poll_encoder(self.instant(now));
    }

    fn transmit(&mut self, now: Time) -> Option<Datagram> {
        let (size, dummy) = match self.session.poll_transmit(self.instant(now))? {
            TransmitAction::SendPacket { payload } => (payload.len(), false),
            TransmitAction::SendFiller { payload } => (payload.len(), true),
            TransmitAction::WaitUntil(_) | TransmitAction::Idle => return None,
        };
        // The crate numbers what it sends from one on and expects these numbers in acknowledgements.
        let id = self.next_id;
        self.next_id += 1;
        self.sizes.push(size);
        Some(Datagram { id, size, dummy })
    }

    fn acked(&mut self, now: Time, id: u64) {
        let acked_at = self.instant(now);
        let ack = AckInfo { seq: id, len: self.sizes[id as usize], acked_at };
        self.session.on_network_ack(ack, acked_at);
    }

    fn moment(&self, now: Time) -> Moment {
        let cc_rate = self.session.congestion_controller().cc_rate() as f64 * 8.0;
        let EncoderAdvice { alpha, target_bitrate_bps, .. } = self.advice;
        let (at, target) = (now.as_secs_f64(), target_bitrate_bps as f64);
        Moment { at, cc_rate, alpha, target, encoded: self.encoded, resets: 0 }
    }
}
