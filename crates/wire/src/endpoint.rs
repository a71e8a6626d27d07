//! One side of a conversation, driven by a simulated network and by real sockets alike.

use bytes::Bytes;
use units::{Ecn, Time};

/// The longest datagram (UDP payload) an endpoint may send, in bytes: an Ethernet frame's 1500 (RFC 894).
pub const MAX_DATAGRAM: usize = 1500;

/// A sender or receiver without clock, socket or randomness of its own.
///
/// The driver calls [`receive`](Endpoint::receive) for each datagram and [`wake`](Endpoint::wake) when
/// [`next_wake`](Endpoint::next_wake) has come, and after either drains [`transmit`](Endpoint::transmit)
/// until it returns `None` or the [last](TxMeta::last) datagram. `now` never decreases. All times are on this
/// host's own clock.
///
/// A driver without a clock or a socket, which has two endpoints talk for half a second:
///
/// ```
/// use framewire_wire::{Endpoint, MAX_DATAGRAM, RxMeta, TxMeta};
/// use units::Time;
///
/// /// Answers each datagram with one a byte longer.
/// #[derive(Default)]
/// struct Echo {
///     owed: Option<usize>,
/// }
///
/// impl Endpoint for Echo {
///     fn receive(&mut self, _: Time, _: &[u8], meta: RxMeta) {
///         self.owed = Some(meta.length + 1);
///     }
///     fn wake(&mut self, _: Time) {}
///     fn next_wake(&self) -> Option<Time> {
///         None
///     }
///     fn transmit(&mut self, _: Time, out: &mut [u8]) -> Option<TxMeta> {
///         let length = self.owed.take()?;
///         out[0] = length as u8;
///         Some(TxMeta { head: 1, length, ..TxMeta::default() })
///     }
/// }
///
/// let (mut ends, mut out) = ([Echo { owed: Some(1) }, Echo::default()], [0; MAX_DATAGRAM]);
/// for now in (0..500).map(Time::from_millis) {
///     for from in [0, 1] {
///         if ends[from].next_wake().is_some_and(|at| at <= now) {
///             ends[from].wake(now);
///         }
///         while let Some(meta) = ends[from].transmit(now, &mut out) {
///             let datagram = meta.datagram(&mut out);
///             let meta = RxMeta { length: datagram.len(), ..RxMeta::default() };
///             ends[1 - from].receive(now, datagram, meta);
///         }
///     }
/// }
/// assert_eq!(ends[0].owed, Some(1001));
/// ```
pub trait Endpoint: Send {
    /// A datagram arrived. `datagram` holds at least its header bytes; see [`RxMeta`].
    fn receive(&mut self, now: Time, datagram: &[u8], meta: RxMeta);
    /// Time has passed. Calling it early or twice does no harm.
    fn wake(&mut self, now: Time);
    /// When [`wake`](Endpoint::wake) is wanted next. May lie in the past: then at once.
    fn next_wake(&self) -> Option<Time>;
    /// Writes the next datagram's header into `out`, or returns `None` if there is nothing to send at `now`.
    /// `out` is as long as a datagram may be at present: at least 1150 bytes, what is left of the 1200 that
    /// every QUIC path carries, and more or less as the path's MTU is found or falls. A packet whose length
    /// its writer can choose, such as feedback, fits into it; media packed for a longer one is lost.
    fn transmit(&mut self, now: Time, out: &mut [u8]) -> Option<TxMeta>;
    /// A datagram will be handed over soon: has brought into the caches what an endpoint touches of itself
    /// then. Changes nothing, and a driver of few endpoints has no reason to call it.
    #[inline]
    fn fetch(&self) {
        units::fetch(self);
    }
    /// The same of what it refers to, once it is there itself.
    #[inline]
    fn expect(&self) {}
}

/// What a driver must know about a datagram to be sent.
#[derive(Clone, Debug, Default)]
pub struct TxMeta {
    /// Bytes written to `out`.
    pub head: usize,
    /// The datagram's full length (UDP payload). Beyond the head come `payload`'s bytes, and zeros after
    /// those.
    pub length: usize,
    /// The bytes after the head, if they are real; a modelled encoder has none, only a length.
    pub payload: Option<Bytes>,
    /// The ECN bits to send.
    pub ecn: Ecn,
    /// Nothing follows at this instant: a driver need not ask, though it may. Where this is false, it must.
    pub last: bool,
}

impl TxMeta {
    /// The whole datagram, as a socket takes it: the head that [`Endpoint::transmit`] wrote to the front of
    /// `out`, the payload and zeros behind it.
    ///
    /// # Panics
    /// If `out` is shorter than [`length`](TxMeta::length), which is never above [`MAX_DATAGRAM`].
    pub fn datagram<'a>(&self, out: &'a mut [u8]) -> &'a [u8] {
        let (payload, end) = (self.payload.as_deref().unwrap_or_default(), self.length);
        let filled = self.head + payload.len();
        out[self.head..filled].copy_from_slice(payload);
        out[filled..end].fill(0);
        &out[..end]
    }
}

/// What a driver knows about a datagram that arrived.
#[derive(Clone, Debug, Default)]
pub struct RxMeta {
    /// The datagram's full length (UDP payload).
    pub length: usize,
    /// In virtual time, the handle the sender attached: the bytes after the head. Over a real socket this is
    /// `None` and the payload follows the header in `datagram` itself.
    pub payload: Option<Bytes>,
    /// The ECN bits it arrived with.
    pub ecn: Ecn,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_is_its_head_its_payload_and_zeros() {
        let payload = Some(Bytes::from_static(b"ab"));
        let meta = TxMeta { head: 2, length: 6, payload, ..TxMeta::default() };
        assert_eq!(meta.datagram(&mut [9; 8]), [9, 9, b'a', b'b', 0, 0]);
        assert_eq!(TxMeta { head: 1, length: 3, ..TxMeta::default() }.datagram(&mut [7; 3]), [7, 0, 0]);
    }
}
