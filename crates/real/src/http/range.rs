//! Ranges of bytes (RFC 9110 section 14), one at a time: what players seek with.

use std::ops::Range;

/// A range as it is asked for, before the file's length is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// `A-B`, both included; `A-` has no last byte.
    From(u64, Option<u64>),
    /// `-N`: so many bytes at the end.
    Last(u64),
}

impl Wanted {
    /// Reads the value of a `Range` field. `None` for whatever may be ignored: other units, several ranges,
    /// what is no range (RFC 9110 section 14.2).
    pub fn parse(value: &str) -> Option<Wanted> {
        let (unit, range) = value.split_once('=')?;
        let (first, last) = range.trim_matches([' ', '\t']).split_once('-')?;
        if !unit.eq_ignore_ascii_case("bytes") {
            return None;
        }
        match (first, last) {
            ("", last) => number(last).map(Wanted::Last),
            (first, "") => Some(Wanted::From(number(first)?, None)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Wanted::From(first, Some(last)))
            }
        }
    }

    /// The bytes that a file of `length` bytes has of it; `None` where it has none (416).
    pub fn of(self, length: u64) -> Option<Range<u64>> {
        let range = match self {
            Wanted::From(first, last) => {
                first..last.map_or(length, |last| last.saturating_add(1).min(length))
            }
            Wanted::Last(bytes) => length.saturating_sub(bytes)..length,
        };
        (range.start < range.end).then_some(range)
    }
}

/// Digits alone; a number that no file reaches is the largest.
fn number(digits: &str) -> Option<u64> {
    let fine = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    fine.then(|| digits.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn examples_of_the_rfc_hold() {
        let of = |value: &str| Wanted::parse(value).map(|wanted| wanted.of(10_000));
        assert_eq!(of("bytes=0-499"), Some(Some(0..500)));
        assert_eq!(of("bytes=9500-"), Some(Some(9500..10_000)));
        assert_eq!(of("bytes=-500"), Some(Some(9500..10_000)));
        assert_eq!(of("bytes=-20000"), Some(Some(0..10_000)));
        assert_eq!((of("bytes=10000-"), of("bytes=-0")), (Some(None), Some(None)));
        assert_eq!(of("bytes=0-99999999999999999999999"), Some(Some(0..10_000)));
        for ignored in
            ["bytes=0-1,5-6", "lines=0-1", "bytes=2-1", "bytes=-", "bytes=a-b", "bytes", "bytes=+1-"]
        {
            assert_eq!(of(ignored), None, "{ignored}");
        }
    }

    proptest! {
        #[test]
        fn a_range_lies_in_the_file(value in "(bytes=)?[0-9]{0,21}-[0-9]{0,21}", length in any::<u64>()) {
            if let Some(range) = Wanted::parse(&value).and_then(|wanted| wanted.of(length)) {
                prop_assert!(range.start < range.end && range.end <= length);
            }
        }
    }
}
