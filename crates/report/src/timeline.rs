//! What happened to one flow, on one time axis: its window, the rates, the queue, what crossed it, with marks
//! where packets were dropped and where the sender's timer ran out. The picture for a bug report. In a
//! report, flows that share a bottleneck share the panels of its queue and of what crossed it.
//!
//! ```text
//! window, kB      ~~~~/|____:____:~~~     : timeout, with what the timer is then set to
//! rate, Mbit/s    ===\_______________     shaded: what the link could carry
//! queue, packets  _/\__'''__________      ' dropped: the flow's packets, others'
//! cross traffic   |  |||     ||           arrivals at the bottleneck
//! 0 s                               10 s
//! ```

use std::borrow::Cow;
use std::fmt::Write;

use units::{Rate, Span, Time};

use crate::axis::{Axis, short};
use crate::chart::{Chart, Colour, Line, Stroke, WIDTH};
use crate::charts::{beyond, capacity, narrowest, rate_axis, rate_points, while_on};
use crate::markup::{escape, shortened};
use crate::picture::frame;
use crate::{RunView, Subject};
use lab::collect::FlowRecord;
use lab::metrics::burst_width_of;

type Points = Vec<(f64, f64)>;

const STYLE: &str = include_str!("timeline.css");
/// A wide guess at the width of a letter of a key.
const LETTER: f64 = 7.2;
/// Width of a key's sample of a line.
const SAMPLE: f64 = 22.0;
/// Timers nearer to each other than this are not both labelled.
const LABEL_ROOM: f64 = 46.0;

/// One chart of the picture, with what is marked on it.
struct Panel {
    chart: Chart,
    /// Instants of timeouts, with what the timer was set to in seconds.
    timeouts: Points,
    /// Says what is what, and what timers were set to.
    labelled: bool,
    /// From when to when the link lost everything.
    outages: Points,
    /// Instants of drops.
    drops: Vec<Drops>,
}

/// Drops of some flows' packets.
#[derive(Clone)]
struct Drops {
    label: String,
    colour: Colour,
    at: Vec<f64>,
}

/// The pictures of one run's flows as HTML figures: of a single flow one, of several one each and one of the
/// bottleneck.
pub(crate) fn render(subjects: &[&Subject<'_>]) -> String {
    if let [subject] = subjects {
        return figure(&format!("What happened to {}", subject.label), &caption(subject), &panels(subject));
    }
    let Some(first) = subjects.first() else { return String::new() };
    let of_flow = |subject: &&Subject<'_>| {
        let caption = if has_timer(subject) { TIMER } else { "" };
        figure(&format!("What happened to {}", subject.label), caption, &of_sender(subject))
    };
    let mut out: String = subjects.iter().map(of_flow).collect();
    let drawn: Vec<u16> = subjects.iter().map(|subject| subject.index as u16).collect();
    let drops = |link| {
        let mut drops: Vec<Drops> = subjects.iter().map(|subject| own_drops(subject, link)).collect();
        drops.push(drops_of(first.run, link, "of others", Colour::Soft, |flow| !drawn.contains(&flow)));
        drops
    };
    let links = 0..first.run.rates.len();
    let (title, ticks) =
        if links.len() > 1 { ("At the links", TICKS_OF_LINKS) } else { ("At the bottleneck", TICKS) };
    let charts = at_links(first.run, links, &drops);
    out.push_str(&figure(title, ticks, &stacked(first.run, charts, Vec::new())));
    out
}

fn figure(title: &str, caption: &str, panels: &[Panel]) -> String {
    let mut out = format!(
        "<figure class=\"card timeline\"><figcaption><h3>{}</h3><p>{caption}</p></figcaption>",
        escape(title),
    );
    out.push_str(&legend(panels));
    for panel in panels {
        out.push_str(&panel.chart.svg_with(&panel.marks()));
    }
    out.push_str("</figure>\n");
    out
}

/// The same as the text of an SVG file that stands alone.
pub(crate) fn file(subject: &Subject<'_>) -> String {
    let panels = panels(subject);
    let summary = subject.run.summary;
    let title = format!("{}: {} (seed {})", summary.scenario, subject.flow.cc, summary.seed);
    let heights: Vec<f64> = panels.iter().map(|panel| panel.chart.height).collect();
    frame(&title, &[], STYLE, &heights, |out, index| {
        panels[index].chart.draw(out);
        out.push_str(&panels[index].marks());
    })
}

