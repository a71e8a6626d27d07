//! The trait, and what passes through it.

use units::{Bytes, Ecn, Rate, RemoteTime, Span, Time};

/// A congestion controller. A new signal is a field of [`Report`], never a new method.
///
/// Calls arrive in time order (equal times are possible). Every method must accept any sequence of reordered,
/// duplicate or empty reports without panicking, and [`decision`](Controller::decision) must never ask for a
/// zero window or rate.
pub trait Controller: Send {
    /// A packet was handed to the network.
    fn on_sent(&mut self, sent: &Sent);
    /// Whether [`on_sent`](Controller::on_sent) and the timer matter. Where this is false, and stays so,
    /// hosts leave both out, which are two calls for every packet.
    fn follows_sending(&self) -> bool {
        true
    }
    /// One feedback packet was settled. Called once per feedback packet, and once more when a timer finds
    /// losses.
    fn on_feedback(&mut self, report: &Report<'_>);
    /// The path carries datagrams of at most `mtu` bytes from here on: what is counted in datagrams (least
    /// windows, growth a round trip) goes by it; what is out keeps its bytes.
    fn on_mtu(&mut self, _mtu: u32) {}
    /// The instant of [`next_timer`](Controller::next_timer) has come.
    fn on_timer(&mut self, _now: Time) {}
    /// When [`on_timer`](Controller::on_timer) wants to be called, if at all.
    fn next_timer(&self) -> Option<Time> {
        None
    }
    /// What the controller wants now. Pure.
    fn decision(&self) -> Decision;
    /// Writes what it wants now to where its host keeps it. Nobody need provide this: a decision that is
    /// handed over is put together in one place and copied to the other, by a processor that waits meanwhile.
    fn decide(&self, kept: &mut Decision) {
        *kept = self.decision();
    }
    /// A copy that goes on by itself as this one would, for runs that begin alike; none where there can't be
    /// one, as where it holds something that can't be cloned.
    fn fork(&self) -> Option<Box<dyn Controller>> {
        None
    }
    /// Names inner quantities for plots; nothing may read them back.
    fn observe(&self, _sink: &mut dyn FnMut(&'static str, f64)) {}
}

/// What a controller is told about the path and the application before it starts.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Largest datagram at first, in bytes of UDP payload ([`Controller::on_mtu`]).
    pub mtu: u32,
    /// Rate to start at.
    pub initial: Rate,
    /// The session would rather end than run below this.
    pub min: Rate,
    /// The most the encoder can use.
    pub max: Rate,
    /// Time between frames.
    pub frame_interval: Span,
    /// Seed of the controller's random streams.
    pub seed: u64,
}

impl Default for Setup {
    /// 1200-byte datagrams, start at 2 Mbit/s, 0.3 to 100 Mbit/s, 60 frames/s.
    fn default() -> Setup {
        Setup {
            mtu: 1200,
            initial: Rate::from_mbps(2),
            min: Rate::from_kbps(300),
            max: Rate::from_mbps(100),
            frame_interval: Span::from_nanos(16_666_667),
            seed: 1,
        }
    }
}

/// Which frame a packet belongs to, and its place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameTag {
    /// The stream's number within the session.
    pub stream: u8,
    /// The frame's capture index.
    pub frame: u32,
    /// Which coding of the frame, 0 the first.
    pub version: u8,
    /// The packet's index in the frame.
    pub index: u16,
    /// Packets in the frame.
    pub count: u16,
    /// Sent before: its timing says nothing about the frame's burst.
    pub retransmission: bool,
}

/// A packet as it leaves.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// When it leaves, by the sender's clock.
    pub now: Time,
    /// Its number; every transmission has its own.
    pub packet: u64,
    /// UDP payload bytes.
    pub size: u32,
    /// Its frame, if it carries media.
    pub frame: Option<FrameTag>,
    /// Bytes in flight, this packet included.
    pub in_flight: Bytes,
    /// The sender has nothing more to send right now.
    pub app_limited: bool,
}

