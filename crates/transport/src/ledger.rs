//! Every packet sent, until nothing more can be learnt about it.
//!
//! The ledger counts; it does not judge. Which packets have arrived or are lost is for those who call it: RFC
//! 9002's rules ([`LossDetection`](crate::LossDetection)), TCP's scoreboard (crate `bulk`), or a transport
//! that has its own (crate `quic`).

use cc::{Acked, Delivery, FrameTag, Lost};
use units::{Bytes, Ecn, RemoteTime, Sparing, Time};

use crate::numbered::Numbered;

/// Packets that a report is about, most often: those of a backlog are reported by two.
const NEXT: usize = 2;
/// Packets that a list of acknowledged ones has room for at first.
const ROOM: usize = 8;

/// What is known of a transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// On its way, as far as is known.
    InFlight,
    /// Arrived: the receiver acknowledged it.
    Acked,
    /// Given up as lost; it may still arrive.
    Lost,
    /// Another transmission of the same content arrived; this one may be anywhere.
    Moot,
}

/// What a packet carries, as its owner needs to find it again.
pub trait Carried: Copy {
    /// The frame that controllers are told of, if the packet carries one's bytes.
    fn frame(&self) -> Option<FrameTag> {
        None
    }
}

impl Carried for () {}

impl Carried for Option<FrameTag> {
    fn frame(&self) -> Option<FrameTag> {
        *self
    }
}

/// One packet, sent once: a cache line, where what it carries is as small as a frame's tag.
#[derive(Clone, Copy, Debug)]
pub struct Transmission<T> {
    /// When it left.
    pub sent_at: Time,
    /// UDP payload bytes.
    pub size: u32,
    /// What is known of it.
    pub state: State,
    /// What it carries.
    pub carried: T,
    // The delivery state when it left, field by field: as a structure it would not fit. In the structure's
    // order, so that it is copied by sixteen bytes.
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    lost: u64,
    in_flight: u32,
    app_limited: bool,
}

impl<T> Transmission<T> {
    /// The delivery state when it left.
    #[inline]
    pub fn delivery(&self) -> Delivery {
        Delivery {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            app_limited: self.app_limited,
            in_flight: u64::from(self.in_flight),
            lost: self.lost,
        }
    }
}

impl<T: Carried> Transmission<T> {
    /// What controllers are told of it once it has arrived.
    #[inline(always)]
    fn acked(&self, packet: u64, arrived: Arrived) -> Acked {
        let &Transmission { sent_at, size, carried, .. } = self;
        let (frame, delivery) = (carried.frame(), self.delivery());
        let Arrived { at: arrived_at, ecn } = arrived;
        Acked { packet, sent_at, arrived_at, size, ecn, frame, delivery }
    }
}

/// How an acknowledged packet arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    /// When, on the receiver's clock, where that is known.
    pub at: Option<RemoteTime>,
    /// How it was marked.
    pub ecn: Ecn,
}

/// Packets acknowledged in their order from the oldest on, of which the ledger has not heard yet
/// ([`Ledger::begin_run`]).
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The number of the packet that would join next.
    next: u64,
    /// Bytes of those that have joined, ...
    bytes: u64,
    /// ... and when the last of them was sent.
    sent_at: Time,
}

/// Packets by number, and the sums that delivery-rate samples are made of (draft-ietf-ccwg-bbr section 4.1).
///
/// ```
/// use framewire_transport::{Arrived, Ledger};
/// use units::Time;
///
/// let mut ledger = Ledger::<()>::new(1000);
/// let first = ledger.send(Time::ZERO, 1200, ());
/// let second = ledger.send(Time::from_millis(1), 1200, ());
/// let acked = ledger.acknowledge(Time::from_millis(40), second, Arrived::default());
/// assert_eq!((acked.packet, acked.sent_at), (1, Time::from_millis(1)));
/// assert_eq!(ledger.lose(first).packet, 0);
/// assert_eq!((ledger.in_flight().get(), ledger.delivered(), ledger.lost()), (0, 1200, 1200));
/// ```
#[derive(Clone, Debug)]
pub struct Ledger<T> {
    transmissions: Numbered<Transmission<T>>,
    /// Transmissions remembered at most.
    most: usize,
    in_flight: u64,
    delivered: u64,
    lost: u64,
    /// Samples of what is sent until so much is delivered are bounded by the application.
    app_limited_until: u64,
    delivered_at: Time,
    first_sent_at: Time,
}

