//! How much a server does for whom, and how a connection is set up.

use std::sync::Arc;
use std::time::Duration;

use quinn::congestion::{Controller, ControllerFactory};
use quinn::{AckFrequencyConfig, IdleTimeout, MtuDiscoveryConfig, TransportConfig, VarInt};
use units::{Span, Time};
use wire::Message;

use super::identity::IdentityError;

/// How much a QUIC endpoint does for its peers. What is beyond a limit is refused or dropped, and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections that have shown the token, at a time. Each may cost [`MEMORY`](Limits::MEMORY).
    pub guests: usize,
    /// Connections that have not shown it yet, at a time. Each may cost
    /// [`STRANGER_MEMORY`](Limits::STRANGER_MEMORY).
    pub strangers: usize,
    /// Connections of one address, with or without token, at a time. An IPv6 customer's whole /64 counts as
    /// one address.
    pub per_address: usize,
    /// Bytes that all connections together may make us hold. Where one more would be too many, it is refused.
    pub memory: usize,
    /// How long each of them may take for the handshake, and again to say what for.
    pub open_within: Span,
    /// Handshakes a second in the long run, and at once after a pause. Each costs a signature and a key
    /// exchange. When half of them are used, newcomers must first show that they receive what is sent to
    /// their address (RFC 9000 section 8.1.2).
    pub handshakes: u32,
    /// The same for each address.
    pub handshakes_per_address: u32,
    /// A peer that is silent for this long is gone.
    pub idle: Span,
    /// While there is nothing else to say, a sign of life is sent this often: it keeps NATs open and finds
    /// out that a peer is gone.
    pub keep_alive: Span,
}

impl Default for Limits {
    /// Eight guests, 32 strangers, eight connections of one address (all guests behind one NAT, yet a quarter
    /// of the strangers' places), 128 MB (room for 80 guests beside the strangers), 3 s for each step of
    /// opening (a handshake takes a few round trips), 20 handshakes a second (all guests coming back at once,
    /// twice over), five of them of one address (a quarter again), silence of 10 s (a tunnel on a train), a
    /// sign of life every 3 s (three may be lost before that).
    fn default() -> Limits {
        Limits {
            guests: 8,
            strangers: 32,
            per_address: 8,
            memory: 128_000_000,
            open_within: Span::from_secs(3),
            handshakes: 20,
            handshakes_per_address: 5,
            idle: Span::from_secs(10),
            keep_alive: Span::from_secs(3),
        }
    }
}

/// Bytes of datagrams waiting for quinn to send them: 5 ms at 100 Mbit/s. They wait for a thread, not for a
/// window, which is open. A driver that finds no room keeps its packets, and its endpoint decides which of
/// them are still worth sending.
const SEND_BUFFER: usize = 64 << 10;
/// Bytes of received datagrams that wait for our task to move them to the inbox.
const RECEIVE_BUFFER: usize = 256 << 10;
/// The peer's QUIC acknowledges every so many packets, or after its usual 25 ms, where it would every second
/// one. Nothing of ours waits for these acknowledgements, and each costs both ends a packet.
const ACKNOWLEDGE_EVERY: u32 = 16;
/// Bytes of a control stream that a peer may have on the way: a few of its messages.
const STREAM_WINDOW: u32 = 4 * Message::MAX_LEN as u32;

/// The same for each stream of a WebTransport session: a request's header takes up to 8 kB.
const WEB_WINDOW: u32 = 8 << 10;

impl Limits {
    /// What one connection may make us hold, in bytes: datagrams both ways, its inbox, its stream, what
    /// is said on that and handshake.
    pub const MEMORY: usize =
        SEND_BUFFER + Limits::STRANGER_MEMORY + crate::channel::WAITING_BYTES + super::talk::MEMORY;
    /// The same before it has shown the token: it has no inbox, and nothing is sent to it.
    pub const STRANGER_MEMORY: usize = RECEIVE_BUFFER + (64 << 10);

    /// quinn's settings of a connection.
    pub(crate) fn transport(&self) -> Result<Arc<TransportConfig>, IdentityError> {
        Ok(Arc::new(self.base()?))
    }

    /// The same for a WebTransport session, whose HTTP/3 wants streams of its own: one for the session beside
    /// our control stream, one for settings and two for header compression (RFC 9114 section 6.2), and room
    /// for the request's header.
    pub(crate) fn web_transport(&self) -> Result<TransportConfig, IdentityError> {
        let mut config = self.base()?;
        config
            .max_concurrent_bidi_streams(VarInt::from_u32(2))
            .max_concurrent_uni_streams(VarInt::from_u32(4))
            .stream_receive_window(VarInt::from_u32(WEB_WINDOW))
            .receive_window(VarInt::from_u32(2 * WEB_WINDOW))
            .send_window(u64::from(WEB_WINDOW));
        Ok(config)
    }

