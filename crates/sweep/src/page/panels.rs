//! Small multiples: each figure along one axis, a panel for each combination of the others.

use std::fmt::Write;

use report::{Axis, escape, short};

use super::series::{Legend, class, mark};
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
    let known = |key: &&KeyFigure| {
        groups.iter().any(|group| group.figure(key.name).mean.is_some_and(|mean| mean != 0.0))
    };
    let keys: Vec<&KeyFigure> = keys.filter(known).collect();
    let draw = |key: &&KeyFigure| panels(table, groups, legend, &layout, key);
    let along = format!(
        "Along {}; bars are 95 % confidence intervals of the mean over seeds.",
        escape(&table.plan().axes()[layout.x].field)
    );
    let legend = legend.render(&legend.lines(groups));
    if layout.panels.len() == 1 {
        let all: String = keys.iter().map(draw).collect();
        return card("Every figure", &along, &legend, &all);
    }
    let more = match layout.panels.len() {
        count if count > MOST_PANELS => format!(" The first {MOST_PANELS} of {count} combinations."),
        _ => String::new(),
    };
    let of = |key: &&KeyFigure| card(&titled(key), &format!("{along}{more}"), &legend, &draw(key));
    keys.iter().map(of).collect()
}

fn card(title: &str, caption: &str, legend: &str, panels: &str) -> String {
    format!(
        "<figure class=\"card\"><figcaption><h3>{title}</h3><p>{caption}</p></figcaption>{legend}\
         <div class=\"grid-of-panels\">{panels}</div></figure>\n"
    )
}

/// A figure's name with its unit.
fn titled(key: &KeyFigure) -> String {
    let unit = if key.unit.is_empty() { String::new() } else { format!(", {}", key.unit) };
    format!("{}{unit}", capital(key.heading))
}

/// A point of a panel.
struct Point {
    line: (usize, usize),
    /// Which value of the axis to the right.
    at: usize,
    estimate: Estimate,
}

/// A figure's panels, all on one scale; a lone one is named after the figure.
fn panels(table: &Table, groups: &[Group], legend: &Legend, layout: &Layout, key: &KeyFigure) -> String {
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
    let labels: Vec<String> = (0..x.values.len()).map(|at| value(&x.cell(at))).collect();
    let titles = shown.iter().map(|panel| match layout.panels.len() {
        1 => titled(key),
        _ => layout.title(table, panel),
    });
    titles
        .zip(&panels)
        .map(|(title, points)| {
            let panel = panel_of(points, legend, &y, &labels, x.is_amount());
            format!("<div><h4>{}</h4>{panel}</div>", escape(&title))
        })
        .collect()
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
    let places: Vec<(&Point, f64)> =
        points.iter().map(|point| (point, x_of(point.at, labels.len()) + aside(point, points))).collect();
    for line in lines {
        let of: Vec<(&Point, f64)> = places.iter().filter(|(point, _)| point.line == line).copied().collect();
        out.push_str(&drawn(&of, legend, y, joined));
    }
    out + "</svg>"
}

/// How far a point stands from its value's place: points of one value stand beside each other, so that bars
/// do not hide each other.
fn aside(point: &Point, all: &[Point]) -> f64 {
    let beside = || all.iter().filter(|other| other.at == point.at);
    let (count, before) = (beside().count(), beside().filter(|other| other.line < point.line).count());
    let step = (36.0 / count as f64).min(9.0);
    (before as f64 - (count - 1) as f64 / 2.0) * step
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

fn drawn(points: &[(&Point, f64)], legend: &Legend, y: &Axis, joined: bool) -> String {
    let Some((Point { line, .. }, _)) = points.first() else { return String::new() };
    let (colour, stroke) = legend.look(*line);
    let label = escape(&legend.label(*line));
    let mut out = format!("<g class=\"{}\"><title>{label}</title>", colour.class());
    let known = || points.iter().filter_map(|(point, x)| Some((*x, point.estimate.mean?, &point.estimate)));
    if joined {
        let places: Vec<String> =
            known().map(|(x, mean, _)| format!("{x:.1},{:.1}", y_of(y, mean))).collect();
        let _ = write!(out, "<polyline class=\"{}\" points=\"{}\"/>", class(stroke), places.join(" "));
    }
    for (x, mean, estimate) in known() {
        if let Some(half) = estimate.ci95 {
            let (top, bottom, left) = (y_of(y, mean + half), y_of(y, mean - half), x - 3.0);
            let _ = write!(
                out,
                "<path class=\"bar\" d=\"M{x:.1},{top:.1}V{bottom:.1}M{left:.1},{top:.1}h6M{left:.1},{bottom:.1}h6\"/>"
            );
        }
        let (mark, told) = (mark(line.1, (x, y_of(y, mean)), 3.5), super::interval(estimate));
        let _ = write!(out, "<g>{mark}<title>{label}: {told}</title></g>");
    }
    out + "</g>"
}
