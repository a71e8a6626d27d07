//! `report.html`: one file for people, that opens from disk, without a network, in light and dark.
//!
//! ```text
//! ReportData { runs } -> subjects (a flow each) -> findings, table, strips, charts -> page
//! ```
//!
//! With one run, every flow is a subject; with several (a comparison), the first flow of each run is. A
//! subject keeps its colour throughout.

mod axis;
mod chart;
mod charts;
mod decimate;
mod findings;
pub mod manual;
mod markup;
mod network;
pub mod output;
mod picture;
pub mod prism;
mod stills;
mod strip;
mod table;
mod timeline;

use netsim::RateProcess;
use units::Span;

use lab::collect::{Collector, FlowRecord, LinkRecord};
use lab::run::{Outcome, Stills};
use lab::scenario::{Flow, Scenario};
use lab::summary::{FlowSummary, Summary};

pub use axis::{Axis, Spacing, milliseconds, percent, rate, short};
pub use chart::{Chart, Colour, Line, Stroke};

use chart::Colour::Palette;
pub use markup::escape;
pub use picture::picture;

/// A run as the report sees it.
pub struct RunView<'a> {
    /// What tells it from the others: its controller.
    pub label: String,
    /// The run's figures.
    pub summary: &'a Summary,
    /// Packets, frames and decisions, a row each.
    pub record: &'a Collector,
    /// What was run.
    pub scenario: &'a Scenario,
    /// Each flow's time between frames.
    pub intervals: &'a [Span],
    /// The rate of each shared link.
    pub rates: &'a [RateProcess],
    /// Pictures of each flow, where there were any.
    pub stills: &'a [Option<Stills>],
}

impl<'a> RunView<'a> {
    /// What a report shows of `outcome`, told from others by its first flow's controller.
    pub fn of(outcome: &'a Outcome) -> RunView<'a> {
        RunView {
            label: outcome.scenario.flows[0].cc.clone(),
            summary: &outcome.summary,
            record: &outcome.record,
            scenario: &outcome.scenario,
            intervals: &outcome.intervals,
            rates: &outcome.rates,
            stills: &outcome.stills,
        }
    }

    /// What shared link number `index` recorded.
    pub(crate) fn link(&self, index: usize) -> &'a LinkRecord {
        self.record.links().nth(index).expect("a record of each link")
    }

    /// What it is called, where there are several.
    pub(crate) fn link_name(&self, index: usize) -> Option<&'a str> {
        (self.rates.len() > 1).then(|| self.link(index).name.as_str())
    }
}

/// What a report is made of.
pub struct ReportData<'a> {
    /// The report's heading.
    pub title: String,
    /// A sentence under it: what was run, over what.
    pub description: String,
    /// One run, or several of the same scenario to compare. Never empty.
    pub runs: Vec<RunView<'a>>,
}

/// A flow that the report shows.
struct Subject<'a> {
    label: String,
    colour: Colour,
    run: &'a RunView<'a>,
    /// Its place among the run's flows.
    index: usize,
    flow: &'a Flow,
    record: &'a FlowRecord,
    summary: &'a FlowSummary,
    interval: Span,
}

impl Subject<'_> {
    fn is_video(&self) -> bool {
        self.flow.video().is_some() && self.summary.frames.captured > 0
    }

    /// Frames that should have been shown: all but the few still under way when the run ended. If nothing was
    /// shown for the last second, that is no longer the end's fault.
    fn expected_frames(&self) -> usize {
        let frames = &self.summary.frames;
        let under_way = self.interval * frames.cut_off as i64 <= Span::from_secs(1);
        frames.captured - if under_way { frames.cut_off } else { 0 }
    }
}

/// What to know before the figures are believed, each once.
fn warnings(data: &ReportData<'_>) -> String {
    let mut all: Vec<&String> = Vec::new();
    for warning in data.runs.iter().flat_map(|run| &run.summary.warnings) {
        if !all.contains(&warning) {
            all.push(warning);
        }
    }
    let items: String =
        all.iter().map(|warning| format!("<p><b>Warning.</b> {}</p>\n", escape(warning))).collect();
    if items.is_empty() { items } else { format!("<section class=\"warnings\">\n{items}</section>\n") }
}

/// Subjects up to which each gets a bitrate chart of its own.
const DETAILED: usize = 4;

/// The page's colours and layout, and what charts are drawn with; pictures that stand alone share the first
/// and the last.
const STYLE: &str = concat!(
    include_str!("palette.css"),
    include_str!("colours.css"),
    include_str!("style.css"),
    include_str!("marks.css"),
    include_str!("timeline.css")
);
const HOVER: &str = include_str!("hover.js");