impl<T: Carried> Ledger<T> {
    /// An empty ledger that remembers at most `most` packets ([`is_full`](Ledger::is_full)).
    pub fn new(most: usize) -> Ledger<T> {
        Ledger::with_room(most, 0)
    }

    /// As [`new`](Ledger::new), with room for `room` packets from the start. What of it is never needed may
    /// be given back later.
    pub fn with_room(most: usize, room: usize) -> Ledger<T> {
        Ledger {
            transmissions: Numbered::with_room(room),
            most,
            in_flight: 0,
            delivered: 0,
            lost: 0,
            app_limited_until: 0,
            delivered_at: Time::ZERO,
            first_sent_at: Time::ZERO,
        }
    }

    /// Has brought into the caches what the next report will likely be about, the oldest packets, and where
    /// the next ones will be entered.
    #[inline]
    pub fn expect(&self) {
        // And behind those that are reported the next one is looked at.
        self.transmissions.fetch(NEXT);
    }

    /// The number of the oldest packet remembered; [`next_packet`](Ledger::next_packet) if there is none.
    #[inline]
    pub fn oldest(&self) -> u64 {
        self.transmissions.oldest()
    }

    /// The number that the next packet gets.
    #[inline]
    pub fn next_packet(&self) -> u64 {
        self.transmissions.next()
    }

    /// Bytes in flight.
    #[inline]
    pub fn in_flight(&self) -> Bytes {
        Bytes::new(self.in_flight)
    }

