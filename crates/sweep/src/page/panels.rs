//! Small multiples: each figure along one axis, a panel for each combination of the others.

use std::fmt::Write;

use report::{Axis, escape, short};

use super::series::{Legend, class};
use super::value;
use crate::estimate::Estimate;
use crate::figures::{KEY, KeyFigure};
use crate::groups::Group;
use crate::table::Table;

const WIDTH: f64 = 340.0;
const HEIGHT: f64 = 200.0;
const LEFT: f64 = 40.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 172.0;
/// Panels of a figure; of more settings the page shows the first.
const MOST_PANELS: usize = 12;
/// Widths of a letter under an axis.
const LETTER: f64 = 7.0;

/// The figures that are drawn along the axes.
const DRAWN: [&str; 6] =
    ["throughput_bps", "owd_ms_p95", "frame_delay_ms_p95", "loss", "stalls_total_s", "ssim_mean"];

/// Which axis runs to the right, and which combinations of the others there are.
struct Layout {
    x: usize,
    /// The axes that have panels.
    others: Vec<usize>,
    /// Each panel's values on those axes, by place.
    panels: Vec<Vec<usize>>,
}

impl Layout {
    /// The first axis that is an amount runs to the right, else the first that is no controller, else the
    /// first. The controllers that colours stand for share a panel.
    fn of(table: &Table, legend: &Legend) -> Option<Layout> {
        let axes = table.plan().axes();
        let amount = axes.iter().position(|axis| axis.is_amount() && axis.values.len() > 1);
        let other = (0..axes.len()).find(|&at| Some(at) != legend.axis && axes[at].values.len() > 1);
        let x = amount.or(other).or(legend.axis).or((!axes.is_empty()).then_some(0))?;
        let others: Vec<usize> = (0..axes.len()).filter(|&at| at != x && Some(at) != legend.axis).collect();
        let mut panels: Vec<Vec<usize>> = Vec::new();
        for setting in 0..table.plan().settings_count() {
            let places = table.plan().places(setting);
            let panel: Vec<usize> = others.iter().map(|&at| places[at]).collect();
            if !panels.contains(&panel) {
                panels.push(panel);
            }
        }
        Some(Layout { x, others, panels })
    }

    fn title(&self, table: &Table, panel: &[usize]) -> String {
        let axes = table.plan().axes();
        let pairs = self.others.iter().zip(panel).filter(|(at, _)| axes[**at].values.len() > 1);
        let pairs = pairs.map(|(&at, &place)| format!("{} {}", axes[at].field, value(&axes[at].cell(place))));
        pairs.collect::<Vec<_>>().join(", ")
    }
}

/// All figures that are known, along the axes; nothing where nothing varies.
pub(super) fn render(table: &Table, groups: &[Group], legend: &Legend) -> String {
    let Some(layout) = Layout::of(table, legend) else { return String::new() };
    let keys = DRAWN.iter().filter_map(|name| KEY.iter().find(|key| key.name == *name));
    keys.filter(|key| groups.iter().any(|group| group.figure(key.name).mean.is_some_and(|mean| mean != 0.0)))
        .map(|key| figure(table, groups, legend, &layout, key))
        .collect()
}

/// A point of a panel.
struct Point {
    line: (usize, usize),
    /// Which value of the axis to the right.
    at: usize,
    estimate: Estimate,
}

fn figure(table: &Table, groups: &[Group], legend: &Legend, layout: &Layout, key: &KeyFigure) -> String {
    let point = |group: &Group| Point {
        line: legend.line(group),
        at: table.plan().places(group.setting)[layout.x],
        estimate: group.figure(key.name).scaled(key.scale),
    };
    let in_panel = |panel: &[usize]| -> Vec<Point> {
        let of = |group: &&Group| {
            let places = table.plan().places(group.setting);
            layout.others.iter().zip(panel).all(|(&at, &place)| places[at] == place)
        };
        groups.iter().filter(of).map(point).collect()
    };
    let shown = &layout.panels[..layout.panels.len().min(MOST_PANELS)];
    let panels: Vec<Vec<Point>> = shown.iter().map(|panel| in_panel(panel)).collect();
    let y = axis(panels.iter().flatten().map(|point| &point.estimate));
    let x = &table.plan().axes()[layout.x];
    let unit = if key.unit.is_empty() { String::new() } else { format!(", {}", key.unit) };
    let mut out = format!(
        "<figure class=\"card\"><figcaption><h3>{}{unit}</h3><p>Along {}; bars are 95 % confidence intervals of the mean over \
         seeds.{}</p></figcaption>{}<div class=\"grid-of-panels\">",
        capital(key.heading),
        escape(&x.field),
        match layout.panels.len() {
            more if more > MOST_PANELS => format!(" The first {MOST_PANELS} of {more} combinations."),
            _ => String::new(),
        },
        legend.render(&legend.lines(groups)),
    );
    for (panel, points) in shown.iter().zip(&panels) {
        let title = layout.title(table, panel);
        let heading = if title.is_empty() { title } else { format!("<h4>{}</h4>", escape(&title)) };
        let labels: Vec<String> = (0..x.values.len()).map(|at| value(&x.cell(at))).collect();
        let _ = write!(out, "<div>{heading}{}</div>", panel_of(points, legend, &y, &labels, x.is_amount()));
    }
    out + "</div></figure>\n"
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// From zero to what the highest bar reaches, unless all lie close together far from zero.
fn axis<'a>(estimates: impl Iterator<Item = &'a Estimate>) -> Axis {
    let ends = estimates.filter_map(|estimate| {
        let (mean, half) = (estimate.mean?, estimate.ci95.unwrap_or(0.0));
        Some((mean - half, mean + half))
    });
    let (low, high) = ends.fold((f64::MAX, f64::MIN), |(low, high), end| (low.min(end.0), high.max(end.1)));
    if low > 0.8 * high {
        let room = ((high - low) * 0.15).max(high * 0.005);
        return Axis::linear(low - room, high + room);
    }
    Axis::from_zero(high)
}

