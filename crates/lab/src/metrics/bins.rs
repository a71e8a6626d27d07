//! Widths of the bins that charts over a run's time count in. Folded rows keep to them, so that they draw the
//! same charts.

use units::Span;

/// The width of the bins of charts over time, in a run of this length: fine enough to see the effect of a
/// burst of frames in a short run, coarse enough to be read in a long one.
pub fn bin_of(duration: Span) -> Span {
    let wanted = duration.as_nanos() / 240;
    let choices = [100, 200, 250, 500, 1_000, 2_000, 5_000, 10_000, 60_000].map(Span::from_millis);
    choices.into_iter().find(|c| c.as_nanos() >= wanted).unwrap_or(Span::from_secs(600))
}

/// The width in which arrivals are counted, in a run of this length: as fine as a picture shows, since bursts
/// are what matters.
pub fn burst_width_of(duration: Span) -> Span {
    const COLUMNS: i64 = 500;
    let choices = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000].map(Span::from_millis);
    let wanted = duration.as_nanos() / COLUMNS;
    choices.into_iter().find(|choice| choice.as_nanos() >= wanted).unwrap_or_else(|| bin_of(duration))
}
