//! Why a sweep is refused or stops.

use std::io;
use std::path::PathBuf;

use lab::files::WriteError;
use lab::run::LabError;

/// Why there is no table.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// An axis or a list of seeds makes no sense.
    #[error("{0}")]
    Plan(String),
    /// A setting makes no scenario: which one, and why.
    #[error("{setting}: {what}")]
    Setting {
        /// The setting as `FIELD=VALUE`, or several of them.
        setting: String,
        /// What is wrong with it, and what would be accepted.
        what: String,
    },
    /// A file that a scenario of the plan names can't be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file, as seen from here.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// The folder holds another sweep.
    #[error("{} holds another sweep: {differs}; choose another folder, or begin anew with --fresh", folder.display())]
    Other {
        /// The folder that was to take this sweep.
        folder: PathBuf,
        /// In what the two differ.
        differs: String,
    },
    /// The journal can't be read or written.
    #[error("{}: {what}", path.display())]
    Journal {
        /// The journal's file.
        path: PathBuf,
        /// What is wrong, and what would help.
        what: String,
    },
    /// A run failed.
    #[error("{setting}: {source}")]
    Run {
        /// The run's settings.
        setting: String,
        /// Why it failed.
        source: LabError,
    },
    /// It was asked to stop. What was done is in the journal.
    #[error("stopped after {done} of {of} runs")]
    Stopped {
        /// Runs that are done.
        done: usize,
        /// Runs of the plan.
        of: usize,
    },
    /// Runs that a table is to be made of are not those of its plan.
    #[error("{0}")]
    Runs(String),
    /// A result can't be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl SweepError {
    /// Whether something given was not acceptable, so that nothing was begun; else the work failed on the
    /// way.
    pub fn is_input(&self) -> bool {
        match self {
            SweepError::Plan(_)
            | SweepError::Setting { .. }
            | SweepError::File { .. }
            | SweepError::Other { .. }
            | SweepError::Journal { .. }
            | SweepError::Runs(_) => true,
            SweepError::Run { source, .. } => !matches!(source, LabError::Write(_)),
            SweepError::Stopped { .. } | SweepError::Write(_) => false,
        }
    }
}
