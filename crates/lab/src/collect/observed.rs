//! A controller's inner quantities over time.

use units::Time;

/// Series by name, in the order of the names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    series: Vec<(&'static str, Vec<(Time, f64)>)>,
}

impl Observed {
    /// The values of a quantity with the times at which they were told, if it was ever told.
    pub fn get(&self, name: &str) -> Option<&[(Time, f64)]> {
        let place = self.place(name).ok()?;
        Some(&self.series[place].1)
    }

    /// Every quantity.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &[(Time, f64)])> + '_ {
        self.series.iter().map(|(name, values)| (*name, &values[..]))
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.series.binary_search_by_key(&name, |(known, _)| known)
    }

    /// Adds a value. A controller has a handful of quantities and tells them all the time, each mostly under
    /// the same constant: to compare addresses is enough then.
    pub(super) fn push(&mut self, name: &'static str, at: Time, value: f64) {
        let same = |(known, _): &(&'static str, _)| std::ptr::eq(*known, name);
        let place = self.series.iter().position(same).unwrap_or_else(|| self.open(name));
        self.series[place].1.push((at, value));
    }

    #[cold]
    fn open(&mut self, name: &'static str) -> usize {
        self.place(name).unwrap_or_else(|place| {
            self.series.insert(place, (name, Vec::new()));
            place
        })
    }
}

impl FromIterator<(&'static str, Vec<(Time, f64)>)> for Observed {
    /// Of a name that comes twice, any of its series is kept.
    fn from_iter<I: IntoIterator<Item = (&'static str, Vec<(Time, f64)>)>>(series: I) -> Observed {
        let mut series: Vec<_> = series.into_iter().collect();
        series.sort_by_key(|(name, _)| *name);
        series.dedup_by_key(|(name, _)| *name);
        Observed { series }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_its_letters_wherever_they_lie() {
        let mut observed = Observed::default();
        let again: &'static str = String::from("window").leak();
        for (ms, name) in [(1, "window"), (2, "rate"), (3, again), (4, "rate"), (5, "alpha")] {
            observed.push(name, Time::from_millis(ms), ms as f64);
        }
        let names: Vec<&str> = observed.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["alpha", "rate", "window"]);
        let of = |name| observed.get(name).map(|rows| rows.iter().map(|row| row.1).collect::<Vec<_>>());
        assert_eq!(of("window"), Some(vec![1.0, 3.0]));
        assert_eq!((of("rate"), of("beta")), (Some(vec![2.0, 4.0]), None));
        let owned = observed.iter().map(|(name, rows)| (name, rows.to_vec()));
        assert_eq!(owned.collect::<Observed>(), observed);
    }
}
