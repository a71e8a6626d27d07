//! The bottleneck's figures, made of its rows in order.

use units::Time;

use super::Plan;
use crate::collect::LinkRecord;
use crate::metrics::Distribution;

/// What left the bottleneck, in view and while each flow was on.
pub(super) struct LinkFigures {
    from: Time,
    to: Time,
    any: bool,
    delivered: u64,
    sojourn: Distribution,
    /// Each flow: when it was in view, and what left of it then.
    flows: Vec<(Time, Time, u64)>,
    before: Sums,
    until: Sums,
}

/// Bytes up to each of some instants: counted where they begin to belong, and added up at the end.
struct Sums {
    at: Vec<Time>,
    bytes: Vec<u64>,
}

impl Sums {
    fn new(at: impl Iterator<Item = Time>) -> Sums {
        let mut at: Vec<Time> = at.collect();
        at.sort_unstable();
        at.dedup();
        Sums { bytes: vec![0; at.len()], at }
    }

    /// Bytes that belong to every instant for which `later` is false.
    fn add(&mut self, bytes: u32, later: impl Fn(Time) -> bool) {
        let place = self.at.partition_point(|&at| later(at));
        if let Some(sum) = self.bytes.get_mut(place) {
            *sum += u64::from(bytes);
        }
    }

    fn up_to(&self, at: Time) -> u64 {
        self.bytes[..self.at.partition_point(|&other| other <= at)].iter().sum()
    }
}

impl LinkFigures {
    pub(super) fn new(plan: &Plan<'_>, limit: usize) -> LinkFigures {
        let view = |flow| plan.view(flow);
        let flows: Vec<(Time, Time, u64)> =
            plan.scenario.flows.iter().map(view).map(|(from, to)| (from, to, 0)).collect();
        LinkFigures {
            from: plan.from(),
            to: plan.to(),
            any: false,
            delivered: 0,
            sojourn: Distribution::of_at_most(limit),
            before: Sums::new(flows.iter().map(|flow| flow.0)),
            until: Sums::new(flows.iter().map(|flow| flow.1)),
            flows,
        }
    }

    pub(super) fn take(&mut self, rows: &LinkRecord) {
        for row in &rows.departures {
            self.any = true;
            if row.at >= self.from && row.at <= self.to {
                self.delivered += u64::from(row.size);
                self.sojourn.push(row.sojourn.as_millis_f64());
            }
            self.before.add(row.size, |at| at <= row.at);
            self.until.add(row.size, |at| at < row.at);
            if let Some((from, to, own)) = self.flows.get_mut(usize::from(row.flow))
                && row.at >= *from
                && row.at <= *to
            {
                *own += u64::from(row.size);
            }
        }
    }

    /// Bytes that left in view, if anything ever left.
    pub(super) fn delivered(&self) -> Option<u64> {
        self.any.then_some(self.delivered)
    }

    /// Time in the link before propagation.
    pub(super) fn sojourn(&self) -> &Distribution {
        &self.sojourn
    }

    /// A flow's share of what left while it was in view.
    pub(super) fn share(&self, index: usize) -> Option<f64> {
        let (from, to, own) = self.flows[index];
        let all = self.until.up_to(to).saturating_sub(self.before.up_to(from));
        (all > 0).then(|| own as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Span;

    #[test]
    fn sums_hold_what_belongs_to_each_instant() {
        let at = |ms| Time::ZERO + Span::from_millis(ms);
        let mut until = Sums::new([at(30), at(10), at(30)].into_iter());
        let mut before = Sums::new([at(10), at(20)].into_iter());
        for (ms, bytes) in [(5, 1), (10, 2), (20, 4), (30, 8), (40, 16)] {
            until.add(bytes, |other| other < at(ms));
            before.add(bytes, |other| other <= at(ms));
        }
        assert_eq!((until.up_to(at(10)), until.up_to(at(30))), (3, 15));
        assert_eq!((before.up_to(at(10)), before.up_to(at(20))), (1, 3));
    }
}
