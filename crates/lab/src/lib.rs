//! Scenarios and their runs: a TOML file becomes a world, the world's events become figures and tables.
//!
//! ```text
//! scenario.toml -> Scenario -> run() -> world of netsim, session, cc, media
//!                                         | events
//!                                         v
//!                              Collector, hash -> Summary (JSON) / tables (Parquet)
//!                                         (a long run's rows leave the collector as it runs: stream)
//! ```
//!
//! What people look at is drawn by `report`; what papers claim is held against runs by `experiments`.

pub mod collect;
pub mod files;
pub mod metrics;
pub mod output;
pub mod run;
pub mod scenario;
pub mod stream;
pub mod summary;
pub mod tables;

pub use units::Fingerprint;
