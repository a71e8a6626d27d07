//! Throughput against delay as Pantheon draws it (Yan et al., USENIX ATC 2018): the delay grows to the left,
//! so that better is up and to the right; an ellipse of one standard deviation of the runs around their mean.

use std::fmt::Write;

use report::{Axis, Spacing, escape, short};

use super::series::{Legend, mark};
use super::value;
use crate::figures::{KEY, KeyFigure};
use crate::groups::Group;
use crate::table::Table;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 460.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = 414.0;
/// Groups up to which each is named on the chart.
const NAMED: usize = 24;
/// Of its place, height of a name and width of one of its letters.
const LETTER: (f64, f64) = (14.0, 6.7);

/// The charts: of packets, and of frames where there are any.
pub(super) fn render(table: &Table, groups: &[Group], legend: &Legend) -> String {
    let delays = KEY.iter().filter(|key| ["owd_ms_p95", "frame_delay_ms_p95"].contains(&key.name));
    delays.map(|delay| chart(table, groups, legend, delay)).collect()
}

/// A group as it is drawn.
struct Spot<'a> {
    group: &'a Group,
    /// Where each seed lies on paper.
    seeds: Vec<(f64, f64)>,
    /// The mean's place on paper.
    mean: (f64, f64),
}

impl Spot<'_> {
    /// What the mean and the ellipse take of the paper: left, top, right, bottom.
    fn covers(&self) -> [f64; 4] {
        let (a, b, turn) = ellipse(&self.seeds).unwrap_or_default();
        let (sin, cos) = turn.to_radians().sin_cos();
        let (wide, high) = ((a * cos).hypot(b * sin).max(6.0), (a * sin).hypot(b * cos).max(6.0));
        let (x, y) = self.mean;
        [x - wide, y - high, x + wide, y + high]
    }
}

fn chart(table: &Table, groups: &[Group], legend: &Legend, delay: &KeyFigure) -> String {
    let of = |group: &Group| -> Vec<(f64, f64)> {
        let pairs = group.pairs(delay.name, "throughput_bps");
        pairs.into_iter().map(|(x, y)| (x, y / 1e6)).collect()
    };
    let points: Vec<Vec<(f64, f64)>> = groups.iter().map(of).collect();
    let all = || points.iter().flatten();
    if all().next().is_none() {
        return String::new();
    }
    let axes = (around(all().map(|point| point.0)), around(all().map(|point| point.1)));
    let place = |&(x, y): &(f64, f64)| {
        (WIDTH - RIGHT - axes.0.place(x) * (WIDTH - RIGHT - LEFT), BOTTOM - axes.1.place(y) * (BOTTOM - TOP))
    };
    let spot = |(group, points): (_, &Vec<(f64, f64)>)| {
        let seeds: Vec<(f64, f64)> = points.iter().map(place).collect();
        (!seeds.is_empty()).then(|| Spot { group, mean: mean(&seeds), seeds })
    };
    let spots: Vec<Spot<'_>> = groups.iter().zip(&points).filter_map(spot).collect();
    let mut out = format!(
        "<figure class=\"card\"><figcaption><h3>Throughput against {}</h3><p>A point is the mean over seeds of one flow under \
         one setting, the ellipse one standard deviation, a faint dot a run. Better is up and to the right.</p></figcaption>{}\
         <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Throughput against {}\">",
        delay.heading,
        legend.render(&legend.lines(groups)),
        delay.heading
    );
    out.push_str(&frame(&axes, delay));
    for spot in &spots {
        out.push_str(&drawn(table, spot, legend, delay));
    }
    if spots.len() <= NAMED {
        out.push_str(&names(table, &spots));
    }
    out + "</svg></figure>\n"
}

/// An axis around some values, with some room; logarithmic where the largest is more than twelve times the
/// smallest.
fn around(values: impl Iterator<Item = f64>) -> Axis {
    let (low, high) = values.fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)));
    if low > 0.0 && high > 12.0 * low {
        return Axis { low: low / 1.3, high: high * 1.3, spacing: Spacing::Log };
    }
    // Values that hardly differ should not look as if they did.
    let room = ((high - low) * 0.12).max(high.abs() * 0.02).max(1e-9);
    Axis::linear((low - room).max(0.0), high + room)
}

fn mean(points: &[(f64, f64)]) -> (f64, f64) {
    let sum = points.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
    (sum.0 / points.len() as f64, sum.1 / points.len() as f64)
}

fn frame(axes: &(Axis, Axis), delay: &KeyFigure) -> String {
    let (x, y) = axes;
    let right = WIDTH - RIGHT;
    let mut out = String::new();
    for tick in y.ticks(6.0) {
        let at = BOTTOM - y.place(tick) * (BOTTOM - TOP);
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text class=\"tick end\" x=\"{}\" y=\"{:.1}\">{}</text>",
            LEFT - 8.0,
            at + 4.0,
            short(tick)
        );
    }
    for tick in x.ticks(10.0) {
        let at = right - x.place(tick) * (right - LEFT);
        let _ = write!(
            out,
            "<line class=\"mark\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{BOTTOM}\" y2=\"{}\"/>\
             <text class=\"tick mid\" x=\"{at:.1}\" y=\"{}\">{}</text>",
            BOTTOM + 4.0,
            BOTTOM + 17.0,
            short(tick)
        );
    }
    let _ = write!(
        out,
        "<line class=\"base\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{BOTTOM}\" y2=\"{BOTTOM}\"/>\
         <text class=\"name\" x=\"0\" y=\"{}\">throughput, Mbit/s</text>\
         <text class=\"name end\" x=\"{right}\" y=\"{}\">{}, ms (grows to the left)</text>\
         <text class=\"better end\" x=\"{}\" y=\"{}\">better ↗</text>",
        TOP - 13.0,
        HEIGHT - 8.0,
        delay.heading,
        right - 6.0,
        TOP + 14.0
    );
    out
}

