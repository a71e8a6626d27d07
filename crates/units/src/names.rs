//! What to say to somebody who wrote a name that there is not.

/// Names listed in full where none is near: more than these are not read.
const MOST_LISTED: usize = 12;
/// Names that may be meant.
const MOST_NEAR: usize = 3;

/// What to write instead of `found`: the names that are spelt almost like it (``did you mean `copa`?``), else
/// all of `known` if they are few, else how many there are and the first of them.
///
/// ```
/// # use framewire_units as units;
/// assert_eq!(units::instead("cubik", &["cubic", "copa"]), "did you mean `cubic`?");
/// assert_eq!(units::instead("x", &["live", "direct"]), "there are live, direct");
/// ```
pub fn instead(found: &str, known: &[&str]) -> String {
    let near = near_names(found, known);
    match near.split_last() {
        Some((last, [])) => format!("did you mean `{last}`?"),
        Some((last, others)) => {
            let others: Vec<_> = others.iter().map(|name| format!("`{name}`")).collect();
            format!("did you mean {} or `{last}`?", others.join(", "))
        }
        None if known.is_empty() => "there are none".to_owned(),
        None if known.len() <= MOST_LISTED => format!("there are {}", known.join(", ")),
        None => format!("there are {}, {} among them", known.len(), known[..MOST_NEAR].join(", ")),
    }
}

/// The names of `known` that `found` is most likely to be a misspelling of, in the order of `known`; none if
/// it is like none.
pub fn near_names<'a>(found: &str, known: &[&'a str]) -> Vec<&'a str> {
    let lower = |text: &str| text.to_lowercase().chars().collect::<Vec<_>>();
    let found = lower(found);
    // A slip in every third letter: what is farther off is another word.
    let most = (found.len() / 3).max(1);
    // One letter is a slip away from every other.
    if found.len() < 2 {
        return Vec::new();
    }
    let steps: Vec<usize> = known.iter().map(|name| distance(&found, &lower(name))).collect();
    let least = steps.iter().copied().min().filter(|&least| least <= most);
    let nearest = known.iter().zip(&steps).filter(|(_, steps)| Some(**steps) == least).map(|(name, _)| *name);
    let begun = known.iter().filter(|name| lower(name).starts_with(&found)).copied();
    let nearest: Vec<&str> = nearest.collect();
    let mut all = if nearest.is_empty() { begun.collect() } else { nearest };
    all.truncate(MOST_NEAR);
    all
}

/// Letters inserted, left out, replaced or swapped with their neighbour between two words (optimal string
/// alignment).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before = vec![0; b.len() + 1];
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut next = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = row[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            next[j] = replaced.min(row[j] + 1).min(next[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                next[j] = next[j].min(before[j - 2] + 1);
            }
        }
        (before, row) = (row, next);
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 14] = [
        "sqp", "gcc", "copa", "copa-0.1", "copa-0.9", "bbr", "bbr2", "cubic", "newreno", "vegas", "ledbat",
        "rocc", "fixed", "sprout",
    ];

    #[test]
    fn a_slip_finds_the_name() {
        for (slip, meant) in [
            ("cubic9", "did you mean `cubic`?"),
            ("CUBIC", "did you mean `cubic`?"),
            ("cubci", "did you mean `cubic`?"),
            ("bbr9", "did you mean `bbr` or `bbr2`?"),
            ("new-reno", "did you mean `newreno`?"),
            ("copa-0", "did you mean `copa`, `copa-0.1` or `copa-0.9`?"),
            ("led", "did you mean `ledbat`?"),
        ] {
            assert_eq!(instead(slip, &NAMES), meant, "{slip}");
        }
    }

    #[test]
    fn nothing_alike_lists_few_and_counts_many() {
        for far in ["", "x", "quantum", "öäü"] {
            assert_eq!(instead(far, &NAMES), "there are 14, sqp, gcc, copa among them", "{far}");
        }
        assert_eq!(instead("quantum", &NAMES[..2]), "there are sqp, gcc");
        assert_eq!(instead("x", &[]), "there are none");
    }

    #[test]
    fn distances_count_slips() {
        let of = |a: &str, b: &str| distance(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>());
        assert_eq!(
            [of("", "abc"), of("abc", "abc"), of("acb", "abc"), of("kitten", "sitting")],
            [3, 0, 1, 3]
        );
    }
}
