//! What the receiver hands out to the page and takes back from it: the browser is its decoder and its screen.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use media::{CodecError, Decoded, Decoder, RawFrame};
use record::{Event, NodeId, Recorder};
use session::{Screen, Shown};
use units::{RelativeDelay, RemoteTime, Span, Time};

/// A frame the page shall decode.
#[derive(Clone, Debug)]
pub struct Coded {
    /// The frame's number within its stream.
    pub frame: u32,
    /// The coded frame, whole.
    pub bytes: Bytes,
}

/// A frame the page shall show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// The frame's number within its stream.
    pub frame: u32,
    /// When it was captured, on the sender's clock.
    pub captured: RemoteTime,
    /// After its deadline.
    pub late: bool,
}

/// Frames to show that the page has not asked for yet, at most; it asks after every call.
const DUE: usize = 64;
/// The queue's delay is measured from the smallest one-way delay of the last one to two of these: long enough
/// to meet an empty queue, short enough that 200 ppm of drift between the clocks stays below 4 ms.
const WINDOW: Span = Span::from_secs(10);

#[derive(Default)]
struct State {
    /// To be decoded.
    coded: VecDeque<Coded>,
    /// With the decoder, here or there: number, and what became of it. The receiver bounds how many.
    inside: VecDeque<(u32, Option<bool>)>,
    due: VecDeque<Due>,
    queue: Queue,
    numbers: Numbers,
}

/// One-way delays above the smallest.
#[derive(Default)]
struct Queue {
    current: Option<RelativeDelay>,
    previous: Option<RelativeDelay>,
    turned_at: Time,
    sum: Span,
    count: i64,
}

impl Queue {
    fn insert(&mut self, at: Time, owd: RelativeDelay) {
        if at - self.turned_at > WINDOW {
            (self.previous, self.current, self.turned_at) = (self.current, None, at);
        }
        let current = self.current.map_or(owd, |least| least.min(owd));
        self.current = Some(current);
        self.sum += owd - self.previous.map_or(current, |previous| previous.min(current));
        self.count += 1;
    }

    fn take_mean(&mut self) -> Option<Span> {
        let (sum, count) = (std::mem::take(&mut self.sum), std::mem::take(&mut self.count));
        (count > 0).then(|| sum / count)
    }
}

/// Packet numbers that arrived: what a receiver knows of losses without being told (RFC 3550 appendix A.3).
#[derive(Default)]
struct Numbers {
    /// The first that came, and the highest.
    seen: Option<(u64, u64)>,
}

impl Numbers {
    fn insert(&mut self, packet: u64) {
        let (first, highest) = self.seen.unwrap_or((packet, packet));
        self.seen = Some((first, highest.max(packet)));
    }

    /// Packets sent from the first that came to the highest, whether they came or not.
    fn expected(&self) -> u64 {
        self.seen.map_or(0, |(first, highest)| highest - first + 1)
    }
}

/// The place of exchange; clones share it.
#[derive(Clone, Default)]
pub struct Exchange(Arc<Mutex<State>>);

impl Exchange {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("a page has one thread")
    }

    /// The next frame for the browser's decoder.
    pub fn take_coded(&self) -> Option<Coded> {
        self.state().coded.pop_front()
    }

    /// The next frame for the screen.
    pub fn take_due(&self) -> Option<Due> {
        self.state().due.pop_front()
    }

    /// The mean of what packets waited in queues since this was last asked.
    pub fn take_queue(&self) -> Option<Span> {
        self.state().queue.take_mean()
    }

    /// Packets that were sent, as far as their numbers tell: from the first that arrived to the highest.
    pub fn expected(&self) -> u64 {
        self.state().numbers.expected()
    }

    /// The browser's decoder gave `frame` back. Decoders keep the order: earlier ones it has not given back
    /// are lost.
    pub fn decoded(&self, frame: u32) {
        let mut state = self.state();
        let Some(at) = state.inside.iter().position(|(inside, _)| *inside == frame) else { return };
        for (_, outcome) in state.inside.iter_mut().take(at) {
            outcome.get_or_insert(false);
        }
        state.inside[at].1.get_or_insert(true);
    }

    /// The browser's decoder failed: what it held will not come back.
    pub fn decoder_failed(&self) {
        let mut state = self.state();
        state.coded.clear();
        for (_, outcome) in &mut state.inside {
            outcome.get_or_insert(false);
        }
    }
}

