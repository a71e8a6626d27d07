//! A thinned grid: the base point, each axis alone, and a few rows of the covering array, under what a flow
//! gets that names nothing else. `framewire lab grid` runs all of it.

use std::collections::BTreeSet;

use framewire_experiments::grid::{Cell, Drive, Group, Scheme, Verdict, drive};

/// Cells that fail today, with what does not hold there. The list may shrink; `docs/grid.md` says why they
/// fail.
const KNOWN: &[(&str, &str)] = &[];

/// Each fourth row of the covering array.
const THIN: usize = 4;

/// The default preset where scenarios know it, else what a flow has that names no rate policy.
fn scheme() -> Scheme {
    let preset = Scheme::all().into_iter().find(|scheme| scheme.rate.is_none());
    preset.unwrap_or_else(|| Scheme { cc: "sqp".to_owned(), rate: Some("live".to_owned()) })
}

#[test]
fn no_cell_fails_that_is_not_known_to() {
    let (pairs, mut cells): (Vec<Cell>, Vec<Cell>) =
        Cell::of_axes().into_iter().partition(|cell| cell.group == Group::Pairs);
    cells.extend(pairs.into_iter().step_by(THIN));
    let scheme = scheme();
    let how = Drive { threads: 2, progress: &|_| {}, memory: None };
    let outcomes = drive(std::slice::from_ref(&scheme), &cells, &how).unwrap();
    let failed: BTreeSet<(String, &str)> = outcomes
        .iter()
        .flat_map(|outcome| {
            let cell = cells[outcome.cell].name.clone();
            outcome.broken().map(move |finding| (cell.clone(), finding.invariant.name()))
        })
        .collect();
    let known: BTreeSet<(String, &str)> = KNOWN.iter().map(|&(cell, what)| (cell.to_owned(), what)).collect();
    let news: Vec<_> = failed.difference(&known).collect();
    assert!(news.is_empty(), "under {scheme} these did not fail before: {news:#?}");
    let mended: Vec<_> = known.difference(&failed).collect();
    if !mended.is_empty() {
        eprintln!("under {scheme} these hold now and need not be listed: {mended:#?}");
    }
    let held = outcomes.iter().filter(|outcome| outcome.verdict() == Verdict::Held).count();
    assert!(held * 2 > outcomes.len(), "{held} of {} cells hold", outcomes.len());
}
