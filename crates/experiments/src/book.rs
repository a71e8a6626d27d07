//! The book: every experiment with its claims, our curves and the paper's numbers, as one page that needs
//! nothing else.

use std::fmt::Write;

use crate::execute::Results;
use crate::file::{Experiment, ExperimentError, Plot};
use crate::papers::Paper;
use crate::probe::Probe;
use crate::real::{RealResults, RealRow};
use crate::rows::{Verdict, VerdictRow, check, natural};
use crate::value::Value;
use report::{Axis, Chart, Colour, Line, Spacing, Stroke, escape, page, short};

/// The page; what was run for real, if there is any, comes last.
///
/// # Errors
/// [`ExperimentError`] if a row's formula can't be evaluated.
pub fn book(
    experiments: &[Experiment],
    results: &[Results],
    real: Option<&RealResults>,
    commit: &str,
) -> Result<String, ExperimentError> {
    let (mut all, mut chapters, mut contents) = (Vec::new(), String::new(), String::new());
    let mut order: Vec<usize> = (0..experiments.len()).collect();
    order.sort_by_key(|&i| (&experiments[i].seed, experiments[i].rows.first().map(|row| natural(&row.id))));
    let mut document = "";
    for i in order {
        let (experiment, results) = (&experiments[i], &results[i]);
        if experiment.seed != document {
            document = &experiment.seed;
            let _ = writeln!(
                chapters,
                "<h1>{}</h1>",
                escape(Paper::find(document).map_or(document, |paper| paper.title))
            );
        }
        let rows = check(experiment, results)?;
        let held = rows.iter().filter(|row| row.verdict == Verdict::Held).count();
        let _ = write!(
            contents,
            "<li><a href=\"#{}\">{}</a> \u{2014} {}: {held} of {} claims hold</li>",
            escape(&experiment.id),
            escape(&experiment.title),
            escape(&experiment.source),
            rows.len()
        );
        chapters.push_str(&chapter(experiment, results, &rows, real));
        all.extend(rows);
    }
    let tally = |verdict| all.iter().filter(|row| row.verdict == verdict).count();
    let mut body = format!(
        "<header><p class=\"brand\">Framewire</p><h1>The papers&rsquo; experiments</h1>\
         <p class=\"lead\">Every figure and table with our curves, and the papers&rsquo; printed numbers beside them. \
         {} claims hold, {} do not, {} could not be run here. Misses are explained in docs/reproduction.md.</p>\
         <p class=\"chips\"><span class=\"chip\"><b>commit</b>{}</span></p></header>\n\
         <div class=\"card\"><ol>{contents}</ol></div>\n",
        tally(Verdict::Held),
        tally(Verdict::Missed),
        tally(Verdict::Skipped),
        escape(commit)
    );
    body.push_str(&chapters);
    body.push_str(&real.map(RealResults::chapter).unwrap_or_default());
    Ok(page("The papers' experiments", &body))
}

fn chapter(
    experiment: &Experiment,
    results: &Results,
    rows: &[VerdictRow],
    real: Option<&RealResults>,
) -> String {
    let mut text = format!(
        "<h2 id=\"{0}\">{1}</h2><p><b>{2}.</b> {3}</p>\n",
        escape(&experiment.id),
        escape(&experiment.title),
        escape(&experiment.source),
        escape(experiment.about.trim())
    );
    let real = real.filter(|real| real.experiment == experiment.id).map(RealResults::rows);
    text.push_str(&claims(rows, &real.unwrap_or_default()));
    for plot in &experiment.plots {
        if let Some(chart) = chart(experiment, results, plot) {
            text.push_str(&chart.render());
        }
    }
    text
}

/// Claims with what was measured, and under each what was measured of it for real.
fn claims(rows: &[VerdictRow], real: &[RealRow]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "<div class=\"card scroll\"><table><thead><tr><th>claim</th><th></th><th>measured</th><th>band</th><th>the paper</th>\
         </tr></thead><tbody>",
    );
    for row in rows {
        let verdict = match row.verdict {
            Verdict::Held => "<span style=\"color:var(--c2)\">held</span>",
            Verdict::Missed => "<b style=\"color:var(--c1)\">missed</b>",
            Verdict::Skipped => "skipped",
        };
        let measured = row.measured.map_or("\u{2013}".to_owned(), short);
        let unit = if row.unit.is_empty() { String::new() } else { format!(" {}", escape(&row.unit)) };
        let also = row.also.as_ref().map_or(String::new(), |also| {
            format!("<details><summary>and a condition</summary><code>{}</code></details>", escape(also))
        });
        let _ = write!(
            text,
            "<tr><th>{}</th><td>{verdict}</td><td>{measured}{unit}</td><td style=\"white-space:normal;max-width:22em\">{}</td>\
             <td style=\"text-align:left;white-space:normal\">{}</td></tr>",
            escape(&row.id),
            escape(&row.band) + also.as_str(),
            escape(&row.claimed)
        );
        for RealRow { what, real, simulated, .. } in real.iter().filter(|real| real.id == row.id) {
            let _ = write!(
                text,
                "<tr><th></th><td>for real</td><td>{}</td><td colspan=\"2\" style=\"text-align:left\">{}; the same runs in \
                 the simulator: {}</td></tr>",
                short(*real),
                escape(what),
                short(*simulated)
            );
        }
    }
    text.push_str("</tbody></table></div>\n");
    text
}

