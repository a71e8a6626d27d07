//! What a host does with a sender and a receiver alike.

use units::{Rate, Time};
use wire::{Endpoint, MAX_DATAGRAM, RxMeta};

use crate::guard::{Answer, Refusal, given, slice, wrong};
use crate::{FW_LEAST_DATAGRAM, fw_result};

/// The longest datagram that can arrive, in bytes: what an IP packet's length leaves room for.
const LONGEST: usize = 65_535;

/// A host's clock, which never runs backwards here.
#[derive(Default)]
pub struct HostTime(Time);

impl HostTime {
    /// The host's `now`, or the one before it if that was later: threads may take the time in another order
    /// than they come here.
    pub fn at(&mut self, now: i64) -> Result<Time, Refusal> {
        self.0 = self.0.max(instant("now", now)?);
        Ok(self.0)
    }
}

/// An instant on the host's clock.
pub fn instant(what: &str, ns: i64) -> Result<Time, Refusal> {
    let ns = u64::try_from(ns);
    ns.map(Time::from_nanos).map_err(|_| wrong(format!("{what} is before the clock's zero")))
}

/// An endpoint and what a host's calls need.
pub struct Driven<E> {
    pub endpoint: E,
    clock: HostTime,
    out: Box<[u8; MAX_DATAGRAM]>,
}

impl<E: Endpoint> Driven<E> {
    pub fn new(endpoint: E) -> Driven<E> {
        Driven { endpoint, clock: HostTime::default(), out: Box::new([0; MAX_DATAGRAM]) }
    }

    pub fn at(&mut self, now: i64) -> Result<Time, Refusal> {
        self.clock.at(now)
    }

    /// # Safety
    /// `length` bytes are at `data`.
    pub unsafe fn receive(&mut self, now: i64, data: *const u8, length: usize) -> Answer {
        if length > LONGEST {
            return Err(wrong(format!("a datagram of {length} bytes; none is longer than {LONGEST}")));
        }
        // SAFETY: as the caller promises.
        let datagram = unsafe { slice("data", data, length) }?;
        let now = self.at(now)?;
        self.endpoint.receive(now, datagram, RxMeta { length, ..RxMeta::default() });
        Ok(fw_result::FW_OK)
    }

    pub fn wake(&mut self, now: i64) -> Answer {
        let now = self.at(now)?;
        self.endpoint.wake(now);
        Ok(fw_result::FW_OK)
    }

    /// # Safety
    /// `at` is null or room for a time.
    pub unsafe fn next_wake(&mut self, at: *mut i64) -> Answer {
        given("at", at)?;
        // SAFETY: as the caller promises.
        unsafe { leave(self.endpoint.next_wake(), at) }
    }

    /// # Safety
    /// `capacity` bytes can be written at `out`, and a length at `length`.
    pub unsafe fn transmit(&mut self, now: i64, out: *mut u8, capacity: usize, length: *mut usize) -> Answer {
        given("out", out)?;
        given("length", length)?;
        if capacity < FW_LEAST_DATAGRAM {
            let least = format!("room for a datagram of {capacity} bytes; it must be {FW_LEAST_DATAGRAM}");
            return Err(wrong(format!("{least} at least, and is best FW_MAX_DATAGRAM")));
        }
        let now = self.at(now)?;
        let room = &mut self.out[..capacity.min(MAX_DATAGRAM)];
        let Some(meta) = self.endpoint.transmit(now, room) else { return Ok(fw_result::FW_NONE) };
        let datagram = meta.datagram(room);
        // SAFETY: as the caller promises; a datagram is no longer than the room that the endpoint was given.
        unsafe {
            out.copy_from_nonoverlapping(datagram.as_ptr(), datagram.len());
            length.write(datagram.len());
        }
        Ok(fw_result::FW_OK)
    }
}

/// Leaves an instant for the host, if there is one that will come.
///
/// # Safety
/// `at` is room for a time.
pub unsafe fn leave(instant: Option<Time>, at: *mut i64) -> Answer {
    let Some(ns) = instant.and_then(|instant| i64::try_from(instant.as_nanos()).ok()) else {
        return Ok(fw_result::FW_NONE);
    };
    // SAFETY: as the caller promises.
    unsafe { at.write(ns) };
    Ok(fw_result::FW_OK)
}

/// The slowest and the fastest rate that is taken, in bit/s: a packet a second, and what no link has.
const RATES: std::ops::RangeInclusive<u64> = 10_000..=1_000_000_000_000;

/// Lowest rate, the one to start at, highest; each as given or, where it is zero, as in `usual`. A lowest
/// rate that is not given stays none.
pub fn rates(bps: [u64; 3], usual: &cc::Setup) -> Result<(Option<Rate>, Rate, Rate), Refusal> {
    for (what, bps) in ["least_bps", "initial_bps", "most_bps"].into_iter().zip(bps) {
        if bps != 0 && !RATES.contains(&bps) {
            let (low, high) = RATES.into_inner();
            return Err(wrong(format!("{what} is {bps}; it must be 0 or {low} to {high} bit/s")));
        }
    }
    let [least, initial, most] = bps.map(|bps| Some(Rate::from_bps(bps)).filter(|_| bps != 0));
    let initial =
        initial.unwrap_or(usual.initial.min(most.unwrap_or(Rate::MAX)).max(least.unwrap_or_default()));
    let most = most.unwrap_or(usual.max.max(initial));
    if least.is_some_and(|least| least > initial) || initial > most {
        return Err(wrong("rates must rise: least_bps, initial_bps, most_bps"));
    }
    Ok((least, initial, most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_that_are_not_given_fit_those_that_are() {
        let usual = cc::Setup::default();
        let mbps = |bps: [u64; 3]| {
            let (least, initial, most) =
                rates(bps.map(|mbps| mbps * 1_000_000), &usual).map_err(|e| e.text)?;
            Ok([least.map_or(0, Rate::as_bps), initial.as_bps(), most.as_bps()].map(|bps| bps / 1_000_000))
        };
        assert_eq!(mbps([0, 0, 0]), Ok([0, 2, 100]));
        assert_eq!([mbps([0, 0, 1]), mbps([5, 0, 0])], [Ok([0, 1, 1]), Ok([5, 5, 100])]);
        assert_eq!(mbps([0, 300, 0]), Ok([0, 300, 300]));
        assert_eq!(mbps([3, 2, 9]), Err("rates must rise: least_bps, initial_bps, most_bps".to_owned()));
        assert!(
            rates([0, 300, 0], &usual).unwrap_err().text.starts_with("initial_bps is 300; it must be 0 or")
        );
    }

    #[test]
    fn a_clock_is_held_where_it_was() {
        let mut clock = HostTime::default();
        assert_eq!(clock.at(5).unwrap(), Time::from_nanos(5));
        assert_eq!(clock.at(3).unwrap(), Time::from_nanos(5));
        assert!(clock.at(-1).is_err());
    }
}
