//! What tells groups apart on charts: colour for the controller, stroke for the flow.

use std::fmt::Write;

use report::{Colour, Stroke, escape};

use crate::groups::Group;
use crate::table::Table;

/// What each group looks like.
pub(super) struct Legend {
    /// The axis of the first controller that is varied.
    pub axis: Option<usize>,
    /// The controllers, in the order of their colours.
    keys: Vec<String>,
    /// Each group's key.
    of: Vec<(usize, usize, usize)>,
    /// What each flow is called, by its place.
    flows: Vec<String>,
}

impl Legend {
    /// Colours go by the controller that is varied; where none is, by each flow's own.
    pub fn of(table: &Table, groups: &[Group]) -> Legend {
        let plan = table.plan();
        let axis = plan.axes().iter().position(|axis| axis.is_controller());
        let mut keys: Vec<String> = Vec::new();
        let mut of = Vec::new();
        for group in groups {
            let key = match axis {
                Some(at) => plan.axes()[at].values[plan.places(group.setting)[at]].clone(),
                None => group.cc.clone(),
            };
            let place = keys.iter().position(|known| *known == key).unwrap_or(keys.len());
            if place == keys.len() {
                keys.push(key);
            }
            of.push((group.setting, group.flow_number, place));
        }
        let most = groups.iter().map(|group| group.flow_number).max().unwrap_or(0);
        let flows = (1..=most).map(|number| called(groups, number)).collect();
        Legend { axis, keys, of, flows }
    }

    fn key(&self, group: &Group) -> usize {
        let at =
            self.of.binary_search_by_key(&(group.setting, group.flow_number), |known| (known.0, known.1));
        at.map_or(0, |at| self.of[at].2)
    }

    pub fn colour(&self, group: &Group) -> Colour {
        Colour::Palette(self.key(group))
    }

    /// Which line of a chart the group is on: those of a controller and a flow.
    pub fn line(&self, group: &Group) -> (usize, usize) {
        (self.key(group), group.flow_number)
    }

    /// A line's look.
    pub fn look(&self, line: (usize, usize)) -> (Colour, Stroke) {
        let strokes = [Stroke::Solid, Stroke::Dashed, Stroke::Dotted];
        (Colour::Palette(line.0), strokes[(line.1 - 1).min(2)])
    }

    /// What a line is called.
    pub fn label(&self, line: (usize, usize)) -> String {
        let key = &self.keys[line.0];
        match self.flows.as_slice() {
            [_] => key.clone(),
            flows if self.axis.is_some() => format!("{}, with {key}", flows[line.1 - 1]),
            flows => flows[line.1 - 1].clone(),
        }
    }

    /// The legend of some lines.
    pub fn render(&self, lines: &[(usize, usize)]) -> String {
        let mut out = "<div class=\"legend\">".to_owned();
        for &line in lines {
            let (colour, stroke) = self.look(line);
            let _ = write!(
                out,
                "<span class=\"{}\"><svg width=\"26\" height=\"10\" aria-hidden=\"true\"><polyline class=\"{}\" \
                 points=\"1,5 25,5\"/>{}</svg>{}</span>",
                colour.class(),
                class(stroke),
                mark(line.1, (13.0, 5.0), 4.0),
                escape(&self.label(line))
            );
        }
        out + "</div>"
    }

    /// All lines there are, in the order of their first group.
    pub fn lines(&self, groups: &[Group]) -> Vec<(usize, usize)> {
        let mut lines = Vec::new();
        for line in groups.iter().map(|group| self.line(group)) {
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        lines
    }
}

/// A flow's name if it has one throughout, else its place.
fn called(groups: &[Group], number: usize) -> String {
    let mut names = groups.iter().filter(|group| group.flow_number == number).map(|group| &group.flow);
    match names.next() {
        Some(first) if names.all(|name| name == first) => first.clone(),
        _ => format!("flow {number}"),
    }
}

/// The class of a stroke in a page's style.
pub(super) fn class(stroke: Stroke) -> &'static str {
    match stroke {
        Stroke::Solid => "solid",
        Stroke::Faint => "faint",
        Stroke::Dashed => "dashed",
        Stroke::Dotted => "dotted",
    }
}

/// The mark of a flow by its place: a disc for the first, a square for the second, a diamond for others.
pub(super) fn mark(flow_number: usize, (x, y): (f64, f64), size: f64) -> String {
    if flow_number == 1 {
        return format!("<circle class=\"point\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{size}\"/>");
    }
    let (left, top, side) = (x - size * 0.9, y - size * 0.9, size * 1.8);
    let turn = if flow_number == 2 { 0 } else { 45 };
    format!(
        "<rect class=\"point\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{side:.1}\" height=\"{side:.1}\" \
         transform=\"rotate({turn} {x:.1} {y:.1})\"/>"
    )
}
