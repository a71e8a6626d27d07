//! One-way delays within a QUIC connection: a probe in a datagram, an echo that says when it arrived.
//!
//! QUIC's acknowledgements carry no arrival times. A probe carries nothing but its number: the sender
//! remembers which packet took it and when that one left, so that waiting in the sender's own queue is not
//! taken for waiting on the path.

use units::RemoteTime;

use crate::codec::{Kind, MASK_48, Reader, WireError, Writer, micros, unzigzag, zigzag};

/// A packet whose arrival is to be timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimingProbe {
    /// Number of the direction that is timed; the two sides of a connection may time each other.
    pub session: u32,
    /// The probe's number, below 2^48; each is used once.
    pub sequence: u64,
}

/// One probe's arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimedArrival {
    /// The probe's number, below 2^48.
    pub sequence: u64,
    /// When it arrived, on the receiver's clock, to 1 us, modulo 2^48 us.
    pub at: RemoteTime,
}

/// When the newest probes arrived. Each arrival is told several times, so that a lost echo takes nothing with
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimingEcho {
    /// The probes' session.
    pub session: u32,
    arrivals: [TimedArrival; TimingEcho::MAX_ARRIVALS],
    count: u8,
}

impl TimingProbe {
    /// Room that any probe fits in.
    pub const MAX_LEN: usize = 6 + 8;

    /// Writes the probe to the front of `out` and returns its length.
    ///
    /// # Panics
    /// If `out` is shorter than [`TimingProbe::MAX_LEN`].
    pub fn encode(&self, out: &mut [u8]) -> usize {
        let mut w = Writer::open(out, Kind::TimingProbe, 0, self.session);
        w.varint(self.sequence & MASK_48);
        w.len()
    }

    /// Reads a probe. Bytes beyond its fields are ignored.
    ///
    /// # Errors
    /// [`WireError`] where the bytes are no probe of this version.
    pub fn decode(datagram: &[u8]) -> Result<TimingProbe, WireError> {
        let (mut r, session) = Reader::open_plain(datagram, Kind::TimingProbe)?;
        Ok(TimingProbe { session, sequence: number(r.varint()?)? })
    }
}

impl TimingEcho {
    /// Most arrivals in one echo.
    pub const MAX_ARRIVALS: usize = 8;
    /// Room that any echo fits in.
    pub const MAX_LEN: usize = 6 + (8 + 6) + (TimingEcho::MAX_ARRIVALS - 1) * (8 + 8);

    /// An echo of `arrivals`, the highest number first; those beyond
    /// [`MAX_ARRIVALS`](TimingEcho::MAX_ARRIVALS), or out of that order, are left out.
    pub fn new(session: u32, arrivals: &[TimedArrival]) -> TimingEcho {
        let mut echo =
            TimingEcho { session, arrivals: [TimedArrival::default(); TimingEcho::MAX_ARRIVALS], count: 0 };
        for arrival in arrivals.iter().take(TimingEcho::MAX_ARRIVALS) {
            let count = usize::from(echo.count);
            if count == 0 || echo.arrivals[count - 1].sequence > arrival.sequence {
                echo.arrivals[count] = *arrival;
                echo.count += 1;
            }
        }
        echo
    }

    /// The arrivals, the highest number first.
    pub fn arrivals(&self) -> &[TimedArrival] {
        &self.arrivals[..usize::from(self.count)]
    }

    /// Writes the echo to the front of `out` and returns its length. Times are rounded down to their
    /// resolution.
    ///
    /// # Panics
    /// If `out` is shorter than [`TimingEcho::MAX_LEN`].
    pub fn encode(&self, out: &mut [u8]) -> usize {
        let mut w = Writer::open(out, Kind::TimingEcho, self.count, self.session);
        let at = |arrival: &TimedArrival| micros(arrival.at.as_nanos()) & MASK_48 as i64;
        let mut newer: Option<&TimedArrival> = None;
        for arrival in self.arrivals() {
            match newer {
                None => {
                    w.varint(arrival.sequence & MASK_48);
                    w.u48(at(arrival) as u64);
                }
                // Probes are numbered in the order they leave in and mostly arrive in it too.
                Some(newer) => {
                    w.varint((newer.sequence - arrival.sequence - 1) & MASK_48);
                    w.varint(zigzag(at(newer) - at(arrival)));
                }
            }
            newer = Some(arrival);
        }
        w.len()
    }

