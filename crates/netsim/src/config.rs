//! Everything that defines a link.

use units::{Rate, Span};

use crate::delay::{Delay, Reorder};
use crate::impair::Impairments;
use crate::queue::QueueSpec;
use crate::rate::RateProcess;

/// Everything that defines a link.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// How fast it sends.
    pub rate: RateProcess,
    /// What waits for it, and how.
    pub queue: QueueSpec,
    /// The rate that queue limits given as a time refer to; by default [`RateProcess::reference`].
    pub reference: Option<Rate>,
    /// One-way propagation delay.
    pub delay: Delay,
    /// Standard deviation of the jitter before truncation; zero for none.
    pub jitter: Span,
    /// Packets that are held back and overtaken.
    pub reorder: Option<Reorder>,
    /// Loss, duplication, blackouts, largest packet.
    pub impairments: Impairments,
    /// Whether every arrival and departure is recorded; drops always are.
    pub recorded: bool,
}

impl Default for LinkConfig {
    /// A wire without delay, limit or loss.
    fn default() -> LinkConfig {
        LinkConfig {
            rate: RateProcess::Infinite,
            queue: QueueSpec::infinite(),
            reference: None,
            delay: Delay::default(),
            jitter: Span::ZERO,
            reorder: None,
            impairments: Impairments::default(),
            recorded: true,
        }
    }
}

impl LinkConfig {
    /// A link that only delays.
    pub fn delay(delay: Span) -> LinkConfig {
        LinkConfig { delay: delay.into(), ..LinkConfig::default() }
    }

    /// A bottleneck: a rate, a queue before it and a propagation delay after it.
    pub fn bottleneck(rate: RateProcess, queue: QueueSpec, delay: Span) -> LinkConfig {
        LinkConfig { rate, queue, delay: delay.into(), ..LinkConfig::default() }
    }
}
