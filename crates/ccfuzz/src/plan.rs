//! How a search goes about it.

use serde::{Deserialize, Serialize};

/// How the next generation comes about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// From the present one: elite, crossover, mutation.
    #[default]
    Genetic,
    /// From nothing, but for the elite: what the other is compared with.
    Random,
}

/// A search's settings; [`Default`] is the CC-Fuzz thesis, section 7.4.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Seed of every random draw.
    pub seed: u64,
    /// Islands: populations that breed among themselves.
    pub islands: usize,
    /// Networks on an island.
    pub per_island: usize,
    /// The best of an island, which live on as they are.
    pub elite: usize,
    /// Share of an island's next generation that has two parents, where the mode allows it.
    pub crossover: f64,
    /// Generations between migrations.
    pub migrate_every: u32,
    /// Share of an island's networks that migrate.
    pub migrants: f64,
    /// Smooth the service of parents (link mode).
    pub anneal: bool,
    /// How the next generation comes about.
    pub strategy: Strategy,
    /// Keep to networks that behave differently, instead of to the best alone.
    #[serde(default)]
    pub diverse: bool,
}

impl Default for Plan {
    /// 500 networks on 20 islands, of which 10 % migrate every 10 generations; one elite, 30 % crossover.
    fn default() -> Plan {
        Plan {
            seed: 1,
            islands: 20,
            per_island: 25,
            elite: 1,
            crossover: 0.3,
            migrate_every: 10,
            migrants: 0.1,
            anneal: true,
            strategy: Strategy::Genetic,
            diverse: false,
        }
    }
}

/// Settings that no search can follow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PlanError(String);

/// More networks than fit into memory with room to spare: each may be 240 kB.
const MOST_NETWORKS: usize = 20_000;

/// One in so many of an island's networks lives on in a diverse search.
const DIVERSE_ELITES: usize = 4;

impl Plan {
    /// A population of `networks`, spread over islands as the default's is.
    ///
    /// # Errors
    /// [`PlanError`] unless `networks` divide among `islands`, at least two to each.
    pub fn of_size(networks: usize, islands: usize) -> Result<Plan, PlanError> {
        let even = islands > 0 && networks.is_multiple_of(islands) && networks / islands >= 2;
        if !even || networks > MOST_NETWORKS {
            let wanted = "at least two on each, the same number on all, and 20000 together at most";
            return Err(PlanError(format!("{networks} networks on {islands} islands: {wanted}")));
        }
        Ok(Plan { islands, per_island: networks / islands, ..Plan::default() })
    }

    /// Networks of a generation.
    pub fn population(&self) -> usize {
        self.islands * self.per_island
    }

    /// Networks of an island that live on as they are: of those that behave differently a few, or only one of
    /// them would be safe.
    pub(crate) fn elites(&self) -> usize {
        let several = if self.diverse { self.per_island.div_ceil(DIVERSE_ELITES) } else { 0 };
        self.elite.max(several)
    }

    /// Networks of an island's next generation that have two parents.
    pub(crate) fn crossovers(&self) -> usize {
        let wanted = (self.crossover * self.per_island as f64).round() as usize;
        wanted.min(self.per_island.saturating_sub(self.elites()))
    }

    /// Networks that leave an island when it is time.
    pub(crate) fn leaving(&self) -> usize {
        let wanted = (self.migrants * self.per_island as f64).round() as usize;
        if self.islands > 1 { wanted.min(self.per_island - 1) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thesis_numbers() {
        let plan = Plan::default();
        assert_eq!((plan.population(), plan.crossovers(), plan.leaving()), (500, 8, 3));
        assert_eq!(Plan::of_size(500, 20), Ok(plan));
        assert!(Plan::of_size(10, 3).unwrap_err().to_string().starts_with("10 networks on 3 islands: "));
        assert_eq!(Plan::of_size(20, 1).unwrap().leaving(), 0);
    }
}