/// What ticks stand for, where that is too much for a key.
fn legend(panels: &[Panel]) -> String {
    let mut drops = panels.iter().flat_map(|panel| &panel.drops).peekable();
    if panels.iter().all(|panel| panel.drops.len() <= IN_KEY) || drops.peek().is_none() {
        return String::new();
    }
    let item = |drops: &Drops| {
        format!(
            "<span class=\"{}\"><svg width=\"26\" height=\"10\" aria-hidden=\"true\"><path class=\"dropped\" d=\"M13,0v10\"/></svg>{}</span>",
            drops.colour.class(),
            escape(&drops.label)
        )
    };
    format!("<div class=\"legend\">{}</div>", drops.map(item).collect::<String>())
}

const TIMER: &str = "Dashed: the retransmission timer ran out, and what it was set to then.";
const TICKS: &str = "Ticks: packets the bottleneck dropped.";
const TICKS_OF_LINKS: &str = "Ticks: packets the link dropped.";

fn has_timer(subject: &Subject<'_>) -> bool {
    subject.record.observed.get("rto_s").is_some()
}

fn caption(subject: &Subject<'_>) -> String {
    let ticks = if subject.run.rates.len() > 1 { TICKS_OF_LINKS } else { TICKS };
    if has_timer(subject) { format!("{TIMER} {ticks}") } else { ticks.to_owned() }
}

/// All panels of one flow.
fn panels(subject: &Subject<'_>) -> Vec<Panel> {
    let run = subject.run;
    let drops = |link| {
        let others = drops_of(run, link, "of others", Colour::Soft, |flow| flow != subject.index as u16);
        vec![Drops { label: "dropped, of this flow".into(), ..own_drops(subject, link) }, others]
    };
    let mut charts = alone([window(subject), rates(subject)]);
    charts.extend(at_links(run, run.scenario.path_of(subject.index), &drops));
    stacked(run, charts, timeouts(subject.record))
}

/// What the sender did, and what came of it.
fn of_sender(subject: &Subject<'_>) -> Vec<Panel> {
    stacked(subject.run, alone([window(subject), rates(subject)]), timeouts(subject.record))
}

/// Charts without drops.
fn alone<const N: usize>(charts: [Chart; N]) -> Vec<(Chart, Vec<Drops>)> {
    charts.map(|chart| (chart, Vec::new())).to_vec()
}

/// What flows share, link by link: its queue, with its `drops`, and what crossed it.
fn at_links(
    run: &RunView<'_>,
    links: impl IntoIterator<Item = usize>,
    drops: &dyn Fn(usize) -> Vec<Drops>,
) -> Vec<(Chart, Vec<Drops>)> {
    let of_link = |link| [(queue(run, link), drops(link)), (cross(run, link), Vec::new())];
    links.into_iter().flat_map(of_link).collect()
}

/// Those of `charts` that show something, one above the other over the same time axis.
fn stacked(run: &RunView<'_>, charts: Vec<(Chart, Vec<Drops>)>, timeouts: Points) -> Vec<Panel> {
    let some = charts.into_iter().filter(|(chart, _)| chart.lines.iter().any(|line| !line.is_empty()));
    let blackouts = run.scenario.link.iter().flat_map(|link| &link.blackout);
    let outages: Points = blackouts.map(|(from, to)| (from.as_secs_f64(), to.as_secs_f64())).collect();
    let panel = |(mut chart, drops): (Chart, Vec<Drops>)| {
        let (timeouts, outages) = (timeouts.clone(), outages.clone());
        let drops: Vec<Drops> = drops.into_iter().filter(|drops| !drops.at.is_empty()).collect();
        // They are marked above the frame of a chart that has room for two rows.
        let rows = drops.len().saturating_sub(2) as f64;
        chart.height += ROW * rows;
        chart.y.high *= 1.0 + 0.08 * rows;
        Panel { chart, timeouts, outages, labelled: false, drops }
    };
    let mut panels: Vec<Panel> = some.map(panel).collect();
    if let Some(first) = panels.first_mut() {
        first.labelled = true;
    }
    if let Some(last) = panels.last_mut() {
        last.chart.height += Chart::FOOT;
        last.chart.x_label = "seconds".into();
    }
    panels
}