    fn base(&self) -> Result<TransportConfig, IdentityError> {
        let idle = IdleTimeout::try_from(duration(self.idle));
        let idle = idle.map_err(|error| IdentityError::Unusable(format!("idle timeout: {error}")))?;
        let mut rarely = AckFrequencyConfig::default();
        rarely.ack_eliciting_threshold(VarInt::from_u32(ACKNOWLEDGE_EVERY));
        let mut config = TransportConfig::default();
        config
            .ack_frequency_config(Some(rarely))
            .max_idle_timeout(Some(idle))
            .keep_alive_interval(Some(duration(self.keep_alive)))
            .max_concurrent_bidi_streams(VarInt::from_u32(1))
            .max_concurrent_uni_streams(VarInt::from_u32(0))
            .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
            .receive_window(VarInt::from_u32(STREAM_WINDOW))
            .send_window(u64::from(STREAM_WINDOW))
            .datagram_send_buffer_size(SEND_BUFFER)
            .datagram_receive_buffer_size(Some(RECEIVE_BUFFER))
            .mtu_discovery_config(Some(MtuDiscoveryConfig::default()))
            .congestion_controller_factory(Arc::new(OpenWindow));
        Ok(config)
    }
}

/// A span as the standard library has it; none for those below zero.
pub(crate) fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos().max(0) as u64)
}

/// A congestion controller that never holds anything back: the media session's controller decides how much is
/// sent, and its pacer when. quinn paces only windows of up to `u32::MAX` bytes, so this one is beyond.
#[derive(Clone, Debug)]
struct OpenWindow;

const WINDOW: u64 = 1 << 40;

impl ControllerFactory for OpenWindow {
    fn build(self: Arc<Self>, _: std::time::Instant, _: u16) -> Box<dyn Controller> {
        Box::new(OpenWindow)
    }
}

impl Controller for OpenWindow {
    fn on_congestion_event(&mut self, _: std::time::Instant, _: std::time::Instant, _: bool, _: u64) {}
    fn on_mtu_update(&mut self, _: u16) {}
    fn window(&self) -> u64 {
        WINDOW
    }
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
    fn initial_window(&self) -> u64 {
        WINDOW
    }
    fn into_any(self: Box<Self>) -> Box<dyn std::any::Any> {
        self
    }
}

/// A token bucket: lets through so many a second, and as many at once after a pause.
#[derive(Debug)]
pub struct RateLimiter {
    rate: u32,
    /// Turns left, in billionths.
    left: u64,
    last: Option<Time>,
}

const TURN: u64 = 1_000_000_000;

impl RateLimiter {
    /// One for `rate` a second.
    pub fn new(rate: u32) -> RateLimiter {
        RateLimiter { rate, left: u64::from(rate) * TURN, last: None }
    }

    /// Takes a turn, if there is one.
    pub fn take(&mut self, now: Time) -> bool {
        let open = self.is_open(now);
        self.left -= if open { TURN } else { 0 };
        open
    }

    /// There is a turn to be had.
    pub fn is_open(&mut self, now: Time) -> bool {
        self.refill(now);
        self.left >= TURN
    }

    /// All turns are back.
    pub fn is_full(&mut self, now: Time) -> bool {
        self.refill(now);
        self.left == self.full()
    }

    /// More than half of the turns are used.
    pub fn is_busy(&mut self, now: Time) -> bool {
        self.refill(now);
        self.left < self.full() / 2
    }

    fn refill(&mut self, now: Time) {
        let elapsed = self.last.map_or(Span::ZERO, |last| now - last).as_nanos().max(0) as u64;
        self.last = Some(now);
        self.left = self.left.saturating_add(elapsed.saturating_mul(u64::from(self.rate))).min(self.full());
    }

    fn full(&self) -> u64 {
        u64::from(self.rate) * TURN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_limiter_lets_its_rate_through() {
        let mut limiter = RateLimiter::new(20);
        let passed = (0..100).filter(|_| limiter.take(Time::from_secs(5))).count();
        assert_eq!(passed, 20);
        assert!(limiter.is_busy(Time::from_secs(5)));
        assert!(!limiter.is_busy(Time::from_secs(6)), "a second later all turns are back");
        let passed = (0..10_000).filter(|k| limiter.take(Time::from_millis(6_000 + k))).count();
        assert_eq!(passed, 20 + 199);
        assert!(!limiter.take(Time::from_secs(15)) && limiter.take(Time::from_secs(1_000)));
    }
}
