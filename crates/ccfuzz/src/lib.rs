//! CC-Fuzz: a genetic search for the network that a congestion controller can't take (thesis, chapter 7).
//!
//! ```text
//!  Genome   when the link serves, when cross traffic arrives, when packets are lost; settings of the call
//!    | overlay
//!  Target   a scenario's run -> Score: how badly flow 1 fared, less what the genome cost
//!    | rank
//!  Search   islands: elite, crossover, mutation; migration; the next generation
//!    | best
//!  shrink   the least of it that still shows the same -> an ordinary scenario with its trace
//! ```
//!
//! A search is a function of target, plan and seed: every random draw has a stream named after generation,
//! island and place, so that neither threads nor an interruption change a bit of it.

mod behaviour;
mod call;
pub mod checkpoint;
pub mod claims;
mod distribute;
pub mod faults;
pub mod finding;
mod folder;
mod genome;
mod names;
mod plan;
mod preset;
mod request;
pub mod round;
mod score;
mod search;
pub mod shrink;
mod simplify;
mod stems;
mod target;
mod until;
mod viewer;

pub use behaviour::Behaviour;
pub use call::Call;
pub use distribute::{Ratios, distribute, distribute_seen};
pub use experiments::Crew;
pub use folder::{Folder, Kept};
pub use genome::{Genome, Mode, Outage, Space};
pub use plan::{Plan, PlanError, Strategy};
pub use preset::{PRESETS, Preset};
pub use request::Request;
pub use score::{Aim, Score, Weights};
pub use search::{Individual, RISE, Report, Search};
pub use target::{Target, TargetError};
pub use until::Until;