fn panel_of(points: &[Point], legend: &Legend, y: &Axis, labels: &[String], joined: bool) -> String {
    let mut out = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">");
    out.push_str(&frame(y, labels));
    let mut lines: Vec<(usize, usize)> = points.iter().map(|point| point.line).collect();
    lines.sort_unstable();
    lines.dedup();
    for (nth, &line) in lines.iter().enumerate() {
        // Beside each other, so that bars do not hide each other.
        let step = (24.0 / lines.len() as f64).min(6.0);
        let aside = (nth as f64 - (lines.len() - 1) as f64 / 2.0) * step;
        let of: Vec<&Point> = points.iter().filter(|point| point.line == line).collect();
        out.push_str(&drawn(&of, legend, y, labels.len(), aside, joined));
    }
    out + "</svg>"
}

fn x_of(at: usize, of: usize) -> f64 {
    LEFT + (at as f64 + 0.5) / of as f64 * (WIDTH - RIGHT - LEFT)
}

fn y_of(y: &Axis, value: f64) -> f64 {
    BOTTOM - y.place(value) * (BOTTOM - TOP)
}

fn frame(y: &Axis, labels: &[String]) -> String {
    let right = WIDTH - RIGHT;
    let mut out = String::new();
    for tick in y.ticks(4.0) {
        let at = y_of(y, tick);
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text class=\"tick end\" x=\"{}\" y=\"{:.1}\">{}</text>",
            LEFT - 6.0,
            at + 4.0,
            short(tick)
        );
    }
    // As many names as there is room for.
    let widest = labels.iter().map(|label| label.chars().count()).max().unwrap_or(1) as f64 * LETTER + 8.0;
    let each = (widest * labels.len() as f64 / (right - LEFT)).ceil().max(1.0) as usize;
    for (at, label) in labels.iter().enumerate().step_by(each) {
        let x = x_of(at, labels.len());
        let _ = write!(
            out,
            "<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{BOTTOM}\" y2=\"{}\"/>\
             <text class=\"tick mid\" x=\"{x:.1}\" y=\"{}\">{}</text>",
            BOTTOM + 4.0,
            BOTTOM + 18.0,
            escape(label)
        );
    }
    let _ =
        write!(out, "<line class=\"base\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{BOTTOM}\" y2=\"{BOTTOM}\"/>");
    out
}

fn drawn(points: &[&Point], legend: &Legend, y: &Axis, of: usize, aside: f64, joined: bool) -> String {
    let Some(first) = points.first() else { return String::new() };
    let (colour, stroke) = legend.look(first.line);
    let mut out =
        format!("<g class=\"{}\"><title>{}</title>", colour.class(), escape(&legend.label(first.line)));
    let known: Vec<(f64, f64, &Estimate)> = points
        .iter()
        .filter_map(|point| {
            Some((x_of(point.at, of) + aside, y_of(y, point.estimate.mean?), &point.estimate))
        })
        .collect();
    if joined {
        let places: Vec<String> = known.iter().map(|(x, y, _)| format!("{x:.1},{y:.1}")).collect();
        let _ = write!(out, "<polyline class=\"{}\" points=\"{}\"/>", class(stroke), places.join(" "));
    }
    for (x, at, estimate) in known {
        if let (Some(mean), Some(half)) = (estimate.mean, estimate.ci95) {
            let (top, bottom) = (y_of(y, mean + half), y_of(y, mean - half));
            let _ = write!(
                out,
                "<path class=\"bar\" d=\"M{x:.1},{top:.1}V{bottom:.1}M{:.1},{top:.1}h6M{:.1},{bottom:.1}h6\"/>",
                x - 3.0,
                x - 3.0
            );
        }
        let _ = write!(
            out,
            "<circle class=\"point\" cx=\"{x:.1}\" cy=\"{at:.1}\" r=\"3.5\"><title>{}: {}</title></circle>",
            escape(&legend.label(first.line)),
            super::interval(estimate)
        );
    }
    out + "</g>"
}
