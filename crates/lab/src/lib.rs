//! The one place where everything meets: scenarios, runs, metrics, tables and reports.
//!
//! ```text
//! scenario.toml -> Scenario -> run() -> world of netsim, session, cc, media
//!                                         | events
//!                                         v
//!                              Collector, hash -> Summary (JSON) / tables (Parquet) / report.html
//!                                         (a long run's rows leave the collector as it runs: stream)
//! ```

pub mod collect;
pub mod experiment;
pub mod expression;
pub mod files;
pub mod grid;
pub mod manual;
pub mod metrics;
pub mod output;
pub mod report;
pub mod run;
pub mod scenario;
pub mod stream;
pub mod summary;
pub mod tables;
