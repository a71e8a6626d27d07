//! What the receiver half tells the sender half: twelve bytes on a feedback packet.

use super::model::{Counts, TICKS};

/// A forecast as it travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// The tick it was made at, counted from the first packet: tells a newer one from an older one that was
    /// overtaken.
    pub tick: u32,
    /// Cumulative deliveries over 1 to 8 ticks, in packets.
    pub counts: Counts,
}

impl Forecast {
    /// Appends the forecast to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.tick.to_be_bytes());
        out.extend_from_slice(&self.counts);
    }

    /// Reads a forecast; `None` where `blob` is none (it is empty on most feedback packets).
    pub fn read(blob: &[u8]) -> Option<Forecast> {
        let (tick, counts) = blob.split_first_chunk()?;
        let counts: Counts = <[u8; TICKS]>::try_from(counts).ok()?;
        counts.is_sorted().then_some(Forecast { tick: u32::from_be_bytes(*tick), counts })
    }

    /// Whether this one was made after tick `other`; tick numbers may wrap.
    pub fn is_after(&self, other: u32) -> bool {
        self.tick.wrapping_sub(other) as i32 > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_back_and_rubbish_does_not() {
        let forecast = Forecast { tick: 7, counts: [0, 1, 3, 4, 5, 6, 8, 9] };
        let mut blob = Vec::new();
        forecast.write(&mut blob);
        assert_eq!(Forecast::read(&blob), Some(forecast));
        assert_eq!(Forecast::read(&blob[..11]), None);
        blob[11] = 0;
        assert_eq!(Forecast::read(&blob), None, "deliveries do not shrink");
        assert!(forecast.is_after(u32::MAX) && !forecast.is_after(7));
    }
}
