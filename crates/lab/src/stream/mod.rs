//! Runs whose rows don't fit into memory: rows that are complete leave for where they are needed, as the run
//! goes on.
//!
//! ```text
//!                  rows that nothing changes any more    .--> Figures (bounded)
//! events -> Collector ------------------------------------+--> Fold (a few rows for each column of a chart)
//!           (the last half minute)                       '--> TableFiles (row groups of Parquet)
//! ```
//!
//! Nothing of this happens while a run's rows take less than [`Limits::rows`]: a short run is told by all its
//! rows. A run that grows beyond has the same figures and the same event hash; only percentiles over more
//! than [`Limits::values`] values come from buckets ([`Distribution`](crate::metrics::Distribution)), and its
//! charts are drawn from folded rows (`stream/fold.rs`).

mod fold;

use std::path::PathBuf;

use record::{Event, NodeId, Recorder, Topics};
use units::{Span, Time};

use crate::collect::{Collector, Keep, Layout, Rows};
use crate::files::WriteError;
use crate::scenario::Scenario;
use crate::summary::{Context, Figures, Plan, Summary, summarise};
use crate::tables::{Origin, TableFiles, Tables};

use fold::Fold;

/// When rows leave memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of rows up to which all are kept.
    pub rows: usize,
    /// Values of a distribution up to which each is kept.
    pub values: usize,
    /// How long after its sending a packet's row may still change, besides twice the longest deadline. Far
    /// more than the fullest queue holds it back: what arrives still later counts as unmatched.
    pub patience: Span,
}

impl Default for Limits {
    /// 20 MiB of rows (a minute of 20 Mbit/s), half a million values, half a minute.
    fn default() -> Limits {
        Limits { rows: 20 << 20, values: 1 << 19, patience: Span::from_secs(30) }
    }
}

/// Events between two looks at how much memory is held, for a look at no flow and for each flow.
const LOOK: (u32, u32) = (1 << 12, 64);

/// What a run needs to hand rows on.
pub(crate) struct Settings {
    pub scenario: Scenario,
    pub intervals: Vec<Span>,
    /// Bytes of a media packet's header.
    pub header: u32,
    pub limits: Limits,
    /// Where tables go.
    pub tables: Option<PathBuf>,
}

impl Settings {
    fn plan(&self) -> Plan<'_> {
        Plan { scenario: &self.scenario, intervals: &self.intervals, header: self.header }
    }

    fn patience(&self) -> Span {
        let deadlines = self.scenario.flows.iter().filter_map(|flow| flow.video()?.deadline);
        self.limits.patience + deadlines.max().unwrap_or_default() * 2
    }
}

/// A recorder that keeps a run's rows, and from [`Limits::rows`] on hands them on.
#[derive(Default)]
pub(crate) struct Recording {
    collector: Collector,
    settings: Option<Settings>,
    stream: Option<Stream>,
    /// Events until the next look at how much memory is held.
    unseen: u32,
    /// Bytes of rows at which the complete ones are taken out next: moving the others to the front should not
    /// happen often.
    next: usize,
}

struct Stream {
    figures: Figures,
    fold: Fold,
    tables: Option<TableFiles>,
    trouble: Option<WriteError>,
}

/// What a run leaves.
pub(crate) struct Left {
    pub summary: Summary,
    pub record: Collector,
    pub tables: Tables,
}

impl Recording {
    pub fn new(layout: &Layout, keep: Keep) -> Recording {
        Recording { collector: Collector::new(layout, keep), ..Recording::default() }
    }

    /// One that keeps such rows, hands none on, and counts nothing else.
    pub fn of(layout: &Layout, rows: Rows) -> Recording {
        Recording { collector: Collector::of(layout, rows), ..Recording::default() }
    }

    /// From now on rows may be handed on.
    pub fn bound(&mut self, settings: Settings) {
        self.next = settings.limits.rows;
        self.settings = Some(settings);
    }

    /// Why rows could not be written.
    pub fn trouble(&mut self) -> Option<WriteError> {
        self.stream.as_mut().and_then(|stream| stream.trouble.take())
    }

    /// Bytes that grow with the length of the run.
    #[cfg(test)]
    pub fn held(&self) -> usize {
        let stream = self.stream.as_ref().map_or(0, |stream| {
            stream.figures.held() + stream.fold.held() + stream.tables.as_ref().map_or(0, TableFiles::held)
        });
        self.collector.held() + stream
    }

    fn look(&mut self) {
        let Some(settings) = &self.settings else { return };
        if self.collector.held() < self.next {
            return;
        }
        let stream = self.stream.get_or_insert_with(|| Stream::new(settings));
        // Piece by piece, for what is taken out is held twice.
        for factor in [4, 2, 1] {
            stream.take(&self.collector.take_complete(Some(settings.patience() * factor)), false);
        }
        self.next = settings.limits.rows.max(self.collector.held()) / 3 + self.collector.held();
    }

    /// The rows; of a run that handed rows on, those that are left.
    pub fn into_rows(self) -> Collector {
        self.collector
    }

    /// Ends the run.
    ///
    /// # Errors
    /// [`WriteError`] if rows could not be written.
    pub fn finish(mut self, context: &Context<'_>, origin: &Origin) -> Result<Left, WriteError> {
        let Some(mut stream) = self.stream else {
            let summary = summarise(&self.collector, context);
            return Ok(Left { summary, record: self.collector, tables: Tables::OfRecord });
        };
        let patience = self.settings.as_ref().map(Settings::patience);
        stream.take(&self.collector.take_complete(patience), false);
        stream.take(&self.collector.take_complete(None), true);
        let summary = stream.figures.summary(&self.collector, context);
        stream.fold.finish(&stream.figures, &mut self.collector);
        if let Some(trouble) = stream.trouble {
            return Err(trouble);
        }
        let tables = stream.tables.map(|tables| tables.finish(origin)).transpose()?;
        Ok(Left {
            summary,
            record: self.collector,
            tables: tables.map_or(Tables::None, |files| Tables::Files(Box::new(files))),
        })
    }
}

impl Recorder for Recording {
    fn record(&mut self, at: Time, node: NodeId, event: &Event) {
        self.collector.record(at, node, event);
        self.unseen = self.unseen.saturating_sub(1);
        if self.unseen == 0 {
            self.unseen = LOOK.0 + LOOK.1 * self.collector.flows.len() as u32;
            self.look();
        }
    }

    fn wants(&self, node: NodeId) -> Topics {
        self.collector.wants(node)
    }
}

impl Stream {
    fn new(settings: &Settings) -> Stream {
        let names = settings.scenario.flows.iter().map(|flow| flow.name.clone()).collect();
        let links = settings.scenario.link.names();
        Stream {
            figures: Figures::new(&settings.plan(), settings.limits.values),
            fold: Fold::new(&settings.scenario),
            tables: settings.tables.clone().map(|folder| TableFiles::new(folder, names, links)),
            trouble: None,
        }
    }

    fn take(&mut self, rows: &Collector, last: bool) {
        self.figures.take(rows, last);
        self.fold.take(rows);
        if let Some(tables) = &mut self.tables
            && let Err(error) = tables.take(rows)
        {
            self.trouble = Some(error);
            self.tables = None;
        }
    }
}

#[cfg(test)]
mod tests;
