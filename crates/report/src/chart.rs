//! A chart as inline SVG. Colours are CSS variables of the page, so that the same picture is right in light
//! and dark.

use std::borrow::Cow;
use std::fmt::Write;

use crate::axis::{Axis, Spacing, short};
use crate::decimate::decimate;
use crate::markup::escape;

/// Width of every chart in its own units; the page stretches it.
pub const WIDTH: f64 = 960.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = Chart::TOP;
/// Below a chart that stands above another one with the same axis.
const BARE: f64 = 8.0;
/// Columns a line is thinned to: about two units each, below which nothing can be told apart.
const COLUMNS: usize = 430;

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stroke {
    /// A full line.
    Solid,
    /// Thin and pale: the background of another line.
    Faint,
    /// A line of long dashes.
    Dashed,
    /// A line of dots.
    Dotted,
}

impl Stroke {
    pub(crate) fn class(self) -> &'static str {
        match self {
            Stroke::Solid => "solid",
            Stroke::Faint => "faint",
            Stroke::Dashed => "dashed",
            Stroke::Dotted => "dotted",
        }
    }
}

/// What a line is coloured with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// One of the palette, which tells flows and controllers apart. Those beyond [`Colour::PALETTE`] share
    /// that of remarks.
    Palette(usize),
    /// That of text.
    Ink,
    /// That of remarks.
    Soft,
}

const CLASSES: [&str; Colour::PALETTE] =
    ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9", "c10", "c11", "c12", "c13", "c14", "c15"];

impl Colour {
    /// Colours of the palette.
    pub const PALETTE: usize = 16;

    /// Its CSS class.
    pub fn class(self) -> &'static str {
        match self {
            Colour::Palette(i) => CLASSES.get(i).copied().unwrap_or("soft"),
            Colour::Ink => "ink",
            Colour::Soft => "soft",
        }
    }
}

/// One line of a chart, with what legend and tooltip say of it.
#[derive(Clone, Debug)]
pub struct Line {
    /// What it is, for legend and tooltip.
    pub label: String,
    /// The line's colour.
    pub colour: Colour,
    /// How it is drawn.
    pub stroke: Stroke,
    /// Its points by ascending x, in pieces: between pieces there is nothing.
    pub pieces: Vec<Vec<(f64, f64)>>,
    /// Holds its value until the next point, instead of sloping towards it.
    pub stepped: bool,
}

impl Line {
    /// A solid line through `points`.
    pub fn new(label: impl Into<String>, colour: Colour, points: Vec<(f64, f64)>) -> Line {
        Line { label: label.into(), colour, stroke: Stroke::Solid, pieces: vec![points], stepped: false }
    }

    /// The same, interrupted wherever two points are more than `gap` apart.
    #[must_use]
    pub fn broken(self, gap: f64) -> Line {
        let near = |a: &(f64, f64), b: &(f64, f64)| b.0 - a.0 <= gap;
        let pieces = self.pieces.iter().flat_map(|piece| piece.chunk_by(near)).map(<[_]>::to_vec);
        Line { pieces: pieces.collect(), ..self }
    }

    /// The same without what lies above `most`, where an axis ends.
    #[must_use]
    pub fn below(self, most: f64) -> Line {
        let within = |point: &(f64, f64)| point.1 <= most;
        let pieces = self.pieces.iter().flat_map(|piece| piece.chunk_by(|a, b| within(a) == within(b)));
        let pieces = pieces.filter(|piece| within(&piece[0])).map(<[_]>::to_vec).collect();
        Line { pieces, ..self }
    }

    /// The same with another stroke.
    #[must_use]
    pub fn stroke(self, stroke: Stroke) -> Line {
        Line { stroke, ..self }
    }

    /// The same, holding values.
    #[must_use]
    pub fn stepped(self) -> Line {
        Line { stepped: true, ..self }
    }

    /// True if there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.pieces.iter().all(Vec::is_empty)
    }
}

/// A chart of lines over one axis, drawn as SVG.
#[derive(Clone, Debug)]
pub struct Chart {
    /// The chart's heading.
    pub title: String,
    /// One sentence on how to read it.
    pub caption: String,
    /// What runs to the right, with unit; empty if that is said by another chart below this one.
    pub x_label: Cow<'static, str>,
    /// What runs upwards, with unit.
    pub y_label: Cow<'static, str>,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// A shaded area from the bottom up to these points, with its label.
    pub shade: Option<(String, Vec<(f64, f64)>)>,
    /// The lines, in the order they are drawn.
    pub lines: Vec<Line>,
    /// Height in the chart's units.
    pub height: f64,
}

impl Chart {
    /// Room above the frame, for what runs upwards.
    pub(crate) const TOP: f64 = 24.0;
    /// What the numbers below the frame add to the height of a chart without them.
    pub(crate) const FOOT: f64 = 26.0;

