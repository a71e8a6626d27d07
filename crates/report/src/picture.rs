//! Charts as an SVG file that stands alone: in a Markdown page, or opened by itself.

use std::fmt::Write;

use crate::chart::{Chart, Colour, WIDTH};
use crate::markup::escape;

const PALETTE: &str = include_str!("palette.css");
const COLOURS: &str = include_str!("colours.css");
/// Colours of the palette that pictures bring along; the rest only where they are drawn with.
const USUAL: usize = 8;
const MARKS: &str = include_str!("marks.css");
/// Room above the first chart for the heading.
const HEAD: f64 = 44.0;
/// Room around everything.
const MARGIN: f64 = 16.0;

/// Room for the key, if there is one.
const KEY: f64 = 26.0;
/// A wide guess at the width of a letter of the key.
const LETTER: f64 = 8.0;

/// `charts`, one below the other under a heading and a key of colours, as the text of an SVG file. It brings
/// its colours along, light and dark, and a background of its own, for the page around it may be either.
pub fn picture(title: &str, key: &[(&str, Colour)], charts: &[Chart]) -> String {
    let heights: Vec<f64> = charts.iter().map(|chart| chart.height).collect();
    let lines = charts.iter().flat_map(|chart| &chart.lines).map(|line| line.colour);
    let rare = |colour| matches!(colour, Colour::Palette(index) if index >= USUAL);
    let style = if lines.chain(key.iter().map(|(_, colour)| *colour)).any(rare) { COLOURS } else { "" };
    frame(title, key, style, &heights, |out, index| charts[index].draw(out))
}

/// The same around drawings of these heights, which need some more style.
pub(crate) fn frame(
    title: &str,
    key: &[(&str, Colour)],
    style: &str,
    heights: &[f64],
    draw: impl Fn(&mut String, usize),
) -> String {
    let head = if key.is_empty() { HEAD } else { HEAD + KEY };
    let height = head + MARGIN + heights.iter().sum::<f64>();
    let width = WIDTH + 2.0 * MARGIN;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" aria-label=\"{title}\">\n<style>\n{PALETTE}{MARKS}{style}\
         text{{font-family:system-ui,-apple-system,\"Segoe UI\",Roboto,\"Helvetica Neue\",Arial,sans-serif}}\n\
         .title{{fill:var(--ink);font-size:17px;font-weight:600}}.back{{fill:var(--card)}}\n</style>\n\
         <rect class=\"back\" width=\"{width}\" height=\"{height}\" rx=\"8\"/>\
         <text class=\"title\" x=\"{MARGIN}\" y=\"30\">{title}</text>\n",
        title = escape(title)
    );
    draw_key(&mut out, key);
    let mut top = head;
    for (index, height) in heights.iter().enumerate() {
        let _ = write!(out, "<g transform=\"translate({MARGIN} {top})\">");
        draw(&mut out, index);
        out.push_str("</g>\n");
        top += height;
    }
    out.push_str("</svg>\n");
    out
}

fn draw_key(out: &mut String, key: &[(&str, Colour)]) {
    let mut left = MARGIN;
    for (label, colour) in key {
        let _ = writeln!(
            out,
            "<g class=\"{}\" transform=\"translate({left} {})\"><polyline points=\"0,0 22,0\"/>\
             <text x=\"28\" y=\"4\">{}</text></g>",
            colour.class(),
            HEAD + 6.0,
            escape(label)
        );
        left += 46.0 + LETTER * label.chars().count() as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Axis, Colour, Line};
    use super::*;

    #[test]
    fn a_picture_needs_nothing_around_it() {
        let chart = Chart {
            title: String::new(),
            caption: String::new(),
            x_label: "seconds".into(),
            y_label: "ms".into(),
            x: Axis::linear(0.0, 10.0),
            y: Axis::from_zero(100.0),
            shade: None,
            lines: vec![Line::new("a", Colour::Palette(0), vec![(0.0, 0.0), (10.0, 100.0)])],
            height: 200.0,
        };
        let text = picture("a & b", &[], &[chart.clone(), chart.clone()]);
        assert!(text.contains("prefers-color-scheme:dark") && text.contains("polyline{"), "{text}");
        assert!(text.contains("height=\"460\"") && text.contains("translate(16 244)"), "{text}");
        assert!(text.contains(">a &amp; b<") && text.ends_with("</svg>\n"), "{text}");
        let text = picture("a", &[("one", Colour::Palette(0)), ("two", Colour::Palette(1))], &[chart]);
        assert!(text.contains("translate(16 70)") && text.contains("class=\"c1\""), "{text}");
        for variable in text.split("var(").skip(1).filter_map(|rest| rest.split(')').next()) {
            assert!(text.contains(&format!("{variable}:")), "{variable} is not defined");
        }
    }
}