/// The delivery state when a packet was sent, for delivery-rate samples (draft-ietf-ccwg-bbr section 4.1).
#[derive(Clone, Copy, Debug, Default)]
pub struct Delivery {
    /// Bytes delivered by then.
    pub delivered: u64,
    /// When the last of those was acknowledged.
    pub delivered_at: Time,
    /// Send time of the packet whose acknowledgement opened the current sampling interval.
    pub first_sent_at: Time,
    /// Bytes given up as lost by then, over the connection's life.
    pub lost: u64,
    /// Bytes in flight, this packet included.
    pub in_flight: u64,
    /// The sender had run dry within the window this packet was sent in: a sample says as much of it as of
    /// the path.
    pub app_limited: bool,
}

/// A packet that arrived.
#[derive(Clone, Copy, Debug)]
pub struct Acked {
    /// The transmission's number, as [`Sent::packet`] told it.
    pub packet: u64,
    /// When it was sent.
    pub sent_at: Time,
    /// When it arrived, on the receiver's clock; unknown if the report that said so was lost.
    pub arrived_at: Option<RemoteTime>,
    /// UDP payload bytes.
    pub size: u32,
    /// How it was marked on arrival.
    pub ecn: Ecn,
    /// Its frame, if it carried media.
    pub frame: Option<FrameTag>,
    /// The delivery state when it was sent.
    pub delivery: Delivery,
}

/// A packet given up as lost.
#[derive(Clone, Copy, Debug)]
pub struct Lost {
    /// The transmission's number, as [`Sent::packet`] told it.
    pub packet: u64,
    /// When it was sent.
    pub sent_at: Time,
    /// UDP payload bytes.
    pub size: u32,
    /// Its frame, if it carried media.
    pub frame: Option<FrameTag>,
    /// The delivery state when it was sent.
    pub delivery: Delivery,
}

/// What one feedback packet (or the loss timer) settled.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// When the sender heard of it, by its own clock.
    pub now: Time,
    /// Newly acknowledged packets, by number.
    pub acked: &'a [Acked],
    /// Newly lost packets, by number. Window-based controllers take losses before acknowledgements.
    pub lost: &'a [Lost],
    /// Numbers of packets given up earlier that arrived after all.
    pub spurious: &'a [u64],
    /// Bytes in flight after all of this.
    pub in_flight: Bytes,
    /// Whether the sender used all the controller allowed before this report.
    pub limited: bool,
    /// The round-trip sample of this report, if it gave one.
    pub latest_rtt: Option<Span>,
    /// Smoothed round-trip time (RFC 9002 section 5.3).
    pub srtt: Span,
    /// Mean deviation of the round-trip time (RFC 9002 section 5.3).
    pub rttvar: Span,
    /// Smallest round-trip time seen.
    pub min_rtt: Span,
    /// Packets newly reported as congestion-marked.
    pub ce_marks: u32,
    /// Everything sent over three probe timeouts was lost (RFC 9002 section 7.6).
    pub persistent_congestion: bool,
    /// In the sender's own loss recovery: of TCP, from the loss or timeout that begins it until everything
    /// sent by then is acknowledged (RFC 6675 section 5). `None` of a sender that keeps none, as QUIC's: then
    /// controllers tell by packets.
    pub recovering: Option<bool>,
    /// Bytes delivered over the connection's life, for delivery-rate samples.
    pub delivered: u64,
    /// Bytes given up as lost over the connection's life; those that arrived after all are not taken back.
    pub lost_bytes: u64,
    /// Stream bytes newly acknowledged in order, whether their arrival was known before or not: what a
    /// cumulative acknowledgement of TCP's moved by. Zero of a sender that keeps no order, as QUIC's.
    pub in_order: u64,
    /// What the controller's receiver half sent along; empty without one.
    pub blob: &'a [u8],
}