fn chart(experiment: &Experiment, results: &Results, plot: &Plot) -> Option<Chart> {
    let shown = lines(experiment, results, plot);
    let points = || shown.iter().flat_map(|line| line.pieces.iter().flatten());
    let (mut low, mut high, mut top) = (f64::INFINITY, f64::NEG_INFINITY, 0.0f64);
    for &(x, y) in points().filter(|(x, y)| x.is_finite() && y.is_finite()) {
        (low, high, top) = (low.min(x), high.max(x), top.max(y));
    }
    (low < high && !(plot.log && low <= 0.0)).then(|| Chart {
        title: plot.title.clone(),
        caption: if plot.paper.is_empty() {
            String::new()
        } else {
            "Dotted: the paper's printed numbers.".into()
        },
        x_label: plot.x_label.clone().into(),
        y_label: plot.y_label.clone().into(),
        x: if plot.log { Axis { low, high, spacing: Spacing::Log } } else { Axis::linear(low, high) },
        y: Axis::from_zero(top),
        shade: None,
        lines: shown,
        height: 280.0,
    })
}

fn lines(experiment: &Experiment, results: &Results, plot: &Plot) -> Vec<Line> {
    let wanted = |labels: &[String]| {
        experiment
            .axes
            .iter()
            .zip(labels)
            .all(|(axis, label)| plot.only.get(&axis.name).is_none_or(|only| only.contains(label)))
    };
    let along = plot.x.as_ref().and_then(|name| experiment.axes.iter().position(|axis| axis.name == *name));
    let mut ours: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    let mut pools: Vec<(String, Vec<f64>)> = Vec::new();
    for (labels, seeds) in results.points.iter().filter(|(labels, _)| wanted(labels)) {
        let values: Vec<Value> = seeds.iter().filter_map(|seed| seed.get(&plot.y).cloned()).collect();
        match (Value::mean(&values), along) {
            (Some(Value::Curve(points)), None) => ours.push((labels.join(" "), points)),
            (Some(Value::Number(y)), Some(axis)) => {
                let Some(x) = leading_number(&labels[axis]).filter(|_| y.is_finite()) else { continue };
                of_name(&mut ours, without(labels, axis)).push((x, y));
            }
            (Some(Value::List(values)), Some(axis)) => {
                of_name(&mut pools, without(labels, axis)).extend(values);
            }
            _ => {}
        }
    }
    ours.extend(pools.into_iter().map(|(name, values)| (name, Probe::distribution(values))));
    let ours =
        ours.into_iter().enumerate().map(|(i, (name, points))| Line::new(name, Colour::Palette(i), points));
    let paper = plot.paper.iter().enumerate().map(|(i, (name, points))| {
        Line::new(format!("paper: {name}"), Colour::Palette(i), points.clone()).stroke(Stroke::Dotted)
    });
    ours.chain(paper).collect()
}

/// What belongs to a line, by its name.
fn of_name<T>(lines: &mut Vec<(String, Vec<T>)>, name: String) -> &mut Vec<T> {
    let place = lines.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
        lines.push((name, Vec::new()));
        lines.len() - 1
    });
    &mut lines[place].1
}

/// A point's labels but the one on `axis`.
fn without(labels: &[String], axis: usize) -> String {
    let others = labels.iter().enumerate().filter(|(i, _)| *i != axis).map(|(_, label)| label.as_str());
    others.collect::<Vec<_>>().join(" ")
}

/// `40` of `40ms`: where a label stands on an axis.
fn leading_number(label: &str) -> Option<f64> {
    let end = label.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-').unwrap_or(label.len());
    label[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::*;

    #[test]
    fn a_list_becomes_its_distribution_over_the_axis() {
        let text = r#"
title = "Lists"
seed = "ours"
source = "nowhere"
about = "None."
[scenario]
duration = "1s"
[[axis]]
name = "trace"
points = [{ label = "1", set = {} }, { label = "2", set = {} }]
[[axis]]
name = "scheme"
points = [{ label = "a", set = {} }, { label = "b", set = {} }]
[metrics]
delays = "[]"
[[plot]]
title = "Delays"
x = "trace"
y = "delays"
log = true
x_label = "ms"
y_label = "share"
"#;
        let experiment = Experiment::parse(text, Path::new("lists.toml")).unwrap();
        let point = |trace: &str, scheme: &str, values: std::ops::RangeInclusive<u32>| {
            let list = Value::List(values.map(f64::from).collect());
            (vec![trace.to_owned(), scheme.to_owned()], vec![BTreeMap::from([("delays".to_owned(), list)])])
        };
        let points = vec![
            point("1", "a", 1..=50),
            point("1", "b", 7..=7),
            point("2", "a", 51..=100),
            point("2", "b", 9..=9),
        ];
        let results = Results { points, hashes: Vec::new(), seconds: 0.0, missing: None };
        let lines = lines(&experiment, &results, &experiment.plots[0]);
        let names: Vec<&str> = lines.iter().map(|line| line.label.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(lines[0].pieces[0][24], (25.0, 0.25));
        assert_eq!(lines[0].pieces[0][99], (100.0, 1.0));
        let chart = chart(&experiment, &results, &experiment.plots[0]).unwrap();
        assert_eq!((chart.x.low, chart.x.high, chart.x.spacing), (1.0, 100.0, Spacing::Log));
    }
}