    /// Where the frame ends.
    pub(crate) fn bottom(&self) -> f64 {
        self.height - if self.x_label.is_empty() { BARE } else { BARE + Chart::FOOT }
    }

    /// The chart as an HTML figure, legend included.
    pub fn render(&self) -> String {
        let mut out = String::new();
        let _ = write!(out, "<figure class=\"card\"><figcaption><h3>{}</h3>", escape(&self.title));
        if !self.caption.is_empty() {
            let _ = write!(out, "<p>{}</p>", escape(&self.caption));
        }
        out.push_str("</figcaption>");
        out.push_str(&self.legend());
        out.push_str(&self.svg_with(""));
        out.push_str("</figure>\n");
        out
    }

    fn legend(&self) -> String {
        let shade = self.shade.iter().map(|(label, _)| ("shade", "shade", label.as_str()));
        let lines = self.lines.iter().filter(|line| !line.is_empty());
        let lines = lines.map(|line| (line.colour.class(), line.stroke.class(), line.label.as_str()));
        let mut items: Vec<_> = shade.chain(lines).collect();
        items.dedup_by(|a, b| a.2 == b.2);
        let mut out = String::from("<div class=\"legend\">");
        for (colour, stroke, label) in items {
            let _ = write!(
                out,
                "<span class=\"{colour}\"><svg width=\"26\" height=\"10\" aria-hidden=\"true\">{}</svg>{}</span>",
                if colour == "shade" {
                    "<rect class=\"shade\" width=\"26\" height=\"10\" rx=\"2\"/>".to_owned()
                } else {
                    format!("<polyline class=\"{stroke}\" points=\"1,5 25,5\"/>")
                },
                escape(label)
            );
        }
        out.push_str("</div>");
        out
    }

    /// The chart alone, with something drawn over it.
    pub(crate) fn svg_with(&self, above: &str) -> String {
        let bottom = self.bottom();
        let log = |axis: &Axis| if axis.spacing == Spacing::Log { "log" } else { "linear" };
        let mut out = format!(
            "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{}\" \
             data-box=\"{LEFT} {TOP} {} {bottom}\" data-x=\"{} {} {}\" data-y=\"{} {} {}\" data-xl=\"{}\" data-yl=\"{}\">",
            self.height,
            escape(&format!("{}. {}", self.title, self.caption)),
            WIDTH - RIGHT,
            self.x.low,
            self.x.high,
            log(&self.x),
            self.y.low,
            self.y.high,
            log(&self.y),
            escape(&self.x_label),
            escape(&self.y_label),
        );
        self.draw(&mut out);
        out.push_str(above);
        out.push_str("</svg>");
        out
    }

    /// Everything inside the chart's frame.
    pub(crate) fn draw(&self, out: &mut String) {
        if let Some((_, points)) = &self.shade {
            let _ = write!(out, "<path class=\"shade\" d=\"{}\"/>", self.area(points));
        }
        self.draw_axes(out);
        for line in &self.lines {
            self.draw_line(out, line);
        }
    }

    fn draw_axes(&self, out: &mut String) {
        let (right, bottom) = (WIDTH - RIGHT, self.bottom());
        self.y.ticks(5.0).into_iter().for_each(|tick| self.draw_y_tick(out, tick));
        let ticks = self.x.ticks(10.0);
        for (i, &tick) in ticks.iter().enumerate() {
            self.draw_x_tick(out, tick, i + 1 == ticks.len());
        }
        let _ = write!(
            out,
            "<line class=\"base\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\"/>"
        );
        if !self.x_label.is_empty() {
            let (y, x_label) = (self.height - 3.0, escape(&self.x_label));
            let _ = write!(out, "<text class=\"name end\" x=\"{right}\" y=\"{y}\">{x_label}</text>");
        }
        let (y, y_label) = (TOP - 12.0, escape(&self.y_label));
        let _ = write!(out, "<text class=\"name\" x=\"0\" y=\"{y}\">{y_label}</text>");
    }

