//! A run's rows as Parquet files, for data frames: `packets`, `frames`, `link`, `decisions`. `docs/output.md`
//! lists the columns.
//!
//! Times are nanoseconds of world time since the start of the run, as 64-bit integers; what did not happen is
//! null. Each file carries the scenario, seed, commit and event hash it came from.

mod columns;
mod events;
mod parquet_file;
mod parts;
mod series;

use std::path::Path;

use crate::collect::Collector;
use crate::files::WriteError;

pub use columns::{
    DecisionRow, FrameOfFlow, LinkRow, PacketOfFlow, decision_columns, frame_columns, link_columns,
    packet_columns,
};
pub use columns::{
    decisions as decision_rows, frames as frame_rows, link as link_rows, packets as packet_rows,
};
pub use events::Events;
pub use parquet_file::{Column, Get, Kind, TableWriter, write_table};
pub use parts::TableFiles;
pub use series::{Series, Values, write_series};

/// What a table says about the run it came from: pairs of key and value.
pub type Origin = Vec<(String, String)>;

/// Where a finished run's tables are.
pub enum Tables {
    /// Nowhere yet: its record has every row.
    OfRecord,
    /// In files beside their places, for the record has not.
    Files(Box<TableFiles>),
    /// There are none.
    None,
}

/// Writes the four tables of a run into `folder`, which must exist. `names` are the flows' names, in order.
///
/// # Errors
/// [`WriteError`] naming the file that could not be written.
pub fn write_tables(
    folder: &Path,
    run: &Collector,
    names: &[String],
    origin: &Origin,
) -> Result<(), WriteError> {
    write_table(&folder.join("packets.parquet"), &columns::packets(run, names), &packet_columns(), origin)?;
    write_table(&folder.join("frames.parquet"), &columns::frames(run, names), &frame_columns(), origin)?;
    let of_links = link_columns(!run.further.is_empty());
    write_table(&folder.join("link.parquet"), &columns::link(run, names), &of_links, origin)?;
    write_table(
        &folder.join("decisions.parquet"),
        &columns::decisions(run, names),
        &decision_columns(),
        origin,
    )
}
