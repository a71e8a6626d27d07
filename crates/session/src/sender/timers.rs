//! What time brings: frames to capture, losses to declare, silence to break.

use record::{Event, Real};
use units::{Bytes, Span, Time};

use super::Sender;
use crate::config::SenderConfig;
use crate::rate::{self, Plan, WaitLimit};
use crate::video::VideoStream;

/// With a frame in the encoder and nothing sent for so long, a probe says that we are still there: a receiver
/// gives up after ten seconds of silence, and three of these may be lost before that.
const SIGN_OF_LIFE: Span = Span::from_secs(2);

impl Sender {
    pub(super) fn capture(&mut self, now: Time) {
        let (room, rtt) = (self.room(), self.core.rtt().min());
        let config = SenderConfig { mtu: self.mtu(), ..self.config };
        for index in 0..self.videos.len() {
            self.videos[index].collect(now, room, rtt, &mut self.counters, &self.tap);
            if self.videos[index].is_due(now, &mut self.counters) {
                let plan = self.plan(now, index, self.videos[index].next_frame());
                let wander = self.core.decision().frame_jitter.mul_f64(self.rng.uniform_in(-1.0, 1.0));
                let (counters, tap) = (&mut self.counters, &self.tap);
                self.videos[index].capture(now, plan, wander, &config, counters, tap);
                self.videos[index].collect(now, room, rtt, counters, tap);
            } else if let Some(frame) = self.videos[index].resumable(now, &mut self.counters, &self.tap) {
                let plan = self.plan(now, index, frame);
                let (counters, tap) = (&mut self.counters, &self.tap);
                self.videos[index].resume(now, plan, &config, counters, tap);
                self.videos[index].collect(now, room, rtt, counters, tap);
            }
            self.fresh[index] = self.videos[index].outbox.waiting_packets();
        }
    }

    /// Asks the rate policy about a frame of stream number `index`.
    fn plan(&mut self, now: Time, index: usize, frame: u32) -> Plan {
        self.flush(index);
        let mut departed = std::mem::take(&mut self.videos[index].outbox.departed);
        let view = self.rate_view(now, index, frame, &departed);
        let plan = self.policies.rate.plan(&view);
        self.target = Some(plan.bitrate);
        departed.clear();
        self.videos[index].outbox.departed = departed;
        if self.tap.is_on() {
            self.policies.rate.observe(&mut |name, value| {
                self.tap.record(now, Event::Observed { name, value: Real(value) });
            });
        }
        plan
    }

    /// Drops what waits of stream number `index` if it can't be decoded any more and the policy wants that.
    fn flush(&mut self, index: usize) {
        if self.manner.flush && self.videos[index].is_cut() {
            self.counters.expired += self.videos[index].outbox.drop_waiting();
            self.fresh[index] = 0;
            self.repairs.retain(|&(stream, ..)| usize::from(stream) != index);
        }
    }

    fn rate_view<'a>(
        &self,
        now: Time,
        index: usize,
        frame: u32,
        departed: &'a [rate::Departed],
    ) -> rate::View<'a> {
        let outbox = &self.videos[index].outbox;
        rate::View {
            now,
            stream: index as u8,
            frame,
            interval: self.videos[index].interval(),
            cc_rate: self.core.cc_rate(),
            queued: Bytes::new(outbox.waiting_bytes()) + self.repair_bytes(),
            in_flight: self.core.in_flight(),
            waited: outbox.waiting_since().map_or(Span::ZERO, |since| now - since),
            cut: self.videos[index].is_cut(),
            open: self.core.window_is_open(),
            patience: self.config.patience,
            limits: self.limits,
            height: self.config.picture.1,
            departed,
        }
    }

    /// Payload a packet carries.
    pub(super) fn room(&self) -> u32 {
        (self.mtu() - self.dialect.header()) as u32
    }

    /// When everything that waits will have waited too long, if there is such a limit.
    pub(super) fn reset_at(&self) -> Option<Time> {
        let WaitLimit::OfOldest(limit) = self.manner.limit else { return None };
        let oldest = self.videos.iter().filter_map(|video| video.outbox.waiting_since()).min();
        oldest.map(|since| since + limit)
    }

    /// Drops what is not worth sending any more.
    pub(super) fn expire(&mut self, now: Time) {
        let reset = self.reset_at().is_some_and(|at| at <= now);
        self.counters.resets += u64::from(reset);
        for (index, video) in self.videos.iter_mut().enumerate() {
            let mut unsent = video.outbox.expire(now);
            if reset {
                unsent += video.outbox.drop_waiting();
            }
            if unsent > 0 {
                self.counters.expired += unsent;
                video.want_key();
            }
            self.fresh[index] = video.outbox.waiting_packets();
        }
        if reset {
            self.repairs.clear();
            self.tap.record(now, Event::Observed { name: "reset", value: Real(1.0) });
        }
    }

    /// When the receiver must hear something, though the encoder has been at a frame for so long that nothing
    /// was sent.
    pub(super) fn sign_at(&self) -> Option<Time> {
        let waits = self.heard && !self.core.probe_is_due();
        let since = self.videos.iter().filter_map(VideoStream::coding_since).min().filter(|_| waits);
        since.map(|since| since.max(self.core.last_sent_at()) + SIGN_OF_LIFE)
    }

    pub(super) fn run_timers(&mut self, now: Time) {
        if self.core.find_losses(now) {
            self.repair_losses(now);
        }
        self.core.wake(now);
        if self.sign_at().is_some_and(|at| at <= now) {
            self.core.want_probe();
        }
    }
}
