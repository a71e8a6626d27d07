//! One-way delays: the receiver's end.

use bytes::Bytes;
use units::RemoteTime;
use wire::{TimedArrival, TimingEcho, TimingProbe};

/// Arrivals told again with each echo: three in a row must be lost for one to stay untold.
const TOLD: usize = 3;

/// What came of probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EchoCounters {
    /// Probes answered.
    pub answered: u64,
    /// Probes that came before, or too late to tell.
    pub stale: u64,
}

/// Answers probes with when they arrived. Keeps the newest few arrivals and nothing else, whatever comes.
#[derive(Clone, Debug, Default)]
pub struct Echoes {
    /// The newest arrivals, the highest number first.
    newest: Vec<TimedArrival>,
    counters: EchoCounters,
}

impl Echoes {
    /// Takes a datagram that arrived `at` this host's clock; returns the datagram to be sent back at once, if
    /// it was a probe that has not been answered. Anything else is left to the application.
    pub fn answer(&mut self, at: RemoteTime, datagram: &[u8]) -> Option<Bytes> {
        let probe = TimingProbe::decode(datagram).ok()?;
        let sequence = probe.sequence;
        // A number that is not above all heard of is a replay, or was overtaken: the sender has newer news
        // than this.
        if self.newest.first().is_some_and(|newest| sequence <= newest.sequence) {
            self.counters.stale += 1;
            return None;
        }
        self.newest.insert(0, TimedArrival { sequence, at });
        self.newest.truncate(TOLD);
        self.counters.answered += 1;
        let mut out = [0; TimingEcho::MAX_LEN];
        let length = TimingEcho::new(probe.session, &self.newest).encode(&mut out);
        Some(Bytes::copy_from_slice(&out[..length]))
    }

    /// Counts so far.
    pub fn counters(&self) -> EchoCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Time;

    fn probe(sequence: u64) -> Vec<u8> {
        let mut out = [0; TimingProbe::MAX_LEN];
        let length = TimingProbe { session: 0, sequence }.encode(&mut out);
        out[..length].to_vec()
    }

    #[test]
    fn an_echo_tells_the_last_three_and_replays_are_not_answered() {
        let mut echoes = Echoes::default();
        let mut told = |at: u64, sequence| {
            let answer = echoes.answer(Time::from_millis(at).on_wire(), &probe(sequence))?;
            let echo = TimingEcho::decode(&answer).unwrap();
            Some(
                echo.arrivals().iter().map(|a| (a.sequence, a.at.as_nanos() / 1_000_000)).collect::<Vec<_>>(),
            )
        };
        assert_eq!(told(5, 0).unwrap(), [(0, 5)]);
        told(6, 1);
        assert_eq!(told(9, 4).unwrap(), [(4, 9), (1, 6), (0, 5)]);
        assert_eq!((told(10, 4), told(11, 3)), (None, None));
        // The receiver's clock was set back: times are told as they are.
        assert_eq!(told(2, 5).unwrap(), [(5, 2), (4, 9), (1, 6)]);
        assert_eq!(echoes.counters(), EchoCounters { answered: 4, stale: 2 });
        assert_eq!(echoes.answer(Time::ZERO.on_wire(), b"an application's own"), None);
    }
}