/// Rows of ticks that the key above a panel has room for; those of more are told apart in a legend of their
/// own.
const IN_KEY: usize = 2;
/// From one row of ticks to the next.
const ROW: f64 = 11.0;

fn panel(
    run: &RunView<'_>,
    y_label: impl Into<Cow<'static, str>>,
    y: Axis,
    lines: Vec<Line>,
    height: f64,
) -> Chart {
    let x = Axis::linear(0.0, run.scenario.duration.as_secs_f64());
    Chart {
        title: String::new(),
        caption: String::new(),
        x_label: "".into(),
        y_label: y_label.into(),
        x,
        y,
        shade: None,
        lines,
        height,
    }
}

fn highest(lines: &[Line]) -> f64 {
    lines.iter().flat_map(|line| line.pieces.iter().flatten()).map(|point| point.1).fold(0.0, f64::max)
}

fn seconds(at: Time) -> f64 {
    at.as_secs_f64()
}

fn window(subject: &Subject<'_>) -> Chart {
    let record = subject.record;
    let kb = |bytes: f64| bytes / 1e3;
    let limited = record.decisions.iter().filter(|decided| decided.window < u64::MAX);
    let window: Points = limited.map(|decided| (seconds(decided.at), kb(decided.window as f64))).collect();
    let threshold = record.observed.get("ssthresh_bytes").into_iter().flatten();
    let threshold: Points = threshold.map(|&(at, bytes)| (seconds(at), kb(bytes))).collect();
    let largest = window.iter().map(|point| point.1).fold(0.0, f64::max);
    // The first threshold is often as good as none.
    let threshold: Points = threshold.into_iter().filter(|point| point.1 <= 2.0 * largest).collect();
    let lines = vec![
        Line::new("slow start threshold", Colour::Soft, threshold).stroke(Stroke::Dotted).stepped(),
        Line::new("congestion window", subject.colour, window).stepped(),
    ];
    panel(subject.run, "window, kB", Axis::from_zero(highest(&lines)), lines, 170.0)
}

fn rates(subject: &Subject<'_>) -> Chart {
    let (run, record) = (subject.run, subject.record);
    let paced = record.decisions.iter().filter(|decided| decided.pacing < Rate::MAX);
    let paced: Points = paced.map(|decided| (seconds(decided.at), decided.pacing.as_f64() / 1e6)).collect();
    let link = narrowest(subject);
    let others =
        run.link(link).departures.iter().filter(|departure| usize::from(departure.flow) != subject.index);
    let others = rate_points(run, others.map(|departure| (departure.at, departure.size)));
    let others = if others.iter().all(|point| point.1 == 0.0) { Vec::new() } else { others };
    let received = while_on(subject, rate_points(run, record.deliveries()));
    let who = if run.scenario.flows.len() > 1 { "everybody else" } else { "cross traffic" };
    let others = Line::new(who, Colour::Ink, others).stroke(Stroke::Dashed);
    let lines = vec![others, Line::new("received", subject.colour, received)];
    let shade = capacity(run, link);
    // What a controller would send at in start-up may be far above all that happens.
    let y = rate_axis(shade.as_ref().map_or(&paced, |(_, points)| taller(points, &paced)), &lines);
    let shade = shade.map(|(label, points)| (beyond(label, &points, &y), points));
    let label = beyond("paced at".to_owned(), &paced, &y);
    let paced = Line::new(label, Colour::Soft, paced).stroke(Stroke::Dotted).stepped().below(y.high);
    Chart { shade, ..panel(run, "Mbit/s", y, [vec![paced], lines].concat(), 170.0) }
}

