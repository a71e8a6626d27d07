//! `framewire._framewire`: scenarios and their runs for Python. What people call is written in Python above
//! it (`python/framewire`), where defaults, docstrings and types are; here is what needs Rust.
//!
//! ```text
//! Scenario -- run (no GIL; a thread works, the caller looks after signals and progress) --> Outcome
//!                 Outcome: summary (JSON), report (HTML), stills (RGB), tables --> Table (Arrow's C interface)
//! ```
//!
//! A panic never leaves the module: it becomes a `RuntimeError`.

mod arrow;
mod attended;
mod conformance;
mod controller;
mod errors;
mod fuzzing;
mod listing;
mod outcome;
mod run;
mod scenario;
mod sweeping;
mod table;

/// What Python imports.
#[pyo3::pymodule]
mod _framewire {
    #[pymodule_export]
    use crate::conformance::{conformance, verdicts};
    #[pymodule_export]
    use crate::controller::{Decision, Report, Setup, register_controller};
    #[pymodule_export]
    use crate::fuzzing::{Islands, Search, SearchPlan, Target, shrink_finding};
    #[pymodule_export]
    use crate::listing::{controllers, playouts, queues, targets};
    #[pymodule_export]
    use crate::outcome::{Outcome, report_of, write_comparison};
    #[pymodule_export]
    use crate::run::{events, run};
    #[pymodule_export]
    use crate::scenario::Scenario;
    #[pymodule_export]
    use crate::sweeping::{Journal, Plan, Swept};
    #[pymodule_export]
    use crate::table::Table;

    /// The commit it was built from; with a `+` where the sources differed.
    #[pymodule_export]
    const COMMIT: &str = env!("FRAMEWIRE_COMMIT");
    /// The version of the package.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
