//! What a sender does so that a lost packet costs little: the flags that `send` and `serve` share.

use session::preset::Choice;

use crate::values;

/// Policies against losses, by name.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct Losses {
    /// What is done about lost packets; without it the policy of `--cc default`, or `retransmit`
    #[arg(long, value_parser = values::recoveries(), value_name = "POLICY")]
    pub recovery: Option<String>,
    /// What each captured frame becomes, and what is done about losses; `prism` takes options, as in
    /// `prism:style=racing` or `prism:table=FILE` (docs/prism.md)
    #[arg(long, value_parser = values::Strategies, value_name = "STRATEGY", default_value = session::strategy::REGISTRY[0].name)]
    pub strategy: String,
}

impl Losses {
    /// Nothing given: one track, and the recovery policy that goes with the controller.
    pub fn usual() -> Losses {
        Losses { recovery: None, strategy: session::strategy::REGISTRY[0].name.to_owned() }
    }

    /// What a sender runs under that is told these, a controller and perhaps a rate policy.
    pub fn choice(&self, controller: &str, rate: Option<&str>) -> Choice {
        Choice::of(Some(controller), rate, self.recovery.as_deref()).with_strategy(Some(&self.strategy))
    }
}
