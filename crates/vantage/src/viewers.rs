//! How late a stream is watched, and what that makes a frame worth (thesis section 3.5.2.1, eq. 3.5).

/// How many viewers watch at which delay: `N(d)`, in any unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Delays {
    /// Delay in seconds and how many have it, by rising delay.
    counts: Vec<(f64, f64)>,
}

/// Why there is no such distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelaysError {
    /// Nobody watches.
    Empty,
    /// A delay or a count is negative or not a number.
    OutOfRange,
}

impl Delays {
    /// Pairs of a delay in seconds and how many watch at it.
    ///
    /// # Errors
    /// [`DelaysError`] if nobody watches, or a number is negative or none.
    pub fn new(counts: impl IntoIterator<Item = (f64, f64)>) -> Result<Delays, DelaysError> {
        let mut counts: Vec<(f64, f64)> = counts.into_iter().collect();
        let fine = |n: f64| n.is_finite() && n >= 0.0;
        if counts.iter().any(|&(delay, count)| !fine(delay) || !fine(count)) {
            return Err(DelaysError::OutOfRange);
        }
        counts.retain(|&(_, count)| count > 0.0);
        counts.sort_by(|x, y| x.0.total_cmp(&y.0));
        if counts.is_empty() { Err(DelaysError::Empty) } else { Ok(Delays { counts }) }
    }

    /// As many at each whole second from 0 to `longest`: the thesis' default, with 30.
    pub fn uniform(longest: u16) -> Delays {
        Delays { counts: (0..=longest).map(|second| (f64::from(second), 1.0)).collect() }
    }

    /// Fewer by the factor e with each five seconds that they watch later (sheet section 6; the thesis prints
    /// no shape), 0 to `longest` seconds.
    pub fn early(longest: u16) -> Delays {
        let counts = (0..=longest).map(|second| (f64::from(second), (-f64::from(second) / 5.0).exp()));
        Delays { counts: counts.collect() }
    }

    /// The reverse of [`early`](Delays::early): most watch at `longest` seconds.
    pub fn late(longest: u16) -> Delays {
        let count = |second: u16| (f64::from(second), (-f64::from(longest - second) / 5.0).exp());
        Delays { counts: (0..=longest).map(count).collect() }
    }

    /// What a frame of now is worth: everybody sees it.
    pub fn of_now(&self) -> f64 {
        self.counts.iter().map(|(_, count)| count).sum()
    }

    /// What a frame is worth that arrives `delay` seconds after its capture: those see it who watch later.
    pub fn beyond(&self, delay: f64) -> f64 {
        self.counts.iter().filter(|&&(at, _)| at > delay).map(|(_, count)| count).sum()
    }

    /// The longest delay at which anybody watches, in seconds: what is older is worth nothing.
    pub fn longest(&self) -> f64 {
        self.counts.last().map_or(0.0, |&(delay, _)| delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_worth_those_who_watch_later() {
        let uniform = Delays::uniform(30);
        assert_eq!((uniform.of_now(), uniform.longest()), (31.0, 30.0));
        assert_eq!([0.0, 4.0, 4.5, 29.9, 30.0].map(|d| uniform.beyond(d)), [30.0, 26.0, 26.0, 1.0, 0.0]);
        let (early, late) = (Delays::early(30), Delays::late(30));
        assert!(early.beyond(10.0) / early.of_now() < 0.2 && late.beyond(10.0) / late.of_now() > 0.9);
        assert!((early.of_now() - late.of_now()).abs() < 1e-9);
    }

    #[test]
    fn what_is_no_distribution_is_refused() {
        assert_eq!(Delays::new([]), Err(DelaysError::Empty));
        assert_eq!(Delays::new([(1.0, 0.0)]), Err(DelaysError::Empty));
        assert_eq!(Delays::new([(-1.0, 1.0)]), Err(DelaysError::OutOfRange));
        assert_eq!(Delays::new([(1.0, f64::NAN)]), Err(DelaysError::OutOfRange));
        assert_eq!(Delays::new([(5.0, 2.0), (1.0, 1.0)]).unwrap().beyond(1.0), 2.0);
    }
}
