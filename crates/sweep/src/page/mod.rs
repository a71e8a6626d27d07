//! `report.html` of a sweep: throughput against delay, every figure along the axes, and the table.

mod panels;
mod scatter;
mod series;

use std::fmt::Write;
use std::path::Path;

use lab::files::write_text;
use report::{escape, short};

use crate::axis::Cell;
use crate::error::SweepError;
use crate::estimate::Estimate;
use crate::figures::KEY;
use crate::groups::Group;
use crate::seeds::seeds_note;
use crate::table::Table;

use series::Legend;

/// The page's file in a sweep's folder.
pub const NAME: &str = "report.html";

/// What this page draws with, besides what every page has.
const STYLE: &str = include_str!("sweep.css");

/// The whole page: it needs nothing else to open. The same table makes the same page.
pub fn render(table: &Table, groups: &[Group]) -> String {
    let legend = Legend::of(table, groups);
    let mut body = format!("<style>{STYLE}</style>\n{}", header(table));
    body.push_str(&warnings(table, groups));
    body.push_str(&scatter::render(table, groups, &legend));
    body.push_str(&panels::render(table, groups, &legend));
    body.push_str(&rows(table, groups, &legend));
    body.push_str(&footer(table));
    report::page(&title(table), &body)
}

/// Writes the page to `report.html` in `folder`.
///
/// # Errors
/// [`SweepError::Write`] naming the file.
pub fn write(table: &Table, groups: &[Group], folder: &Path) -> Result<(), SweepError> {
    Ok(write_text(&folder.join(NAME), &render(table, groups))?)
}

fn title(table: &Table) -> String {
    format!("Sweep of {}", table.plan().base().name)
}

fn header(table: &Table) -> String {
    let plan = table.plan();
    let seeds = plan.seeds().len();
    let mut facts: Vec<(String, String)> =
        plan.axes().iter().map(|axis| (axis.field.clone(), axis.values.join(", "))).collect();
    facts.extend(plan.base().settings.iter().map(|(field, value)| (field.clone(), plainly(value))));
    facts.push(("seeds".to_owned(), list(plan.seeds())));
    facts.push(("commit".to_owned(), table.commit().to_owned()));
    let chip = |(key, value): &(String, String)| {
        format!("<span class=\"chip\"><b>{}</b>{}</span>", escape(key), escape(value))
    };
    let chips: String = facts.iter().map(chip).collect();
    let (settings, runs) = (plan.settings_count(), plan.len());
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    format!(
        "<header><p class=\"brand\">Framewire</p><h1>{}</h1><p class=\"lead\">{} {settings} setting{} with {seeds} seed{} \
         each: {runs} runs of {} s.</p><p class=\"chips\">{chips}</p></header>\n",
        escape(&title(table)),
        escape(&plan.base().description),
        plural(settings),
        plural(seeds),
        short(plan.base().duration.as_secs_f64()),
    )
}