    /// Reads an echo. Bytes beyond its fields are ignored.
    ///
    /// # Errors
    /// [`WireError`] where the bytes are no echo of this version.
    pub fn decode(datagram: &[u8]) -> Result<TimingEcho, WireError> {
        let (mut r, count, session) = Reader::open(datagram, Kind::TimingEcho)?;
        if usize::from(count) > TimingEcho::MAX_ARRIVALS {
            return Err(WireError::Field("arrivals"));
        }
        let mut echo = TimingEcho { count, ..TimingEcho::new(session, &[]) };
        let mut newer: Option<(u64, i64)> = None;
        for arrival in &mut echo.arrivals[..usize::from(count)] {
            let (sequence, us) = match newer {
                None => (number(r.varint()?)?, r.u48()? as i64),
                Some((sequence, us)) => {
                    let below = sequence.checked_sub(r.varint()?).and_then(|n| n.checked_sub(1));
                    let since = unzigzag(r.varint()?);
                    (below.ok_or(WireError::Field("sequence"))?, us.saturating_sub(since))
                }
            };
            if !(0..=MASK_48 as i64).contains(&us) {
                return Err(WireError::Field("arrival"));
            }
            *arrival = TimedArrival { sequence, at: RemoteTime::from_nanos(us * 1_000) };
            newer = Some((sequence, us));
        }
        Ok(echo)
    }
}

fn number(value: u64) -> Result<u64, WireError> {
    if value <= MASK_48 { Ok(value) } else { Err(WireError::Field("sequence")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        fn echo()(
            session: u32, newest in 100u64..=MASK_48, at_us in 0i64..1 << 47,
            earlier in prop::collection::vec((1u64..12, -1_000i64..100_000), 0..8),
        ) -> TimingEcho {
            let mut arrival = (newest, at_us);
            let mut arrivals = vec![arrival];
            for (gap, since) in earlier {
                arrival = (arrival.0 - gap, (arrival.1 - since).max(0));
                arrivals.push(arrival);
            }
            let timed = |(sequence, us)| TimedArrival { sequence, at: RemoteTime::from_nanos(us * 1_000) };
            TimingEcho::new(session, &arrivals.into_iter().map(timed).collect::<Vec<_>>())
        }
    }

    proptest! {
        #[test]
        fn a_probe_round_trips(session: u32, sequence in 0..=MASK_48, rest in 0usize..9) {
            let probe = TimingProbe { session, sequence };
            let mut out = [0xaa; TimingProbe::MAX_LEN + 9];
            let length = probe.encode(&mut out);
            prop_assert_eq!(TimingProbe::decode(&out[..length + rest]), Ok(probe));
            for short in 0..length {
                prop_assert_eq!(TimingProbe::decode(&out[..short]), Err(WireError::Truncated));
            }
        }

        #[test]
        fn an_echo_round_trips(echo in echo(), rest in 0usize..9) {
            let mut out = [0xaa; TimingEcho::MAX_LEN + 9];
            let length = echo.encode(&mut out);
            prop_assert_eq!(TimingEcho::decode(&out[..length + rest]), Ok(echo));
            for short in 0..length {
                prop_assert_eq!(TimingEcho::decode(&out[..short]), Err(WireError::Truncated));
            }
        }

        #[test]
        fn any_bytes_are_no_panic(flags: u8, bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            for kind in [Kind::TimingProbe, Kind::TimingEcho] {
                let mut all = vec![crate::codec::first_byte(kind), flags];
                all.extend(&bytes);
                crate::oracle::timing_probe(&all);
                crate::oracle::timing_echo(&all);
            }
        }
    }

    #[test]
    fn probes_and_echoes_are_small() {
        let mut out = [0; TimingEcho::MAX_LEN];
        assert_eq!(TimingProbe { session: 1, sequence: 9_000 }.encode(&mut out), 8);
        let timed = |sequence, us: i64| TimedArrival { sequence, at: RemoteTime::from_nanos(us * 1_000) };
        let arrivals = [timed(9_000, 5_000_000), timed(8_999, 4_998_000), timed(8_998, 4_996_000)];
        assert_eq!(TimingEcho::new(1, &arrivals).encode(&mut out), 6 + 8 + 2 * 3);
    }

    #[test]
    fn what_leaves_its_range_is_refused() {
        let mut out = [0; 40];
        let mut w = Writer::open(&mut out, Kind::TimingEcho, 2, 7);
        w.varint(5);
        w.u48(10);
        w.varint(5);
        w.varint(0);
        let length = w.len();
        assert_eq!(TimingEcho::decode(&out[..length]), Err(WireError::Field("sequence")));
        out[1] = 9;
        assert_eq!(TimingEcho::decode(&out[..length]), Err(WireError::Field("arrivals")));
        let mut w = Writer::open(&mut out, Kind::TimingProbe, 0, 7);
        w.varint(1 << 48);
        assert_eq!(TimingProbe::decode(&out), Err(WireError::Field("sequence")));
    }
}
