//! How fast the window moves (paper section 2.1, "velocity parameter").

use crate::parts::Rounds;

/// Which way the window goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Towards a higher rate.
    Up,
    /// Towards a lower one.
    Down,
}

/// Only so that it stays a number where nothing ever turns the direction: a step is bounded by what was
/// acknowledged anyway.
const MOST: f64 = 65_536.0;

/// The velocity v: one, and doubled each round trip once the window has kept its direction for long enough.
#[derive(Clone, Debug)]
pub struct Velocity {
    value: f64,
    direction: Option<Direction>,
    /// Comparisons in a row that found the same direction.
    same: u32,
    /// Such comparisons it takes before the velocity doubles.
    patience: u32,
    /// The window, in packets, when the packet now being acknowledged was sent: a round trip ago.
    before: f64,
    rounds: Rounds,
}

impl Velocity {
    /// At rest with a window of `window` packets.
    pub fn new(window: f64, patience: u32) -> Velocity {
        Velocity { value: 1.0, direction: None, same: 0, patience, before: window, rounds: Rounds::default() }
    }

    /// The factor v of the window's step, 1 or more: it doubles while the window keeps moving one way.
    pub fn get(&self) -> f64 {
        self.value
    }

    /// Starts over from `window` packets with `delivered` bytes delivered.
    pub fn reset(&mut self, window: f64, delivered: u64) {
        (self.value, self.same, self.direction, self.before) = (1.0, 0, None, window);
        self.rounds.restart(delivered);
    }

    /// A packet sent when `delivered_then` bytes had been delivered, of `delivered` now, is acknowledged
    /// under a window of `window` packets: compares once a round trip. `used`: the window was, so that its
    /// movement says something.
    pub fn acked(&mut self, delivered_then: u64, delivered: u64, window: f64, used: bool) {
        if self.rounds.update(delivered_then, delivered) {
            let before = std::mem::replace(&mut self.before, window);
            if window != before {
                self.compare(if window > before { Direction::Up } else { Direction::Down }, used);
            }
        }
    }

    fn compare(&mut self, direction: Direction, used: bool) {
        if self.direction.replace(direction) != Some(direction) {
            (self.value, self.same) = (1.0, 0);
        } else if used {
            self.same += 1;
            if self.same >= self.patience {
                self.value = (2.0 * self.value).min(MOST);
            }
        }
    }

    /// The decision of this moment is `direction`: where it contradicts a velocity gained the other way, that
    /// is void at once (mvfst; waiting for the comparison would move the wrong way at full speed for up to a
    /// round trip).
    pub fn decided(&mut self, direction: Direction, delivered: u64, window: f64) {
        if self.value > 1.0 && self.direction != Some(direction) {
            self.reset(window, delivered);
            self.direction = Some(direction);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_once_the_direction_has_lasted_three_comparisons() {
        let mut velocity = Velocity::new(10.0, 3);
        let mut round = 0;
        let mut compare = |velocity: &mut Velocity, window| {
            velocity.acked(round * 1000, (round + 1) * 1000, window, true);
            round += 1;
            velocity.get()
        };
        let seen: Vec<f64> = (11..18).map(|window| compare(&mut velocity, f64::from(window))).collect();
        assert_eq!(seen, [1.0, 1.0, 1.0, 2.0, 4.0, 8.0, 16.0]);
        // The other way: back to one, and counted anew.
        let seen: Vec<f64> = (12..17).rev().map(|window| compare(&mut velocity, f64::from(window))).collect();
        assert_eq!(seen, [1.0, 1.0, 1.0, 2.0, 4.0]);
    }

    #[test]
    fn an_unused_window_or_one_at_rest_gains_none() {
        let mut velocity = Velocity::new(10.0, 1);
        velocity.acked(0, 1000, 11.0, true);
        velocity.acked(1000, 2000, 12.0, false);
        velocity.acked(2000, 3000, 12.0, true);
        assert_eq!(velocity.get(), 1.0);
        velocity.acked(3000, 4000, 13.0, true);
        assert_eq!(velocity.get(), 2.0);
    }

    #[test]
    fn a_contrary_decision_voids_it_at_once() {
        let mut velocity = Velocity::new(10.0, 1);
        velocity.acked(0, 1000, 11.0, true);
        velocity.acked(1000, 2000, 12.0, true);
        velocity.decided(Direction::Up, 2000, 12.0);
        assert_eq!(velocity.get(), 2.0);
        velocity.decided(Direction::Down, 2000, 12.0);
        assert_eq!(velocity.get(), 1.0);
    }
}
