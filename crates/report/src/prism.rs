//! The page about Prism's decision tables: the curves of the thesis' Fig. 4.1, 4.3, 4.4, 4.10 and 4.16 for
//! the clips that tables were made from.

use prism::study::{Course, Errors, Gap, SMALL, Study, at_share};
use prism::{About, Table};

use crate::axis::{Axis, percent};
use crate::chart::{Chart, Colour, Line, Stroke};
use crate::{escape, page};

/// A style that the page shows: what was studied, and its table.
pub struct Style<'a> {
    /// What was found out about its clips.
    pub study: &'a Study,
    /// The table that was made.
    pub table: &'a Table,
}

/// The page of these styles and of the table that was made from all of their clips.
pub fn tables(styles: &[Style<'_>], global: &Table) -> String {
    let mut body = head(global.about());
    body.push_str(&summary(styles));
    body.push_str(&distortion(styles).render());
    body.push_str(&gap(styles).render());
    for style in styles {
        let name = &style.study.style;
        let insertion = "SSIM of a predicted stream, of the same with a key frame every 15 frames, and of key frames alone, \
                         all at the same rate.";
        body.push_str(
            &course(
                &format!("Key frames in a predicted stream: {name} (Fig. 4.4a)"),
                insertion,
                &style.study.insertion,
            )
            .render(),
        );
        let change = "The rate is doubled at frame 30 and goes back at frame 60. Key frames follow at once, predicted frames \
                      step by step.";
        body.push_str(
            &course(&format!("A change of the rate: {name} (Fig. 4.4b)"), change, &style.study.change)
                .render(),
        );
    }
    body.push_str(&errors(styles).render());
    body.push_str(&by_before(styles).render());
    body.push_str(&nearness(styles).render());
    body.push_str(&by_frames(styles).render());
    page("Prism's decision tables", &body)
}

fn head(about: &About) -> String {
    let chip = |key: &str, value: &str| {
        format!("<span class=\"chip\"><b>{}</b>{}</span>", escape(key), escape(value))
    };
    let chips = [
        chip("encoder", &about.encoder),
        chip("frames after a recovery", &about.horizon.to_string()),
        chip("weight of true losses", &about.weight.to_string()),
        chip("places", &about.starts.to_string()),
    ];
    format!(
        "<header><p class=\"brand\">Framewire</p><h1>Prism&rsquo;s decision tables</h1><p class=\"lead\">What key frames and \
         predicted frames are worth, how well that is predicted, and what a recovery gains that splits its rate between \
         both.</p><p class=\"chips\">{}</p></header>\n",
        chips.concat()
    )
}

fn summary(styles: &[Style<'_>]) -> String {
    let row = |style: &Style<'_>| {
        let (study, errors) = (style.study, &style.study.errors);
        let (model, exponential) = errors.means();
        let cells = [
            escape(&study.style),
            escape(&study.clips.join(", ")),
            percent(Errors::small(&errors.model)),
            format!("{:.2} %", 100.0 * model),
            format!("{:.2} %", 100.0 * exponential),
            percent(at_share(&study.nearness.objective, 0.5)),
            format!("{:.1} %", 100.0 * at_share(&study.nearness.excess_dssim, 0.5)),
        ];
        format!("<tr><td>{}</td></tr>", cells.join("</td><td>"))
    };
    let heads = [
        "style",
        "clips",
        "predictions within 1 %",
        "mean error",
        "of the exponential",
        "objective over the optimum&rsquo;s, median",
        "DSSIM above the optimum&rsquo;s, median",
    ];
    let rows: String = styles.iter().map(row).collect();
    let heads = heads.join("</th><th>");
    format!(
        "<section class=\"card\"><table><thead><tr><th>{heads}</th></tr></thead><tbody>{rows}</tbody></table></section>\n"
    )
}

/// A line for each style that has points.
fn lines(styles: &[Style<'_>], points: impl Fn(&Study) -> Vec<(f64, f64)>) -> Vec<Line> {
    let line = |(index, style): (usize, &Style<'_>)| {
        Line::new(style.study.style.clone(), Colour::Palette(index), points(style.study))
    };
    styles.iter().enumerate().map(line).collect()
}

fn chart(
    title: &str,
    caption: &str,
    labels: (&'static str, &'static str),
    x: Axis,
    lines: Vec<Line>,
) -> Chart {
    let values = lines.iter().flat_map(|line| &line.pieces).flatten().map(|point| point.1);
    let (low, high) =
        values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
    let room = ((high - low) * 0.05).max(1e-3);
    let y = if low > high { Axis::linear(0.0, 1.0) } else { Axis::linear(low - room, high + room) };
    Chart {
        title: title.to_owned(),
        caption: caption.to_owned(),
        x_label: labels.0.into(),
        y_label: labels.1.into(),
        x,
        y,
        shade: None,
        lines,
        height: 280.0,
    }
}

const IN_STEPS: &str = "rate, in steps of the table";

fn steps(study: &Study, gap: &Gap) -> f64 {
    gap.bps as f64 / study.step_bps.max(1) as f64
}

fn most_steps(styles: &[Style<'_>]) -> f64 {
    styles.iter().map(|style| style.table.steps() as f64).fold(1.0, f64::max)
}

fn distortion(styles: &[Style<'_>]) -> Chart {
    let of = |value: fn(&Gap) -> f64| {
        move |study: &Study| study.gaps.iter().map(|gap| (steps(study, gap), value(gap))).collect()
    };
    let mut all = lines(styles, of(|gap| (1.0 - gap.predicted) / 2.0));
    let keys = lines(styles, of(|gap| (1.0 - gap.key) / 2.0));
    all.extend(
        keys.into_iter()
            .map(|line| Line { label: format!("{}, key frames", line.label), ..line }.stroke(Stroke::Dashed)),
    );
    let caption = "Mean DSSIM, (1 - SSIM) / 2, of predicted frames (solid) and of key frames (dashed) of the same rate.";
    chart(
        "Key frames and predicted frames (Fig. 4.1)",
        caption,
        (IN_STEPS, "DSSIM"),
        Axis::linear(0.0, most_steps(styles)),
        all,
    )
}

fn gap(styles: &[Style<'_>]) -> Chart {
    let points =
        |study: &Study| study.gaps.iter().map(|gap| (steps(study, gap), gap.predicted - gap.key)).collect();
    let caption =
        "How much higher the mean SSIM of predicted frames is than that of key frames of the same rate.";
    chart(
        "The difference over the rate (Fig. 4.3)",
        caption,
        (IN_STEPS, "difference of SSIM"),
        Axis::linear(0.0, most_steps(styles)),
        lines(styles, points),
    )
}

fn course(title: &str, caption: &str, course: &Course) -> Chart {
    let frames = course.ssim.iter().map(Vec::len).max().unwrap_or(1);
    let line = |(index, (label, ssim)): (usize, (&String, &Vec<f64>))| {
        let points = ssim.iter().enumerate().map(|(frame, ssim)| (frame as f64, *ssim));
        Line::new(label.clone(), Colour::Palette(index), points.collect())
    };
    let lines = course.labels.iter().zip(&course.ssim).enumerate().map(line).collect();
    chart(title, caption, ("frame", "SSIM"), Axis::linear(0.0, frames as f64), lines)
}

/// Error up to which the distribution is drawn; what is above is the difference to 1.
const WORST_DRAWN: f64 = 0.1;

/// A sorted list as a distribution: value, share that is at most so large.
fn distribution(sorted: &[f64], scale: f64) -> Vec<(f64, f64)> {
    let n = sorted.len().max(1) as f64;
    (1..).zip(sorted).map(|(count, value)| (value * scale, f64::from(count) / n)).collect()
}

fn errors(styles: &[Style<'_>]) -> Chart {
    let of = |list: fn(&Errors) -> &Vec<f64>| {
        move |study: &Study| {
            let errors = list(&study.errors);
            distribution(&errors[..errors.partition_point(|&error| error <= WORST_DRAWN)], 100.0)
                .into_iter()
                .map(|(error, share)| {
                    (
                        error,
                        share * errors.partition_point(|&e| e <= WORST_DRAWN) as f64
                            / errors.len().max(1) as f64,
                    )
                })
                .collect()
        }
    };
    let mut all = lines(styles, of(|errors| &errors.model));
    let naive = lines(styles, of(|errors| &errors.exponential));
    all.extend(
        naive.into_iter().map(|line| {
            Line { label: format!("{}, exponential", line.label), ..line }.stroke(Stroke::Dashed)
        }),
    );
    let caption = format!(
        "Share of frames of random schedules whose predicted SSIM is at most so far from the SSIM of the coded frame: by the \
         model (solid), by exponential relaxation (dashed). {} counts as small.",
        percent(SMALL)
    );
    let x = Axis::linear(0.0, 100.0 * WORST_DRAWN);
    let chart = chart(
        "Errors of predicted quality (Fig. 4.10)",
        &caption,
        ("error of SSIM, %", "share of frames"),
        x,
        all,
    );
    Chart { y: Axis::linear(0.0, 1.0), ..chart }
}

fn gains(points: &[(usize, f64)]) -> Vec<(f64, f64)> {
    points.iter().map(|(x, gain)| (*x as f64, 100.0 * gain)).collect()
}

const LESS: &str = "less DSSIM than with key frames alone, %";

fn by_before(styles: &[Style<'_>]) -> Chart {
    let caption = "Mean over all rates during recovery from half of the rate before up to all of it; a recovery takes half as \
                   long as the longest; true losses and false alarms weigh as the table's weight says.";
    let x = Axis::linear(0.0, most_steps(styles));
    let all = lines(styles, |study| gains(&study.gain_by_before));
    chart(
        "What a table gains, by the rate before (Fig. 4.16a)",
        caption,
        ("rate before, in steps of the table", LESS),
        x,
        all,
    )
}

fn nearness(styles: &[Style<'_>]) -> Chart {
    let all = lines(styles, |study| distribution(&study.nearness.excess_dssim, 100.0));
    let most = all.iter().flat_map(|line| &line.pieces).flatten().map(|point| point.0).fold(1.0, f64::max);
    let caption = "Share of places, rates and lengths at which the table's mean DSSIM is at most so far above that of the best \
                   schedule found for that very place.";
    let x = Axis::linear(0.0, most);
    let chart = chart(
        "A table and the best choice for one place (Fig. 4.16b)",
        caption,
        ("DSSIM above the optimum's, %", "share"),
        x,
        all,
    );
    Chart { y: Axis::linear(0.0, 1.0), ..chart }
}

fn by_frames(styles: &[Style<'_>]) -> Chart {
    let mut all = lines(styles, |study| gains(&study.gain_by_frames));
    let global = lines(styles, |study| gains(&study.gain_of_global));
    all.extend(
        global.into_iter().map(|line| {
            Line { label: format!("{}, global table", line.label), ..line }.stroke(Stroke::Dashed)
        }),
    );
    let most = styles.iter().map(|style| style.table.frames() as f64).fold(1.0, f64::max);
    let caption = "Mean over the same rates, by the length of the recovery: with the style's own table (solid) and with the one \
                   made from all clips (dashed, Fig. 4.17).";
    chart(
        "What a table gains, by the length (Fig. 4.16c)",
        caption,
        ("frames of the recovery", LESS),
        Axis::linear(0.0, most),
        all,
    )
}

#[cfg(test)]
mod tests {
    use prism::{Origin, Pictures};
    use units::Rate;

    use super::*;

    #[test]
    fn the_page_shows_every_figure_of_every_style() {
        let about = About {
            style: "<b>".to_owned(),
            origins: vec![Origin { clip: "a.y4m".to_owned(), frames: 9, fingerprint: "0".to_owned() }],
            encoder: "none".to_owned(),
            pictures: Pictures::THESIS,
            horizon: 60,
            weight: 0.5,
            starts: 1,
        };
        let table = Table::new(about, Rate::from_mbps(1), 1, 2, vec![1, 1]);
        let study = Study {
            style: "<b>".to_owned(),
            step_bps: 1_000_000,
            gaps: vec![Gap { bps: 1_000_000, key: 0.8, predicted: 0.9 }],
            insertion: Course { labels: vec!["x".to_owned()], ssim: vec![vec![0.5, 0.6]] },
            errors: Errors { model: vec![0.001, 0.2], exponential: vec![0.02, 0.3] },
            ..Study::default()
        };
        let page = tables(&[Style { study: &study, table: &table }], &table);
        for figure in ["4.1)", "4.3)", "4.4a)", "4.4b)", "4.10)", "4.16a)", "4.16b)", "4.16c)"] {
            assert!(page.contains(&format!("(Fig. {figure}")), "{figure}");
        }
        assert!(page.contains("<td>50 %</td><td>10.05 %</td><td>16.00 %</td>"), "the summary has the errors");
        assert!(!page.contains("<b>,") && page.contains("&lt;b&gt;"));
    }
}