fn queue(run: &RunView<'_>, index: usize) -> Chart {
    let link = run.link(index);
    let came = link.arrivals.iter().map(|arrival| (arrival.at, Some(arrival.packets)));
    let left = link.departures.iter().map(|departure| (departure.at, None));
    let mut steps: Vec<(Time, Option<u32>)> = came.chain(left).collect();
    steps.sort_by_key(|step| step.0);
    let mut packets = 0u32;
    let points: Points = steps
        .into_iter()
        .map(|(at, stands)| {
            packets = stands.unwrap_or(packets.saturating_sub(1));
            (seconds(at), f64::from(packets))
        })
        .collect();
    let lines = vec![Line::new("queue", Colour::Ink, points).stepped()];
    // Drops happen while the queue is full: they are marked above it.
    let y_label = format!("packets at {}", run.link_name(index).unwrap_or("the bottleneck"));
    panel(run, y_label, Axis::from_zero(highest(&lines) * 1.25), lines, 170.0)
}

/// What listens to nobody, as it arrives: packets in each bin, dropped ones too.
fn cross(run: &RunView<'_>, index: usize) -> Chart {
    let first = run.scenario.flows.len() as u16;
    let (link, width) = (run.link(index), burst_width(run));
    let accepted = link.arrivals.iter().map(|arrival| (arrival.at, arrival.flow));
    let dropped = link.drops.iter().map(|drop| (drop.at, drop.flow));
    let arrived = accepted.chain(dropped).filter(|(_, flow)| *flow >= first);
    let bins = link.folded.as_ref().map_or_else(
        || {
            let mut bins = vec![0u32; (run.scenario.duration.as_nanos() / width.as_nanos()) as usize + 1];
            arrived.for_each(|(at, _)| bins[(at.as_nanos() as i64 / width.as_nanos()) as usize] += 1);
            bins
        },
        |(_, bins)| bins.clone(),
    );
    let any = bins.iter().any(|&count| count > 0);
    let start = |index: usize| index as f64 * width.as_secs_f64();
    let points: Points =
        bins.iter().enumerate().map(|(index, &count)| (start(index), f64::from(count))).collect();
    let lines = vec![Line::new("arrivals", Colour::Ink, if any { points } else { Vec::new() }).stepped()];
    let at = run.link_name(index).map_or(String::new(), |name| format!(" at {name}"));
    let y_label = format!("cross traffic{at}, packets arriving in {} ms", width.as_millis_f64());
    panel(run, y_label, Axis::from_zero(highest(&lines)), lines, 110.0)
}

/// The width in which arrivals are counted: as fine as a picture shows, since bursts are what matters.
fn burst_width(run: &RunView<'_>) -> Span {
    burst_width_of(run.scenario.duration)
}

fn timeouts(record: &FlowRecord) -> Points {
    let set = record.observed.get("rto_s").into_iter().flatten();
    set.map(|&(at, timer)| (seconds(at), timer)).collect()
}

fn own_drops(subject: &Subject<'_>, link: usize) -> Drops {
    let label = format!("dropped, of {}", shortened(&subject.label, 16));
    drops_of(subject.run, link, &label, subject.colour, |flow| flow == subject.index as u16)
}

fn drops_of(run: &RunView<'_>, link: usize, label: &str, colour: Colour, of: impl Fn(u16) -> bool) -> Drops {
    let drops = run.link(link).drops.iter().filter(|drop| of(drop.flow));
    Drops { label: label.to_owned(), colour, at: drops.map(|drop| seconds(drop.at)).collect() }
}

/// The points that reach higher.
fn taller<'a>(a: &'a Points, b: &'a Points) -> &'a Points {
    let highest = |points: &Points| points.iter().map(|point| point.1).fold(0.0, f64::max);
    if highest(a) >= highest(b) { a } else { b }
}

impl Panel {
    /// Outages, timeouts, drops and the key, drawn over the chart.
    fn marks(&self) -> String {
        let top = Chart::TOP;
        let mut out = self.spans();
        out.push_str(&self.dashes());
        for (row, drops) in self.drops.iter().enumerate() {
            out.push_str(&self.ticks(drops, top + ROW * row as f64));
        }
        out.push_str(&self.key());
        out
    }

    fn spans(&self) -> String {
        let (top, height) = (Chart::TOP, self.chart.bottom() - Chart::TOP);
        let span = |&(from, to): &(f64, f64)| {
            let (x, end) = (self.chart.x_of(from), self.chart.x_of(to));
            let width = (end - x).max(1.0);
            format!(
                "<rect class=\"outage\" x=\"{x:.1}\" y=\"{top}\" width=\"{width:.1}\" height=\"{height}\"/>"
            )
        };
        self.outages.iter().map(span).collect()
    }

