//! Sweeps: one scenario under every combination of some settings, each with several seeds, as one flat table.
//!
//! ```text
//! scenario + axes + seeds -> Plan -> run_one(i) -> Run (a row a flow) -> Journal
//!                                                      |
//!                                                      '-> Table (runs.parquet) -> groups -> page
//! ```
//!
//! A [`Run`] is plain data that can be made anywhere, on another thread, process or machine, and travels as a
//! line of JSON. [`Table::of`] puts runs in order wherever they come from, so the tables are the same, bit
//! for bit, however the runs were spread and however often the work was interrupted.
//!
//! ```
//! use std::path::Path;
//!
//! use framewire_sweep::{Axis, Plan, Table, groups, run_one};
//! use lab::scenario::Scenario;
//!
//! let text = "duration = \"2s\"\n[link]\nrate = \"5mbit\"\ndelay = \"20ms\"\n[[flow]]\ncc = \"sqp\"\n";
//! let base = Scenario::parse(text, Path::new("example.toml"))?;
//! let rates = Axis::new("link.rate", ["1mbit", "2mbit"]);
//! let plan = Plan::new(&base, vec![rates], vec![1, 2, 3])?;
//! let runs = (0..plan.len()).map(|index| run_one(&plan, index, "unknown")).collect::<Result<Vec<_>, _>>()?;
//! let table = Table::of(&plan, "unknown", runs)?;
//! let [slow, fast] = &groups(&table)[..] else { panic!("two rates") };
//! assert!(slow.figure("throughput_bps").mean < fast.figure("throughput_bps").mean);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `docs/sweeps.md` is the page for people.

mod axis;
mod drive;
mod error;
mod estimate;
mod figures;
mod groups;
mod journal;
pub mod page;
mod plan;
mod run;
mod seeds;
mod table;

pub use axis::{Axis, Cell};
pub use drive::{Options, run};
pub use error::SweepError;
pub use estimate::Estimate;
pub use figures::{KEY, KeyFigure};
pub use groups::{Group, group_columns, groups, groups_json, write_groups};
pub use journal::Journal;
pub use plan::{MOST_RUNS, Plan};
pub use run::{Run, run_one};
pub use seeds::seeds_note;
pub use table::Table;