fn drawn(table: &Table, spot: &Spot<'_>, legend: &Legend, delay: &KeyFigure) -> String {
    let (x, y) = spot.mean;
    let mut out = format!("<g class=\"{}\">", legend.colour(spot.group).class());
    if let Some((a, b, turn)) = ellipse(&spot.seeds) {
        let _ = write!(
            out,
            "<ellipse class=\"ellipse\" cx=\"{x:.1}\" cy=\"{y:.1}\" rx=\"{a:.1}\" ry=\"{b:.1}\" \
             transform=\"rotate({turn:.1} {x:.1} {y:.1})\"/>"
        );
    }
    if spot.seeds.len() > 1 {
        for (x, y) in &spot.seeds {
            let _ = write!(out, "<circle class=\"seed\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2\"/>");
        }
    }
    let throughput = spot.group.figure("throughput_bps").scaled(1e-6);
    let told = format!(
        "{} {}: {} Mbit/s, {} ms",
        spot.group.flow,
        table.plan().name(spot.group.setting),
        super::interval(&throughput),
        super::interval(&spot.group.figure(delay.name))
    );
    let mark = mark(spot.group.flow_number, spot.mean, 5.0);
    let _ = write!(out, "<g>{mark}<title>{}</title></g></g>", escape(&told));
    out
}

/// Half axes and turn in degrees of the ellipse of one standard deviation of some points on paper; none of
/// fewer than three, which lie on a line.
fn ellipse(points: &[(f64, f64)]) -> Option<(f64, f64, f64)> {
    if points.len() < 3 {
        return None;
    }
    let (mx, my) = mean(points);
    let sum = |of: &dyn Fn(f64, f64) -> f64| points.iter().map(|&(x, y)| of(x - mx, y - my)).sum::<f64>();
    let freedom = (points.len() - 1) as f64;
    let (xx, yy, xy) =
        (sum(&|x, _| x * x) / freedom, sum(&|_, y| y * y) / freedom, sum(&|x, y| x * y) / freedom);
    let (middle, spread) = ((xx + yy) / 2.0, ((xx - yy) / 2.0).hypot(xy));
    let turn = 0.5 * (2.0 * xy).atan2(xx - yy);
    Some(((middle + spread).sqrt(), (middle - spread).max(0.0).sqrt(), turn.to_degrees()))
}

/// The names of the spots beside them, each where no other name or mean is; one without such a place is left
/// out.
fn names(table: &Table, spots: &[Spot<'_>]) -> String {
    let several = spots.iter().any(|spot| spot.group.flow_number > 1);
    let mut taken: Vec<[f64; 4]> = spots.iter().map(Spot::covers).collect();
    let mut out = String::new();
    for spot in spots {
        let name = name(table, spot.group, several);
        if name.is_empty() {
            continue;
        }
        let (x, y) = spot.mean;
        let [left, top, right, bottom] = spot.covers();
        let width = LETTER.1 * name.chars().count() as f64;
        let middle = x - width / 2.0;
        let places = [
            (right + 4.0, y + 4.0),
            (left - 4.0 - width, y + 4.0),
            (middle, top - 5.0),
            (middle, bottom + 14.0),
        ];
        let boxed = |(x, y): (f64, f64)| [x, y - LETTER.0 + 3.0, x + width, y + 3.0];
        let inside = |b: &[f64; 4]| b[0] > LEFT && b[2] < WIDTH - RIGHT && b[1] > TOP + 16.0 && b[3] < BOTTOM;
        let free =
            |b: &[f64; 4]| !taken.iter().any(|t| t[0] < b[2] && b[0] < t[2] && t[1] < b[3] && b[1] < t[3]);
        let found = places.into_iter().find(|&place| inside(&boxed(place)) && free(&boxed(place)));
        if let Some((x, y)) = found {
            let _ = write!(out, "<text class=\"label\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escape(&name));
            taken.push(boxed((x, y)));
        }
    }
    out
}

/// A group for people who see the axes' names elsewhere: its values, and its flow where there are several.
fn name(table: &Table, group: &Group, several: bool) -> String {
    let mut parts: Vec<String> = table.plan().cells(group.setting).iter().map(value).collect();
    if several || parts.is_empty() {
        parts.push(group.flow.clone());
    }
    parts.dedup();
    parts.join(" · ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ellipse_lies_along_what_varies_together() {
        let points = [(0.0, 0.0), (1.0, 1.0), (2.0, 2.0), (3.0, 3.0)];
        let (a, b, turn) = ellipse(&points).unwrap();
        // Variances of 5/3 along both axes: 10/3 along the diagonal, none across.
        assert!((a - (10.0f64 / 3.0).sqrt()).abs() < 1e-9 && b < 1e-6 && (turn - 45.0).abs() < 1e-9);
        let (a, b, turn) = ellipse(&[(0.0, 0.0), (0.0, 4.0), (1.0, 2.0), (-1.0, 2.0)]).unwrap();
        assert!(a > b && (turn.abs() - 90.0).abs() < 1e-9, "{a} {b} {turn}");
        assert_eq!(ellipse(&points[..2]), None);
    }

    #[test]
    fn axes_leave_room_and_are_logarithmic_where_values_are_far_apart() {
        let axis = around([10.0, 20.0].into_iter());
        assert!(axis.low < 10.0 && axis.high > 20.0 && axis.spacing == Spacing::Linear);
        assert_eq!(around([10.0, 500.0].into_iter()).spacing, Spacing::Log);
        let same = around([10.0, 10.0].into_iter());
        assert!(same.low < 10.0 && same.high > 10.0);
    }
}