    fn dashes(&self) -> String {
        let (top, bottom) = (Chart::TOP, self.chart.bottom());
        let (mut out, mut label_from) = (String::new(), f64::NEG_INFINITY);
        for &(at, timer) in &self.timeouts {
            let x = self.chart.x_of(at);
            let _ = write!(
                out,
                "<line class=\"timeout\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" y2=\"{bottom}\"/>"
            );
            if self.labelled && x >= label_from && x + LABEL_ROOM < WIDTH {
                let (x, y, timer) = (x + 4.0, top + 11.0, short(timer));
                let _ = write!(out, "<text class=\"tick\" x=\"{x:.1}\" y=\"{y}\">{timer} s</text>");
                label_from = x + LABEL_ROOM;
            }
        }
        out
    }

    /// A short tick at each instant, one for all that fall on the same spot.
    fn ticks(&self, drops: &Drops, y: f64) -> String {
        let mut places: Vec<i64> =
            drops.at.iter().map(|&at| (self.chart.x_of(at) * 2.0).round() as i64).collect();
        places.dedup();
        let path: String = places.iter().map(|&place| format!("M{},{y}v9", place as f64 / 2.0)).collect();
        if path.is_empty() {
            path
        } else {
            format!("<path class=\"dropped {}\" d=\"{path}\"/>", drops.colour.class())
        }
    }

    /// What is what: a sample of each kind of mark, and its name.
    fn items(&self) -> Vec<(String, String)> {
        let line = |of: &Line| {
            let (colour, stroke) = (of.colour.class(), of.stroke.class());
            format!("<g class=\"{colour}\"><polyline class=\"{stroke}\" points=\"0,0 {SAMPLE},0\"/></g>")
        };
        let area = |class| format!("<rect class=\"{class}\" y=\"-5\" width=\"{SAMPLE}\" height=\"10\"/>");
        let lines = self.chart.lines.iter().filter(|line| !line.is_empty());
        let mut items: Vec<(String, String)> = lines.map(|of| (line(of), of.label.clone())).collect();
        items.extend(self.chart.shade.iter().map(|(label, _)| (area("shade"), label.clone())));
        let mut add = |shown: bool, sample: String, label: &str| {
            items.extend(shown.then(|| (sample, label.to_owned())));
        };
        let dash = format!("<line class=\"timeout\" x2=\"{SAMPLE}\"/>");
        add(self.labelled && !self.timeouts.is_empty(), dash, "timeout, and the next timer");
        add(self.labelled && !self.outages.is_empty(), area("outage"), "outage");
        for drops in self.drops.iter().filter(|_| self.drops.len() <= IN_KEY) {
            let tick = format!("<path class=\"dropped {}\" d=\"M17,-5v9\"/>", drops.colour.class());
            items.push((tick, drops.label.clone()));
        }
        items
    }