/// The whole page.
///
/// # Panics
/// If `data` holds no run.
pub fn render(data: &ReportData<'_>) -> String {
    let subjects = subjects(data);
    let first = data.runs.first().expect("a report is about at least one run");
    let mut body = header(data, first);
    body.push_str(&network::render(first, data.runs.len() > 1));
    body.push_str(&findings::render(data, &subjects));
    body.push_str(&warnings(data));
    body.push_str(&table::render(&subjects, data.runs.len() > 1));
    body.push_str(&strip::render(&subjects));
    body.push_str(&stills::render(&subjects));
    let told: Vec<&Subject<'_>> = subjects.iter().filter(|s| has_timeline(s)).take(DETAILED).collect();
    for of_run in told.chunk_by(|a, b| std::ptr::eq(a.run, b.run)) {
        body.push_str(&timeline::render(of_run));
    }
    for chart in charts::all(data, &subjects) {
        body.push_str(&chart.render());
    }
    body.push_str(&footer(data));
    page(&data.title, &body)
}

/// The first flow's story as an SVG file, if it is a bulk flow or something crossed it.
pub fn timeline(run: RunView<'_>) -> Option<String> {
    let data = ReportData { title: String::new(), description: String::new(), runs: vec![run] };
    let subjects = subjects(&data);
    subjects.first().filter(|subject| has_timeline(subject)).map(timeline::file)
}

/// Of video the other charts tell more, unless cross traffic is the story.
fn has_timeline(subject: &Subject<'_>) -> bool {
    let sent = !subject.record.packets.is_empty();
    sent && (!subject.is_video() || !subject.run.scenario.cross.is_empty())
}

/// A whole page around `body`, with the style and script that charts need.
pub fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{}</title><style>{STYLE}</style></head><body><main>\n\
         {body}</main><div id=\"tip\" hidden></div><script>{HOVER}</script></body></html>\n",
        escape(title)
    )
}

fn subjects<'a>(data: &'a ReportData<'a>) -> Vec<Subject<'a>> {
    let flows = data.runs.iter().flat_map(|run| {
        let shown = if data.runs.len() > 1 { 1 } else { run.record.flows.len() };
        (0..shown.min(run.summary.flows.len())).map(move |index| (run, index))
    });
    flows
        .enumerate()
        .map(|(i, (run, index))| Subject {
            label: if data.runs.len() > 1 {
                run.label.clone()
            } else {
                run.summary.flows[index].name.clone()
            },
            colour: Palette(i),
            run,
            index,
            flow: &run.scenario.flows[index],
            record: &run.record.flows[index],
            summary: &run.summary.flows[index],
            interval: run.intervals.get(index).copied().unwrap_or(Span::from_nanos(16_666_667)),
        })
        .collect()
}

fn header(data: &ReportData<'_>, first: &RunView<'_>) -> String {
    let summary = first.summary;
    let mut facts = vec![
        ("scenario", summary.scenario.clone()),
        ("seed", summary.seed.to_string()),
        ("commit", summary.commit.clone()),
        ("simulated", format!("{} s", short(summary.duration_s))),
    ];
    for run in &data.runs {
        let of = if data.runs.len() > 1 { format!("{} ", run.label) } else { String::new() };
        facts.push(("hash", format!("{of}{}", run.summary.hash)));
    }
    let facts: String = facts
        .iter()
        .map(|(key, value)| format!("<span class=\"chip\"><b>{}</b>{}</span>", escape(key), escape(value)))
        .collect();
    format!(
        "<header><p class=\"brand\">Framewire</p><h1>{}</h1><p class=\"lead\">{}</p><p class=\"chips\">{facts}</p></header>\n",
        escape(&data.title),
        escape(&data.description)
    )
}

fn footer(data: &ReportData<'_>) -> String {
    let repeat = data.runs.first().map_or("", |run| run.summary.commit.as_str());
    format!(
        "<footer><h2>How to read this</h2><dl>\
         <dt>Frame delay</dt><dd>From the capture of a frame until it is shown. A frame that was never shown counts until \
         the next one that was: that is when the viewer saw something at least as new.</dd>\
         <dt>Stall</dt><dd>No new frame for more than three frame intervals, and for at least 150&nbsp;ms longer than one. \
         The wait for the first frame is none, unless none ever comes: then it is all the time there is.</dd>\
         <dt>Queue delay</dt><dd>Time a packet spent at the bottleneck, waiting and being sent.</dd>\
         <dt>PSNR, SSIM</dt><dd>Of luma, and of all planes by ffmpeg&rsquo;s convention. <i>Measured</i>: of each shown frame \
         against its own source. <i>Model</i>: what an encoder model, fitted to recordings of real encoders, gives a frame of \
         that size; it makes no pictures. <i>Encoder</i>: a real encoder&rsquo;s own word. The mean PSNR averages squared \
         errors.</dd>\
         <dt>&ndash;</dt><dd>Not measured.</dd>\
         <dt>Hash</dt><dd>A fingerprint of every event of the run. The same scenario, seed and commit (here {}) give the \
         same hash on every machine.</dd></dl></footer>\n",
        escape(repeat)
    )
}

#[cfg(test)]
mod tests;