/// What a controller wants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// Most bytes in flight; `None` if the controller does not limit by window.
    pub window: Option<Bytes>,
    /// Rate at which packets leave; `None` sends as fast as the window allows.
    pub pacing: Option<Rate>,
    /// Advice for the media bitrate (datagram bits); `None` leaves it to the session (window over srtt).
    pub media: Option<Rate>,
    /// A backlogged flow leaves at `pacing`, for what lies above `media` is a probe. Otherwise it leaves at
    /// `media`: what lies above is for frames' bursts.
    pub bulk_at_pacing: bool,
    /// Bytes that may leave back to back under the pacing rate.
    pub burst: Bytes,
    /// Packets leave at instants this far apart, each with what the pacing rate carries until the next one;
    /// zero: one by one. Takes the place of `burst`.
    pub tick: Span,
    /// The pacer stands while the window is full: the first packet after it has opened waits for a whole
    /// interval.
    pub whole_interval: bool,
    /// Each frame starts up to this much before or after its nominal time (uniform random walk).
    pub frame_jitter: Span,
    /// Extra packets wanted as a probe, if any.
    pub probe: Option<Probe>,
}

impl Decision {
    /// The rate at which a flow leaves that always has something to send: that of media, for bursts above it
    /// are for frames; while the controller probes, or if it wants so
    /// ([`bulk_at_pacing`](Decision::bulk_at_pacing)), the pacing rate itself.
    #[inline]
    pub fn bulk_pacing(&self) -> Option<Rate> {
        match self.media {
            Some(media) if !self.bulk_at_pacing && self.probe.is_none() => {
                Some(self.pacing.map_or(media, |pacing| pacing.min(media)))
            }
            _ => self.pacing,
        }
    }
}

impl Default for Decision {
    /// No limits: what a controller fills in.
    fn default() -> Decision {
        Decision {
            window: None,
            pacing: None,
            media: None,
            bulk_at_pacing: false,
            burst: Bytes::ZERO,
            tick: Span::ZERO,
            whole_interval: false,
            frame_jitter: Span::ZERO,
            probe: None,
        }
    }
}

/// A probe: `bytes` of padding, numbered so that it is sent once. What is left of them when the controller no
/// longer asks for the probe is not sent. Pacing is the controller's: it asks for `rate` as long as the probe
/// is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Numbers the probe: each number is sent once.
    pub id: u32,
    /// The rate to probe with; the pacing rate is this while the probe is on.
    pub rate: Rate,
    /// Padding to send, in bytes.
    pub bytes: Bytes,
}

#[cfg(test)]
pub(crate) mod tests {
    //! Reports for unit tests: packet `n` is sent at `n` ms.

    use super::*;

    pub fn acked(packet: u64, size: u32) -> Acked {
        let sent_at = Time::from_millis(packet);
        Acked {
            packet,
            sent_at,
            arrived_at: Some((sent_at + Span::from_millis(20)).on_wire()),
            size,
            ecn: Ecn::NotEct,
            frame: None,
            delivery: Delivery::default(),
        }
    }

    pub fn lost(packet: u64, size: u32) -> Lost {
        Lost { packet, sent_at: Time::from_millis(packet), size, frame: None, delivery: Delivery::default() }
    }

    pub fn report<'a>(acked: &'a [Acked], lost: &'a [Lost]) -> Report<'a> {
        Report {
            now: Time::from_millis(100),
            acked,
            lost,
            spurious: &[],
            in_flight: Bytes::new(10_000),
            limited: true,
            latest_rtt: Some(Span::from_millis(40)),
            srtt: Span::from_millis(40),
            rttvar: Span::from_millis(1),
            min_rtt: Span::from_millis(40),
            ce_marks: 0,
            persistent_congestion: false,
            recovering: None,
            delivered: 0,
            lost_bytes: 0,
            in_order: 0,
            blob: &[],
        }
    }
}
