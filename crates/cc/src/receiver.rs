//! Receiver halves: state machines beside the receiver whose word rides on the feedback packet.

use units::{Ecn, RemoteTime, Span, Time};

/// A packet as the receiver saw it.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// When it arrived, on the receiver's clock.
    pub now: Time,
    /// Its number; numbers arrive in any order, each once.
    pub packet: u64,
    /// When it was sent, on the sender's clock.
    pub sent: RemoteTime,
    /// UDP payload bytes.
    pub size: u32,
    /// How it was marked.
    pub ecn: Ecn,
    /// Time since a report left that this packet is the first to confirm: a round trip, and how long the
    /// sender had nothing to send. None where it confirms no report.
    pub rtt: Option<Span>,
}

/// The half of a controller that lives with the receiver (Sprout's forecaster, GCC's delay-based estimator
/// with REMB). Its bytes reach the other half as [`Report::blob`](crate::Report::blob).
pub trait ReceiverHalf: Send {
    /// A packet of the flow arrived.
    fn on_packet(&mut self, packet: &Received);
    /// The instant of [`next_timer`](ReceiverHalf::next_timer) has come.
    fn on_timer(&mut self, _now: Time) {}
    /// When [`on_timer`](ReceiverHalf::on_timer) wants to be called, if at all.
    fn next_timer(&self) -> Option<Time> {
        None
    }
    /// When a feedback packet should go for this half's sake, if its news can't wait for the next one.
    fn due_at(&self) -> Option<Time> {
        None
    }
    /// Appends this half's word, at most 255 bytes, to a feedback packet that leaves at `now`. Nothing is due
    /// then.
    fn write(&mut self, now: Time, out: &mut Vec<u8>);
}
