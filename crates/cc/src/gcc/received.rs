//! The rate at which packets arrive: over a window (the draft's), and by a Bayesian estimator (libwebrtc's).

use std::collections::VecDeque;

use units::{RemoteTime, Span};

/// Arrivals within this of each other are one entry: 5 ms of 1 s are 200 entries.
const SLOT: Span = Span::from_millis(5);
/// A rate over less than this says little.
const SHORTEST: Span = Span::from_millis(100);

/// Rate over the last `window`.
#[derive(Clone, Debug)]
pub struct Window {
    window: Span,
    slots: VecDeque<(RemoteTime, u64)>,
    bytes: u64,
    began: Option<RemoteTime>,
}

impl Window {
    /// A window of 100 ms to a second or so.
    pub fn new(window: Span) -> Window {
        Window { window: window.max(SHORTEST), slots: VecDeque::new(), bytes: 0, began: None }
    }

    /// `size` bytes arrived at `at`.
    pub fn insert(&mut self, at: RemoteTime, size: u32) {
        if self.slots.back().is_none_or(|last| (at - last.0).abs() > self.window) {
            // The first, or after a pause: what lies before says nothing about now.
            self.slots.clear();
            (self.bytes, self.began) = (0, Some(at));
        }
        match self.slots.back_mut() {
            Some(last) if at - last.0 < SLOT => last.1 += u64::from(size),
            _ => self.slots.push_back((at, u64::from(size))),
        }
        self.bytes += u64::from(size);
        while let Some(&(_, bytes)) = self.slots.front().filter(|slot| at - slot.0 > self.window) {
            self.bytes -= bytes;
            self.slots.pop_front();
        }
    }

    /// The rate in bit/s; `None` until there is enough to tell.
    pub fn rate(&self) -> Option<f64> {
        let (last, began) = (self.slots.back()?.0, self.began?);
        let over = (last - began).min(self.window);
        (over >= SHORTEST).then(|| self.bytes as f64 * 8.0 / over.as_secs_f64())
    }
}

/// libwebrtc's `BitrateEstimator`: samples over 150 ms, each trusted the less the more it differs.
#[derive(Clone, Copy, Debug)]
pub struct Acknowledged {
    /// The estimate and its variance, in kbit/s.
    estimate: Option<f64>,
    variance: f64,
    sum: u64,
    elapsed: Span,
    last: Option<RemoteTime>,
}

impl Default for Acknowledged {
    fn default() -> Acknowledged {
        Acknowledged { estimate: None, variance: 50.0, sum: 0, elapsed: Span::ZERO, last: None }
    }
}

impl Acknowledged {
    /// The first sample's window, and the others'.
    const WINDOWS: (Span, Span) = (Span::from_millis(500), Span::from_millis(150));
    /// A sample that differs by all of the estimate is uncertain by this many kbit/s.
    const UNCERTAINTY: f64 = 10.0;
    /// The variance grows by this a sample ...
    const GROWTH: f64 = 5.0;
    /// ... and by this when the application starts to send freely again.
    const FAST_CHANGE: f64 = 200.0;

    /// `size` bytes arrived at `at`.
    pub fn insert(&mut self, at: RemoteTime, size: u32) {
        let window = if self.estimate.is_none() { Self::WINDOWS.0 } else { Self::WINDOWS.1 };
        let sample = self.sample(at, window);
        self.sum += u64::from(size);
        if let Some(kbps) = sample {
            self.learn(kbps);
        }
    }

    fn sample(&mut self, at: RemoteTime, window: Span) -> Option<f64> {
        let since = self.last.replace(at).map_or(Span::ZERO, |last| at - last);
        if since < Span::ZERO {
            (self.sum, self.elapsed) = (0, Span::ZERO);
            return None;
        }
        self.elapsed += since;
        if since > window {
            // A pause: only the part of a window that follows it counts.
            self.sum = 0;
            self.elapsed = Span::from_nanos(self.elapsed.as_nanos() % window.as_nanos());
        }
        if self.elapsed < window {
            return None;
        }
        let kbps = self.sum as f64 * 8.0 / window.as_millis_f64();
        self.elapsed -= window;
        self.sum = 0;
        Some(kbps)
    }

    fn learn(&mut self, sample: f64) {
        let Some(estimate) = self.estimate else {
            self.estimate = Some(sample);
            return;
        };
        let uncertainty = Self::UNCERTAINTY * (estimate - sample).abs() / estimate.max(1.0);
        let (variance, predicted) = (uncertainty * uncertainty, self.variance + Self::GROWTH);
        self.estimate = Some((variance * estimate + predicted * sample) / (variance + predicted));
        self.variance = variance * predicted / (variance + predicted);
    }

    /// The application sends freely again: the next samples count for more.
    pub fn expect_fast_change(&mut self) {
        self.variance += Self::FAST_CHANGE;
    }

    /// The estimate in bit/s.
    pub fn rate(&self) -> Option<f64> {
        self.estimate.map(|kbps| kbps * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: i64) -> RemoteTime {
        RemoteTime::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn the_window_forgets() {
        let mut window = Window::new(Span::from_millis(500));
        (0..=8).for_each(|n| window.insert(ms(10 * n), 1250));
        assert_eq!(window.rate(), None);
        // 1250 bytes every 10 ms are 1 Mbit/s; one packet more than intervals.
        (9..=200).for_each(|n| window.insert(ms(10 * n), 1250));
        assert!((window.rate().unwrap() - 1.02e6).abs() < 1.0, "{:?}", window.rate());
        window.insert(ms(9000), 1250);
        assert_eq!(window.rate(), None);
    }

    #[test]
    fn the_estimator_starts_after_500_ms_and_follows() {
        let mut acknowledged = Acknowledged::default();
        (0..50).for_each(|n| acknowledged.insert(ms(10 * n), 1250));
        assert_eq!(acknowledged.rate(), None);
        (50..100).for_each(|n| acknowledged.insert(ms(10 * n), 1250));
        assert!((acknowledged.rate().unwrap() - 1e6).abs() < 1.0);
        // Half the rate: uncertainty 10 * 0.5, so each 150 ms takes a good part of the way.
        (100..160).for_each(|n| acknowledged.insert(ms(10 * n), 625));
        let slower = acknowledged.rate().unwrap();
        assert!((0.5e6..0.75e6).contains(&slower), "{slower}");
        acknowledged.insert(ms(0), 1250);
        assert_eq!(acknowledged.rate(), Some(slower), "a clock set back is no sample");
    }
}