fn plainly(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Seeds as people write them: `1 to 10`, or `3, 7, 9`.
fn list(seeds: &[u64]) -> String {
    let run = seeds.windows(2).all(|pair| pair[0].checked_add(1) == Some(pair[1]));
    match seeds {
        [first, .., last] if run => format!("{first} to {last}"),
        _ => seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
    }
}

fn warnings(table: &Table, groups: &[Group]) -> String {
    let warnings = table.plan().warnings().iter().map(|warning| ("Warning", warning.clone()));
    let told = warnings.chain(seeds_note(table, groups).map(|note| ("Note", note)));
    let all: String = told.map(|(kind, text)| format!("<p><b>{kind}.</b> {}</p>\n", escape(&text))).collect();
    if all.is_empty() { all } else { format!("<section class=\"warnings\">\n{all}</section>\n") }
}

/// A mean with half its interval, to two digits of the latter: `18.20 ± 0.13`; a dash where nothing is known.
///
/// ```
/// # use framewire_sweep::{Estimate, page::interval};
/// assert_eq!(interval(&Estimate::of(&[1.0, 2.0, 3.0])), "2.0 ± 2.5");
/// assert_eq!(interval(&Estimate::of(&[1.0, 1.0])), "1 ± 0");
/// assert_eq!(interval(&Estimate::of(&[18.23])), "18.2");
/// assert_eq!(interval(&Estimate::of(&[])), "–");
/// ```
pub fn interval(estimate: &Estimate) -> String {
    match (estimate.mean, estimate.ci95) {
        (None, _) => "–".to_owned(),
        (Some(mean), None) => short(mean),
        (Some(mean), Some(0.0)) => format!("{} ± 0", short(mean)),
        (Some(mean), Some(half)) if half < 1e-4 => format!("{mean:.4} ± <0.0001"),
        (Some(mean), Some(half)) => {
            let digits = (1.0 - half.log10().floor()).clamp(0.0, 4.0) as usize;
            format!("{mean:.digits$} ± {half:.digits$}")
        }
    }
}

/// A setting's value for people; a dash where the field is taken away.
pub fn value(cell: &Cell) -> String {
    match cell {
        Cell::None => "–".to_owned(),
        Cell::Int(value) => value.to_string(),
        Cell::Real(value) => value.to_string(),
        Cell::Text(text) => text.clone(),
    }
}

fn rows(table: &Table, groups: &[Group], legend: &Legend) -> String {
    let known: Vec<_> =
        KEY.iter().filter(|key| groups.iter().any(|group| group.figure(key.name).n > 0)).collect();
    let means = match table.plan().seeds().len() {
        1 => "One run a setting, so there are no intervals.",
        _ => {
            "Mean over seeds ± half the 95 % confidence interval of the mean, by Student&rsquo;s t; <small>of 3</small>: so \
             many runs know the figure, where it is not all."
        }
    };
    let mut out = format!(
        "<section class=\"card figures\"><h3>Every setting</h3><p class=\"note\">{means} &ndash;: not measured.</p>\
         <div class=\"wide\"><table><thead><tr><th></th>"
    );
    for axis in table.plan().axes() {
        let _ = write!(out, "<th>{}</th>", escape(&axis.field));
    }
    for key in &known {
        let _ = write!(out, "<th>{}<small>{}</small></th>", key.heading, key.unit);
    }
    out.push_str("</tr></thead><tbody>");
    for group in groups {
        let class = legend.colour(group).class();
        let _ = write!(
            out,
            "<tr><th class=\"{class}\"><i class=\"dot\"></i><span>{}</span></th>",
            escape(&group.flow)
        );
        for (axis, cell) in table.plan().axes().iter().zip(table.plan().cells(group.setting)) {
            let _ = write!(out, "<td data-label=\"{}\">{}</td>", escape(&axis.field), escape(&value(&cell)));
        }
        for key in &known {
            let estimate = group.figure(key.name).scaled(key.scale);
            let some = estimate.n > 0 && estimate.n < group.seeds();
            let of = if some { format!("<small>of {}</small>", estimate.n) } else { String::new() };
            let _ = write!(
                out,
                "<td data-label=\"{}, {}\">{}{of}</td>",
                key.heading,
                key.unit,
                interval(&estimate)
            );
        }
        out.push_str("</tr>");
    }
    out + "</tbody></table></div></section>\n"
}

fn footer(table: &Table) -> String {
    format!(
        "<footer><h2>How to read this</h2><dl>\
         <dt>Packet delay</dt><dd>One way, from leaving the sender to arriving, in true time; P95 over a run&rsquo;s packets.</dd>\
         <dt>Frame delay</dt><dd>From the capture of a frame until it is shown. A frame that was never shown counts until the \
         next one that was.</dd>\
         <dt>Interval</dt><dd>If other seeds were drawn again and again, 95 of 100 such intervals would hold the mean over all \
         seeds, as far as runs differ like a normal distribution. Of one run there is none.</dd>\
         <dt>Ellipse</dt><dd>One standard deviation of the seeds around their mean, along and across the direction in which \
         delay and throughput vary together.</dd>\
         <dt>Rows</dt><dd><code>runs.parquet</code>: one for each flow and run, with every figure of a run&rsquo;s summary. \
         <code>groups.parquet</code>: this page&rsquo;s means and intervals, of every figure. Both are the same, bit for bit, \
         for the same scenario, settings, seeds and commit (here {}).</dd></dl></footer>\n",
        escape(table.commit())
    )
}

#[cfg(test)]
mod tests;