    /// The key, above the chart, to the right.
    fn key(&self) -> String {
        let items = self.items();
        let width = |label: &str| SAMPLE + 6.0 + LETTER * label.chars().count() as f64 + 14.0;
        let mut x = (WIDTH - items.iter().map(|(_, label)| width(label)).sum::<f64>()).max(0.0);
        let mut out = String::new();
        for (sample, label) in items {
            let _ = write!(
                out,
                "<g transform=\"translate({x:.1} {})\">{sample}<text x=\"{}\" y=\"4\">{}</text></g>",
                Chart::TOP - 16.0,
                SAMPLE + 6.0,
                escape(&label)
            );
            x += width(&label);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use lab::run::{Outcome, RunOptions, run};
    use lab::scenario::Scenario;

    use crate::output::report;
    use crate::{RunView, timeline};

    fn outcome(flow: &str, rest: &str) -> Outcome {
        let link = "[link]\nrate = \"5mbit\"\ndelay = \"20ms\"\nqueue = \"droptail:20p\"\n";
        let text = format!("duration = \"4s\"\n{link}{rest}[[flow]]\n{flow}\n");
        run(&Scenario::parse(&text, Path::new("x.toml")).unwrap(), &RunOptions::default()).unwrap()
    }

    fn count(text: &str, what: &str) -> usize {
        text.matches(what).count()
    }

    #[test]
    fn a_bulk_flow_has_its_window_rates_queue_and_marks_over_one_axis() {
        let tcp = "cc = \"cubic\"\nsource = \"tcp\"\n[[cross]]\nkind = \"cbr\"\nrate = \"1mbit\"";
        let outcome = outcome(tcp, "blackout = [[\"1s\", \"2.5s\"]]\n");
        let text = timeline(RunView::of(&outcome)).unwrap();
        for label in
            ["window, kB", "Mbit/s", "packets at the bottleneck", "cross traffic, packets arriving in"]
        {
            assert_eq!(count(&text, &format!(">{label}")), 1, "{label}");
        }
        assert_eq!(count(&text, ">seconds<"), 1, "only the lowest chart says what runs to the right");
        let timeouts = outcome.record.flows[0].observed.get("rto_s").unwrap().len();
        // One across each of four panels, and one in the key.
        assert!(timeouts >= 2 && count(&text, "class=\"timeout\"") == 4 * timeouts + 1, "{timeouts}");
        assert_eq!((count(&text, "class=\"outage\""), count(&text, ">outage<")), (5, 1));
        assert_eq!((count(&text, "dropped, of this flow"), count(&text, "of others")), (1, 1));
        assert!(text.contains("x: cubic (seed 1)") && !text.contains("NaN") && !text.contains("inf"));
        let page = report("x", &[outcome]);
        assert!(page.contains("What happened to cubic"));
    }

    #[test]
    fn of_several_links_each_has_its_queue() {
        let link = |name: &str| {
            format!(
                "[[link]]\nname = \"{name}\"\nrate = \"2mbit\"\ndelay = \"5ms\"\nqueue = \"droptail:9p\"\n"
            )
        };
        let links = link("a<b") + link("cd").as_str();
        let flow = |path: &str| format!("[[flow]]\ncc = \"cubic\"\nsource = \"tcp\"\n{path}\n");
        let (one, other) = (flow(""), flow("path = [\"cd\"]"));
        let cross = "[[cross]]\nkind = \"cbr\"\nrate = \"300kbit\"\npath = [\"cd\"]\n";
        let text = format!("duration = \"4s\"\n{links}{one}{other}{cross}");
        let outcome =
            run(&Scenario::parse(&text, Path::new("x.toml")).unwrap(), &RunOptions::default()).unwrap();
        let alone = timeline(RunView::of(&outcome)).unwrap();
        let labels =
            [">packets at a&lt;b<", ">packets at cd<", ">cross traffic at cd, packets arriving in 10 ms<"];
        assert_eq!(labels.map(|label| count(&alone, label)), [1, 1, 1]);
        assert!(!alone.contains("cross traffic at a"));
        let page = report("x", &[outcome]);
        assert_eq!(labels.map(|label| count(&page, label)), [1, 1, 1], "flows share the panels of links");
        for told in [
            "At the links",
            "Queue delay at a&lt;b",
            "Queue delay at cd",
            "capacity of cd",
            "of link a&lt;b was used",
            "a&lt;b: 2 Mbit/s, 5 ms, queue droptail:9p",
            "cubic over TCP through a&lt;b → cd, cubic over TCP through cd",
            "a constant rate of 300 kbit/s through cd",
        ] {
            assert!(page.contains(told), "{told}");
        }
        assert!(!page.contains("a<b") && !page.contains("At the bottleneck"));
    }

    #[test]
    fn video_has_other_charts_unless_something_crosses_it() {
        let calm = outcome("cc = \"sqp\"", "");
        assert!(timeline(RunView::of(&calm)).is_none());
        let crossed = outcome("cc = \"sqp\"\n[[cross]]\nkind = \"cbr\"\nrate = \"1mbit\"", "");
        let text = timeline(RunView::of(&crossed)).unwrap();
        assert!(
            !text.contains("class=\"timeout\"")
                && text.contains(">cross traffic, packets arriving in 10 ms<")
        );
    }
}