impl Decoder for Exchange {
    fn submit(&mut self, _now: Time, frame: u32, coded: Bytes) {
        let mut state = self.state();
        state.coded.push_back(Coded { frame, bytes: coded });
        state.inside.push_back((frame, None));
    }

    fn poll(&mut self, _now: Time) -> Option<Decoded> {
        let mut state = self.state();
        let (frame, decodes) = state.inside.front().and_then(|&(frame, outcome)| Some((frame, outcome?)))?;
        state.inside.pop_front();
        let what = || CodecError::Codec { codec: "WebCodecs", what: "no picture".to_owned() };
        // The picture stays with the browser; this one stands for it.
        let picture = if decodes { Ok(RawFrame::filled(2, 2, 0, 128, 128)) } else { Err(what()) };
        Some(Decoded::whole(frame, picture))
    }

    fn next_ready(&self) -> Option<Time> {
        let state = self.state();
        // While one is in the making nobody knows; the page wakes the receiver when it is done.
        state.inside.front().map(|(_, outcome)| if outcome.is_some() { Time::ZERO } else { Time::MAX })
    }
}

impl Screen for Exchange {
    fn show(&mut self, _now: Time, shown: &Shown) {
        let mut state = self.state();
        if state.due.len() == DUE {
            state.due.pop_front();
        }
        state.due.push_back(Due { frame: shown.frame, captured: shown.captured, late: shown.late });
    }
}

impl Recorder for Exchange {
    fn record(&mut self, at: Time, _node: NodeId, event: &Event) {
        if let Event::PacketReceived { packet, owd, .. } = event {
            let mut state = self.state();
            state.queue.insert(at, *owd);
            state.numbers.insert(*packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(frames: &[u32]) -> Exchange {
        let mut exchange = Exchange::default();
        frames.iter().for_each(|&frame| exchange.submit(Time::ZERO, frame, Bytes::from_static(&[1])));
        exchange
    }

    fn outcomes(exchange: &mut Exchange) -> Vec<(u32, bool)> {
        let poll = || exchange.poll(Time::ZERO).map(|decoded| (decoded.frame, decoded.picture.is_ok()));
        std::iter::from_fn(poll).collect()
    }

    #[test]
    fn numbers_tell_what_was_sent_whatever_the_order() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.expected(), 0);
        [7, 8, 11, 10].into_iter().for_each(|packet| numbers.insert(packet));
        assert_eq!(numbers.expected(), 5, "7 to 11, of which 9 is missing");
        // One from before the first is no loss of ours.
        numbers.insert(3);
        assert_eq!(numbers.expected(), 5);
    }

    #[test]
    fn frames_come_back_in_order_and_skipped_ones_are_lost() {
        let mut exchange = with(&[3, 4, 5, 6]);
        assert_eq!(exchange.next_ready(), Some(Time::MAX));
        assert!(std::iter::from_fn(|| exchange.take_coded()).map(|coded| coded.frame).eq(3..7));
        exchange.decoded(3);
        exchange.decoded(3);
        exchange.decoded(5);
        exchange.decoded(99);
        assert_eq!(exchange.next_ready(), Some(Time::ZERO));
        assert_eq!(outcomes(&mut exchange), [(3, true), (4, false), (5, true)]);
        exchange.decoder_failed();
        assert_eq!(outcomes(&mut exchange), [(6, false)]);
        assert_eq!(exchange.next_ready(), None);
    }

    #[test]
    fn queueing_is_what_exceeds_the_smallest_delay() {
        let mut exchange = Exchange::default();
        let mut packet = |at: Time, ms: i64| {
            let owd = RelativeDelay::between(RemoteTime::from_nanos(-ms * 1_000_000), Time::ZERO);
            let event = Event::PacketReceived { packet: 0, size: 1, stream: 0, frame: 0, version: 0, owd };
            exchange.record(at, NodeId(0), &event);
            exchange.take_queue().map(|span| span.as_millis_f64())
        };
        assert_eq!(packet(Time::from_secs(1), 100), Some(0.0));
        assert_eq!(packet(Time::from_secs(2), 130), Some(30.0));
        assert_eq!(packet(Time::from_secs(11), 120), Some(20.0), "the window before still counts");
        assert_eq!(packet(Time::from_secs(22), 140), Some(20.0), "and is forgotten after that");
        assert_eq!(exchange.take_queue(), None);
    }
}