    fn draw_y_tick(&self, out: &mut String, tick: f64) {
        let (y, right) = (self.y_of(tick), WIDTH - RIGHT);
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"tick end\" x=\"{}\" y=\"{:.1}\">{}</text>",
            LEFT - 8.0,
            y + 4.0,
            short(tick)
        );
    }

    fn draw_x_tick(&self, out: &mut String, tick: f64, last: bool) {
        let (x, bottom) = (self.x_of(tick), self.bottom());
        // The number under the right edge must not stick out.
        let place = if last && x > WIDTH - RIGHT - 12.0 { "end" } else { "mid" };
        let _ = write!(
            out,
            "<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{bottom}\" y2=\"{}\"/>",
            bottom + 4.0
        );
        if self.x_label.is_empty() {
            return;
        }
        let _ = write!(
            out,
            "<text class=\"tick {place}\" x=\"{x:.1}\" y=\"{}\">{}</text>",
            bottom + 17.0,
            short(tick)
        );
    }

    fn draw_line(&self, out: &mut String, line: &Line) {
        let (colour, stroke) = (line.colour.class(), line.stroke.class());
        let _ = write!(out, "<g class=\"{colour}\" data-label=\"{}\">", escape(&line.label));
        for piece in line.pieces.iter().filter(|piece| !piece.is_empty()) {
            let _ =
                write!(out, "<polyline class=\"{stroke}\" points=\"{}\"/>", self.points(piece, line.stepped));
        }
        out.push_str("</g>");
    }

    fn points(&self, points: &[(f64, f64)], stepped: bool) -> String {
        let mut text = String::new();
        let mut before = None;
        // Thinned where it is drawn, not where it was measured: the two differ on a logarithmic axis.
        let places: Vec<(f64, f64)> = points.iter().map(|&(x, y)| (self.x_of(x), self.y_of(y))).collect();
        for (x, y) in decimate(&places, COLUMNS) {
            if let Some(before) = before.filter(|_| stepped) {
                let _ = write!(text, "{x:.1},{before:.1} ");
            }
            let _ = write!(text, "{x:.1},{y:.1} ");
            before = Some(y);
        }
        text.pop();
        text
    }

    /// The area under stepped `points`.
    fn area(&self, points: &[(f64, f64)]) -> String {
        let (Some(first), Some(last)) = (points.first(), points.last()) else { return String::new() };
        let bottom = self.bottom();
        let line = self.points(points, true);
        format!("M{:.1},{bottom} L{line} L{:.1},{bottom} Z", self.x_of(first.0), self.x_of(last.0))
    }

    /// Where `value` lies along the width.
    pub(crate) fn x_of(&self, value: f64) -> f64 {
        LEFT + self.x.place(value) * (WIDTH - RIGHT - LEFT)
    }

    fn y_of(&self, value: f64) -> f64 {
        let bottom = self.bottom();
        bottom - self.y.place(value) * (bottom - TOP)
    }
}

/// Horizontal place of `x` on an axis of a chart's width, for strips drawn above or below charts.
pub fn strip_place(axis: &Axis, x: f64) -> f64 {
    LEFT + axis.place(x) * (WIDTH - RIGHT - LEFT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(lines: Vec<Line>) -> Chart {
        Chart {
            title: "Delay <of> frames".into(),
            caption: String::new(),
            x_label: "seconds".into(),
            y_label: "ms".into(),
            x: Axis::linear(0.0, 10.0),
            y: Axis::from_zero(100.0),
            shade: None,
            lines,
            height: 260.0,
        }
    }

    #[test]
    fn text_is_escaped_and_points_are_inside() {
        let html = chart(vec![Line::new("a&b", Colour::Ink, vec![(0.0, 0.0), (10.0, 1e9)])]).render();
        assert!(html.contains("Delay &lt;of&gt; frames") && html.contains("a&amp;b"));
        assert!(html.contains("points=\"58.0,226.0 946.0,24.0\""), "{html}");
    }

    #[test]
    fn a_hundred_thousand_points_stay_small() {
        let points = (0..100_000).map(|i| (f64::from(i) / 1e4, f64::from(i % 97))).collect();
        let html = chart(vec![Line::new("a", Colour::Ink, points)]).render();
        assert!(html.len() < 16_000, "{}", html.len());
    }

    #[test]
    fn what_lies_above_the_axis_is_left_out() {
        let points = vec![(0.0, 1.0), (1.0, 9.0), (2.0, 2.0), (3.0, 3.0)];
        let line = Line::new("a", Colour::Ink, points).below(5.0);
        assert_eq!(line.pieces, [vec![(0.0, 1.0)], vec![(2.0, 2.0), (3.0, 3.0)]]);
    }

    #[test]
    fn gaps_stay_empty() {
        let points = vec![(0.0, 1.0), (1.0, 1.0), (5.0, 1.0), (6.0, 1.0)];
        let line = Line::new("a", Colour::Ink, points).broken(1.5);
        assert_eq!(line.pieces, [[(0.0, 1.0), (1.0, 1.0)], [(5.0, 1.0), (6.0, 1.0)]]);
    }

    #[test]
    fn steps_hold_their_value() {
        let html =
            chart(vec![Line::new("a", Colour::Ink, vec![(0.0, 0.0), (5.0, 100.0)]).stepped()]).render();
        assert!(html.contains("points=\"58.0,226.0 502.0,226.0 502.0,24.0\""), "{html}");
    }
}
