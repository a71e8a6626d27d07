//! The window that competes with elastic traffic: CUBIC's growth and decrease (RFC 9438), nothing more.

use units::{Span, Time};

use crate::parts::LossEpoch;

/// RFC 9438 sections 5 and 4.6: C in datagrams per second cubed, and what is left after a loss.
const C: f64 = 0.4;
const BETA: f64 = 0.7;
/// RFC 9438 section 4.3: Reno's additive increase for the same decrease.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// Datagrams at least, and at most (1.5 GB of the largest).
const FEWEST: f64 = 2.0;
const MOST: f64 = 1e6;

/// A congestion window in datagrams.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    datagrams: f64,
    /// Where the cubic has its plateau.
    plateau: f64,
    /// The window when the epoch began.
    start: f64,
    /// What Reno's window would have become since.
    reno: f64,
    epoch: Option<Time>,
    losses: LossEpoch,
}

impl Window {
    /// Begins at `datagrams`, on the plateau.
    pub fn at(datagrams: f64) -> Window {
        let start = if datagrams.is_finite() { datagrams.clamp(FEWEST, MOST) } else { FEWEST };
        let losses = LossEpoch::default();
        Window { datagrams: start, plateau: start, start, reno: start, epoch: None, losses }
    }

    /// Its size in datagrams.
    pub fn datagrams(&self) -> f64 {
        self.datagrams
    }

    /// The same window in datagrams of another size: `factor` times as many of them.
    pub fn rescale(&mut self, factor: f64) {
        for window in [&mut self.datagrams, &mut self.plateau, &mut self.start, &mut self.reno] {
            *window = (*window * factor).clamp(FEWEST, MOST);
        }
    }

    /// So many datagrams were acknowledged at `now`, over a round trip of `rtt`: RFC 9438 sections 4.2 to
    /// 4.4.
    pub fn acked(&mut self, now: Time, datagrams: f64, rtt: Span) {
        let epoch = *self.epoch.get_or_insert(now);
        let to_plateau = ((self.plateau - self.start).max(0.0) / C).cbrt();
        let seconds = (now - epoch + rtt).as_secs_f64();
        let cubic = C * (seconds - to_plateau).powi(3) + self.plateau;
        let target = cubic.clamp(self.datagrams, 1.5 * self.datagrams);
        self.reno += ALPHA * datagrams / self.datagrams;
        let grown = self.datagrams + (target - self.datagrams) / self.datagrams * datagrams;
        self.datagrams = grown.max(self.reno).min(MOST);
    }

    /// A packet sent at `sent_at` was lost: RFC 9438 sections 4.6 and 4.7, once a round.
    pub fn lost(&mut self, sent_at: Time, now: Time) {
        if !self.losses.opens(sent_at, now) {
            return;
        }
        let shrinking = self.datagrams < self.plateau;
        self.plateau = if shrinking { self.datagrams * (1.0 + BETA) / 2.0 } else { self.datagrams };
        self.datagrams = (self.datagrams * BETA).max(FEWEST);
        (self.start, self.reno, self.epoch) = (self.datagrams, self.datagrams, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_back_at_the_plateau_after_k_seconds() {
        let mut window = Window::at(100.0);
        window.lost(Time::from_millis(1), Time::from_millis(10));
        window.lost(Time::from_millis(2), Time::from_millis(20));
        assert_eq!(window.datagrams(), 70.0);
        // K = (100 * 0.3 / 0.4)^(1/3) = 4.217 s; a round trip of 160 ms.
        for n in 0..26 {
            let now = Time::from_millis(1000 + 160 * n);
            window.acked(now, window.datagrams(), Span::from_millis(160));
        }
        assert!((97.0..102.0).contains(&window.datagrams()), "{}", window.datagrams());
    }
}
