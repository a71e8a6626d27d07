//! Why an instrument has no result.

use std::fmt::{self, Display};

/// Why an instrument ends without a result.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// Something given, or this machine, won't do; nothing was begun. The text names it.
    Input(String),
    /// The measurement itself failed.
    Work(String),
}

impl Failure {
    /// Something given won't do.
    pub fn input(error: impl Display) -> Failure {
        Failure::Input(error.to_string())
    }

    /// The measurement failed.
    pub fn work(error: impl Display) -> Failure {
        Failure::Work(error.to_string())
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Failure::Input(text) | Failure::Work(text)) = self;
        f.write_str(text)
    }
}

impl std::error::Error for Failure {}
