//! The constants of libwebrtc's receiver-side estimator, which changed four times in the year after its
//! threshold became adaptive.
//!
//! ```text
//!             offset wanders   K_up    K_down    commit
//!  2015-07    1e-3             0.01    0.00018   c62642c7, 7 July 2015; only with the trial WebRTC-AdaptiveBweThreshold
//!  2015-08    1e-2             0.01    0.00018   8647922e, 10 July 2015: the older wandering again, behind the same trial
//!  2016-02    1e-2             0.004   0.00006   44c65e9e, 16 February 2016: on for everyone
//!  2016-03    1e-3             0.004   0.00006   1069cac5, 10 March 2016
//!  2016-08    1e-3             0.0087  0.039     db754380, 4 August 2016, and ever since
//! ```
//!
//! The first has the constants that its authors published (Carlucci 2016; draft-ietf-rmcat-gcc-02 section
//! 5.6).

use std::str::FromStr;

use super::detector::{CODE, Column};

/// The constants of one revision of libwebrtc's estimator, named after a month.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Revision {
    name: &'static str,
    /// How much the offset wanders, in ms^2 a group.
    pub wander: f64,
    /// The detector's constants.
    pub column: Column,
}

const fn adaptive(name: &'static str, wander: f64, up: f64, down: f64) -> Revision {
    Revision { name, wander, column: Column { up, down, ..CODE } }
}

/// The constants that the adaptive threshold's authors published, of July 2015.
pub const PUBLISHED: Revision = adaptive("2015-07", 1e-3, 0.01, 0.000_18);
/// The constants since August 2016.
pub const LAST: Revision = adaptive("2016-08", 1e-3, CODE.up, CODE.down);

const ALL: [Revision; 5] = [
    PUBLISHED,
    adaptive("2015-08", 1e-2, 0.01, 0.000_18),
    adaptive("2016-02", 1e-2, 0.004, 0.000_06),
    adaptive("2016-03", 1e-3, 0.004, 0.000_06),
    LAST,
];

/// What an option expects.
pub const EXPECTED: &str = "2015-07, 2015-08, 2016-02, 2016-03 or 2016-08";

/// The name is of no revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown;

impl FromStr for Revision {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Revision, Unknown> {
        ALL.into_iter().find(|revision| revision.name == text).ok_or(Unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_an_option_expects_them() {
        for revision in ALL {
            assert_eq!(revision.name.parse(), Ok(revision));
            assert!(EXPECTED.contains(revision.name));
        }
        assert_eq!("2017-01".parse::<Revision>(), Err(Unknown));
    }

    #[test]
    fn the_last_one_is_what_the_trendline_has_too() {
        assert_eq!(LAST.column, CODE);
    }
}
