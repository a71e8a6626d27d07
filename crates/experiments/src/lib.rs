//! Experiments: a figure or table of a paper as a file that can be run, checked and drawn.
//! `docs/experiments.md` is the reference.
//!
//! ```text
//! experiments/*.toml -> Experiment { scenario, axes, metrics, rows, plots }
//!     axes x seeds --> points --run--> metrics of each run (cached) --> Results
//!                                                                    rows  --> verdicts   (check)
//!                                                                    plots --> the book   (report)
//! ```
//!
//! [`grid`] asks the same of networks that no paper measured: it holds runs against invariants.

mod answers;
mod book;
mod cache;
pub mod conformance;
mod crew;
mod data;
mod execute;
pub mod expression;
mod file;
pub mod grid;
mod judge;
mod measure;
mod papers;
mod pictures;
mod points;
mod predictor;
mod prism;
mod probe;
mod real;
mod rows;
pub mod scenes;
mod theory;
mod upload;
mod value;
mod vixnn;

pub use crate::vixnn::{PageError, page as vixnn_page};
pub use book::book;
pub use cache::Cache;
pub use crew::Crew;
pub use data::{data_file, data_trace};
pub use execute::{Execution, Results, count, execute, execute_for_claims};
pub use file::{Band, Experiment, ExperimentError, Plot, Row};
pub use measure::{Instrument, Reading};
pub use papers::{PAPERS, Paper};
pub use points::Point;
pub use real::{REAL_FILE, RealMeasures, RealPoint, RealResults, RealRow, RealRun, within};
pub use rows::{Verdict, VerdictRow, check, natural};
pub use units::Fingerprint;
pub use value::Value;