    /// Bytes delivered over the connection's life.
    #[inline]
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Bytes given up over the connection's life; those that arrived after all are not taken back.
    #[inline]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// As many packets are remembered as may be: the oldest must be forgotten before another one is sent.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.transmissions.len() >= self.most
    }

    /// A packet, if it is remembered.
    #[inline]
    pub fn get(&self, packet: u64) -> Option<&Transmission<T>> {
        self.transmissions.get(packet)
    }

    /// The packets remembered, by number.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Transmission<T>)> {
        self.transmissions.iter()
    }

    /// The first packet that was sent at `sent_at` or later.
    pub fn first_since(&self, sent_at: Time) -> u64 {
        self.transmissions.partition_point(|sent| sent.sent_at < sent_at)
    }

    /// A delivery-rate sample begins with the next packet: nothing was on its way before it.
    #[inline]
    pub fn begin_sample(&mut self, now: Time) {
        (self.first_sent_at, self.delivered_at) = (now, now);
    }

    /// Samples of packets that leave before more than `until` bytes are delivered tell as much about the
    /// application as about the path.
    #[inline]
    pub fn limit_by_application(&mut self, until: u64) {
        self.app_limited_until = until;
    }

    /// Enters a packet of `size` bytes that leaves at `now`, and returns its number.
    #[inline]
    pub fn send(&mut self, now: Time, size: u32, carried: T) -> u64 {
        self.in_flight += u64::from(size);
        let transmission = Transmission {
            sent_at: now,
            size,
            state: State::InFlight,
            carried,
            app_limited: self.delivered < self.app_limited_until,
            // No ledger has four gigabytes in flight: that is 2^21 packets of 2 kB.
            in_flight: u32::try_from(self.in_flight).unwrap_or(u32::MAX),
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            lost: self.lost,
        };
        self.transmissions.enter(transmission)
    }

    /// A packet arrived: counts its bytes as delivered, whatever was known of it before.
    ///
    /// # Panics
    /// If it is not remembered.
    #[inline]
    pub fn acknowledge(&mut self, now: Time, packet: u64, arrived: Arrived) -> Acked {
        self.acknowledge_from(now, packet, arrived).0
    }

    /// As [`acknowledge`](Ledger::acknowledge), and what was known of the packet until now.
    ///
    /// # Panics
    /// If it is not remembered.
    #[inline(always)]
    pub fn acknowledge_from(&mut self, now: Time, packet: u64, arrived: Arrived) -> (Acked, State) {
        let (acked, before) = self.arrive(packet, arrived);
        self.count_delivered(now, u64::from(acked.size));
        (acked, before)
    }

    /// As [`acknowledge`](Ledger::acknowledge), of a packet in flight, which is appended to `out`, and from
    /// which the next samples reach back ([`sample_from`](Ledger::sample_from)).
    ///
    /// # Errors
    /// What is known of the packet, where that is something else; nothing is changed then.
    #[inline(always)]
    pub fn acknowledge_in_flight(
        &mut self,
        now: Time,
        packet: u64,
        arrived: Arrived,
        out: &mut Vec<Acked>,
    ) -> Result<(), Option<State>> {
        let slot = self.transmissions.get_mut(packet).ok_or(None)?;
        // Read before it is written to, as in `change`.
        let sent = *slot;
        if units::unlikely(sent.state != State::InFlight) {
            return Err(Some(sent.state));
        }
        slot.state = State::Acked;
        let size = u64::from(sent.size);
        self.in_flight = self.in_flight.saturating_sub(size);
        self.count_delivered(now, size);
        self.first_sent_at = sent.sent_at;
        // Put together where it is kept: what is handed over is copied.
        out.put(ROOM, sent.acked(packet, arrived));
        Ok(())
    }

    /// Begins a run of packets that are acknowledged in their order from the oldest on.
    #[inline(always)]
    pub fn begin_run(&self) -> Run {
        Run { next: self.oldest(), bytes: 0, sent_at: self.first_sent_at }
    }

    /// Has a packet join a run, if it is the run's next and in flight: appends it to `out` and returns true.
    /// The ledger hears of it when the run [ends](Ledger::end_run), so that its sums are written once for
    /// all; nothing else may be done to it until then.
    #[inline(always)]
    pub fn join_run(&self, run: &mut Run, packet: u64, arrived: Arrived, out: &mut Vec<Acked>) -> bool {
        let flying = self.transmissions.get(packet).filter(|sent| sent.state == State::InFlight);
        let Some(sent) = flying.filter(|_| packet == run.next) else {
            return false;
        };
        *run = Run { next: packet + 1, bytes: run.bytes + u64::from(sent.size), sent_at: sent.sent_at };
        // Put together where it is kept, once there is room for it.
        out.extend(std::iter::once_with(|| sent.acked(packet, arrived)));
        true
    }

    /// As [`acknowledge_in_flight`](Ledger::acknowledge_in_flight), of each packet of a run: they are
    /// forgotten at once, for nothing more can be learnt of them.
    #[inline(always)]
    pub fn end_run(&mut self, now: Time, run: Run) {
        if run.next > self.oldest() {
            self.transmissions.forget_before(run.next);
            self.in_flight = self.in_flight.saturating_sub(run.bytes);
            self.count_delivered(now, run.bytes);
            self.first_sent_at = run.sent_at;
        }
    }

    /// As [`acknowledge`](Ledger::acknowledge), where another transport says how many bytes that was.
    ///
    /// # Panics
    /// If the packet is not remembered.
    #[inline]
    pub fn acknowledge_bytes(&mut self, now: Time, packet: u64, size: u32, arrived: Arrived) -> Acked {
        let (acked, _) = self.arrive(packet, arrived);
        self.count_delivered(now, u64::from(size));
        Acked { size, ..acked }
    }

    #[inline(always)]
    fn arrive(&mut self, packet: u64, arrived: Arrived) -> (Acked, State) {
        let sent = self.change(packet, State::Acked);
        (sent.acked(packet, arrived), sent.state)
    }

    /// The next samples reach back to a packet that was sent at `sent_at`: of those just acknowledged, the
    /// newest.
    #[inline]
    pub fn sample_from(&mut self, sent_at: Time) {
        self.first_sent_at = sent_at;
    }

    /// Send time of the packet that the next samples reach back to.
    pub fn sampled_from(&self) -> Time {
        self.first_sent_at
    }

    /// Counts bytes as delivered whose packet has been forgotten.
    #[inline]
    pub fn count_delivered(&mut self, now: Time, bytes: u64) {
        self.delivered += bytes;
        self.delivered_at = now;
    }

    /// A packet is given up.
    ///
    /// # Panics
    /// If it is not remembered.
    #[inline]
    pub fn lose(&mut self, packet: u64) -> Lost {
        let sent = self.change(packet, State::Lost);
        let (sent_at, size, carried, delivery) = (sent.sent_at, sent.size, sent.carried, sent.delivery());
        self.lost += u64::from(size);
        Lost { packet, sent_at, size, frame: carried.frame(), delivery }
    }

    /// What is known of a packet changes; nothing is counted but what is in flight.
    ///
    /// # Panics
    /// If it is not remembered.
    #[inline]
    pub fn settle(&mut self, packet: u64, state: State) {
        self.change(packet, state);
    }

    /// Returns the packet as it was.
    #[inline]
    fn change(&mut self, packet: u64, state: State) -> Transmission<T> {
        // Read before it is written to: a processor stalls where it reads by sixteen bytes what was just
        // written by one.
        let slot = self.transmissions.get_mut(packet).expect("the packet is remembered");
        let sent = *slot;
        slot.state = state;
        let size = u64::from(sent.size);
        let (was, is) = (sent.state == State::InFlight, state == State::InFlight);
        if units::likely(was && !is) {
            // A transport that counts for itself may count less.
            self.in_flight = self.in_flight.saturating_sub(size);
        } else if is && !was {
            self.in_flight += size;
        }
        sent
    }

    /// Takes over what another transport counts, where it and not the ledger decides what is in flight: bytes
    /// in flight, and bytes given up over the connection's life.
    pub fn correct(&mut self, in_flight: u64, lost: u64) {
        (self.in_flight, self.lost) = (in_flight, lost);
    }

    /// Forgets the oldest packet; one in flight counts as neither delivered nor lost.
    pub fn forget_oldest(&mut self) -> Option<Transmission<T>> {
        let oldest = self.transmissions.forget_oldest()?;
        if units::unlikely(oldest.state == State::InFlight) {
            self.in_flight = self.in_flight.saturating_sub(u64::from(oldest.size));
        }
        Some(oldest)
    }

    /// Gives room back that was not needed for long. To be called where packets are forgotten.
    #[inline]
    pub fn look_at_room(&mut self) {
        self.transmissions.look_at_room();
    }

    /// Forgets from the oldest packet on, while `is_over` says that nothing more can be learnt of it.
    #[inline]
    pub fn forget_while(&mut self, mut is_over: impl FnMut(u64, &Transmission<T>) -> bool) {
        self.look_at_room();
        while self.get(self.oldest()).is_some_and(|oldest| is_over(self.oldest(), oldest)) {
            self.forget_oldest();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    #[test]
    fn a_sample_is_the_state_when_the_packet_left() {
        let mut ledger = Ledger::<()>::new(8);
        ledger.begin_sample(ms(10));
        ledger.send(ms(10), 1000, ());
        ledger.send(ms(20), 1000, ());
        let acked = ledger.acknowledge(ms(60), 0, Arrived::default());
        ledger.sample_from(acked.sent_at);
        ledger.limit_by_application(ledger.delivered() + ledger.in_flight().get() + 1);
        ledger.send(ms(61), 1000, ());
        let late = ledger.acknowledge(ms(111), 2, Arrived::default()).delivery;
        assert_eq!((late.delivered, late.delivered_at, late.first_sent_at), (1000, ms(60), ms(10)));
        assert_eq!((late.in_flight, late.app_limited, late.lost), (2000, true, 0));
    }

    #[test]
    fn a_packet_of_a_frame_is_a_cache_line() {
        assert_eq!(size_of::<Transmission<Option<FrameTag>>>(), 64);
    }

    #[test]
    fn packets_are_found_by_number_and_by_send_time() {
        let mut ledger = Ledger::<()>::new(8);
        (0..6).for_each(|n| _ = ledger.send(ms(n / 2), 100, ()));
        ledger.acknowledge(ms(9), 0, Arrived::default());
        ledger.forget_while(|_, sent| sent.state == State::Acked);
        assert_eq!((ledger.oldest(), ledger.next_packet()), (1, 6));
        assert!(ledger.get(0).is_none() && ledger.get(6).is_none());
        assert_eq!(
            (ledger.first_since(ms(0)), ledger.first_since(ms(1)), ledger.first_since(ms(7))),
            (1, 2, 6)
        );
        assert_eq!(ledger.get(5).map(|sent| sent.sent_at), Some(ms(2)));
    }

    proptest! {
        /// Whatever happens to packets, in whatever order, the sums are those of their states.
        #[test]
        fn sums_are_those_of_the_states(steps in prop::collection::vec((0u8..6, any::<prop::sample::Index>(), 1u32..1500), 1..200)) {
            let mut ledger = Ledger::<()>::new(32);
            let (mut delivered, mut lost) = (0, 0);
            for (step, index, size) in steps {
                let known = ledger.next_packet() - ledger.oldest();
                let packet = ledger.oldest() + if known > 0 { index.index(known as usize) as u64 } else { 0 };
                match (step, known) {
                    (0, _) | (_, 0) => {
                        if ledger.is_full() {
                            ledger.forget_oldest();
                        }
                        ledger.send(Time::ZERO, size, ());
                    }
                    (1, _) => delivered += u64::from(ledger.acknowledge(Time::ZERO, packet, Arrived::default()).size),
                    (2, _) => lost += u64::from(ledger.lose(packet).size),
                    (3, _) => ledger.settle(packet, State::Moot),
                    (4, _) => {
                        // All up to the packet arrive, as far as they are in flight, and one never sent.
                        let (oldest, next, mut out) = (ledger.oldest(), ledger.next_packet(), Vec::new());
                        let flies = |packet: &u64| ledger.get(*packet).is_some_and(|sent| sent.state == State::InFlight);
                        let joining: Vec<u64> = (oldest..=packet).take_while(flies).collect();
                        let mut run = ledger.begin_run();
                        let joins = (oldest..=packet).filter(|&packet| ledger.join_run(&mut run, packet, Arrived::default(), &mut out));
                        prop_assert!(joins.eq(joining.iter().copied()));
                        prop_assert!([next, u64::MAX].iter().all(|&packet| !ledger.join_run(&mut run, packet, Arrived::default(), &mut out)));
                        ledger.end_run(Time::ZERO, run);
                        prop_assert!(out.iter().map(|acked| acked.packet).eq(joining.iter().copied()));
                        prop_assert_eq!(ledger.oldest(), oldest + joining.len() as u64);
                        prop_assert!(ledger.next_packet() == next && joining.last().is_none_or(|last| ledger.get(*last).is_none()));
                        delivered += out.iter().map(|acked| u64::from(acked.size)).sum::<u64>();
                    }
                    _ => ledger.settle(packet, State::InFlight),
                }
                let flying = ledger.iter().filter(|(_, sent)| sent.state == State::InFlight);
                prop_assert_eq!(ledger.in_flight().get(), flying.map(|(_, sent)| u64::from(sent.size)).sum::<u64>());
                prop_assert_eq!((ledger.delivered(), ledger.lost()), (delivered, lost));
                prop_assert!(ledger.iter().count() <= 32);
            }
        }
    }
}
