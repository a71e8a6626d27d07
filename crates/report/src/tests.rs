//! Whole pages.

use std::path::Path;

use lab::collect::Keep;
use lab::run::{Outcome, RunOptions, run};
use lab::scenario::Scenario;
use lab::stream::Limits;
use units::Span;

use crate::STYLE;
use crate::output::report;

fn outcome(text: &str) -> Outcome {
    run(&Scenario::parse(text, Path::new("x.toml")).unwrap(), &RunOptions::default()).unwrap()
}

fn page(text: &str) -> String {
    report("page", &[outcome(text)])
}

const LINK: &str = "duration = \"4s\"\n[link]\nrate = \"8mbit\"\ndelay = \"25ms\"\n";
const VIDEO: &str = "[[flow]]\ncc = \"sqp\"\n";
const TCP: &str = "[[flow]]\ncc = \"cubic\"\nsource = \"tcp\"\n";

fn count(text: &str, what: &str) -> usize {
    text.matches(what).count()
}

/// The text between tags.
fn plain(markup: &str) -> String {
    let pieces = markup.split('<').map(|piece| piece.split_once('>').map_or(piece, |(_, text)| text));
    pieces.collect()
}

/// A generous guess at the width of a table in pixels: of each column the widest text, and the padding around
/// it.
fn width(table: &str) -> f64 {
    // Tabular digits take 0.62 em and less, in rows of 15, headings of 13 and remarks of 12 pixels
    // (style.css).
    const EM: f64 = 0.62;
    const PADDING: f64 = 14.0;
    // A name wraps; it gets at least this.
    const NAME: f64 = 97.5;
    let lines = |markup: &str, size: f64| -> f64 {
        let (text, remark) = markup.split_once("<small>").unwrap_or((markup, ""));
        let width = |text: &str, size: f64| plain(text).chars().count() as f64 * EM * size;
        width(text, size).max(width(remark, 12.0))
    };
    let cells = |row: &str, tag: &str, size: f64| -> Vec<f64> {
        let cells = row.split(tag).skip(1).filter_map(|cell| Some(cell.split_once('>')?.1));
        cells.map(|cell| lines(cell.split("</t").next().unwrap_or(cell), size)).collect()
    };
    let (head, body) = table.split_once("</thead>").expect("a table has a head");
    let heads = cells(head.split("<th></th>").last().unwrap_or(head), "<th", 13.0);
    let rows: Vec<Vec<f64>> = body.split("<tr>").skip(1).map(|row| cells(row, "<td", 15.0)).collect();
    let widest = |at: usize| rows.iter().map(|row| row[at]).fold(heads[at], f64::max);
    assert!(rows.iter().all(|row| row.len() == heads.len()), "every row has every column");
    NAME + (0..heads.len()).map(|at| widest(at) + PADDING).sum::<f64>()
}

fn tables(page: &str) -> Vec<&str> {
    let tables = page.split("<section class=\"card figures\">").skip(1);
    tables.filter_map(|table| table.split("</section>").next()).collect()
}

#[test]
fn tables_fit_their_frame() {
    // A window of 1280 pixels: 1160 for the page less its margins and the card's (style.css).
    const FRAME: f64 = 1_160.0 - 2.0 * 24.0 - 2.0 * 25.0;
    let named = format!("{TCP}name = \"{}\"\n", "a-name-that-goes-on-".repeat(4));
    let page = page(&format!(
        "{LINK}loss = \"1%\"\n{VIDEO}{TCP}{named}[[cross]]\nkind = \"poisson\"\nrate = \"1mbit\"\n"
    ));
    let tables = tables(&page);
    assert_eq!(tables.len(), 2);
    for table in tables {
        assert!(width(table) <= FRAME, "{} px: {}", width(table), plain(table));
        assert!(table.contains("Loss") && table.contains("Share"));
    }
}

#[test]
fn every_figure_of_quality_says_where_it_comes_from() {
    let modelled = page(&format!("{LINK}{VIDEO}"));
    for text in ["dB, model", "by the encoder model", "PSNR (model)", "SSIM (model)", "there was no picture"]
    {
        assert!(modelled.contains(text), "{text}");
    }
    for text in ["against their sources", "as it looked", "data:image"] {
        assert!(!modelled.contains(text), "there are no pictures, but it says {text}");
    }
    let codec = "[flow.encoder]\nkind = \"h264\"\nfps = 30.0\nsize = \"320x180\"\n";
    let measured = page(&format!("{LINK}{VIDEO}{codec}"));
    for text in ["dB, measured", "PSNR (measured)", "against their sources", "Worst second", "Median second"]
    {
        assert!(measured.contains(text), "{text}");
    }
    assert!(!measured.contains("(model)") && !measured.contains("encoder model gives"));
    assert_eq!(count(&measured, "src=\"data:image/jpeg;base64,/9j/"), 4);
    let both = page(&format!("{LINK}{VIDEO}{codec}{VIDEO}name = \"b\"\n"));
    assert!(both.contains("<small>model</small>") && both.contains("<small>measured</small>"));
    assert!(both.contains("data-label=\"b (model)\""));
}

#[test]
fn what_flows_share_is_drawn_once() {
    let page = page(&format!("{LINK}{VIDEO}{TCP}{TCP}[[cross]]\nkind = \"poisson\"\nrate = \"1mbit\"\n"));
    assert_eq!(count(&page, ">packets at the bottleneck<"), 1);
    assert_eq!(count(&page, ">cross traffic, packets arriving"), 1);
    assert_eq!(count(&page, ">window, kB<"), 3);
    for term in
        ["<dt>Link</dt><dd>8 Mbit/s<", "Poisson arrivals of 1 Mbit/s", "droptail:120ms", "without a warm-up"]
    {
        assert!(page.contains(term), "{term}");
    }
}

#[test]
fn a_colour_means_one_flow_on_the_whole_page() {
    let page = page(&format!("{LINK}{VIDEO}count = 15\n{TCP}"));
    for index in 0..16 {
        assert_eq!(count(&page, &format!("<tr><th class=\"c{index}\">")), 1, "c{index}");
    }
    // What is of no one flow has no flow's colour.
    for label in ["everybody else", "queue", "bottleneck queue", "arrivals", "paced at", "Jain&#39;s index"] {
        let of = format!("data-label=\"{label}");
        let classes: Vec<&str> = page.split("<g class=\"").filter(|group| group.contains(&of)).collect();
        let palette = |group: &&str| {
            group.starts_with('c') && group.split_once('>').is_some_and(|(tag, _)| tag.contains(&of))
        };
        assert!(!classes.iter().any(palette), "{label}");
    }
    assert!(!STYLE.contains("best{font-weight:700;color"));
}

#[test]
fn frames_are_counted_not_rounded() {
    let outcome = outcome(&format!("{LINK}{VIDEO}"));
    let frames = outcome.summary.flows[0].frames;
    assert!(frames.displayed < frames.captured, "the last ones are under way: {frames:?}");
    let page = report("page", &[outcome]);
    let (shown, captured) = (frames.displayed, frames.captured);
    assert!(page.contains(&format!(">{shown} / {captured}<")) && !page.contains("every frame was shown"));
    assert!(
        page.contains(&format!("all but {} of {captured} frames were shown", captured - shown)),
        "{page}"
    );
}

#[test]
fn a_run_that_shows_nothing_says_so() {
    let page = page(&format!("{}{VIDEO}", LINK.replace("delay", "blackout = [[\"0s\", \"4s\"]]\ndelay")));
    assert!(page.contains("showed none of its 240 frames") && page.contains("one stall of 4 s"), "{page}");
    assert!(page.contains(">0 / 240<") && page.contains(">1 / 4.00<"));
    assert!(!page.contains("NaN") && !page.contains("inf "));
}

#[test]
fn an_encoder_that_codes_less_than_it_is_asked_for_is_named() {
    let weak = format!("{LINK}{VIDEO}[flow.encoder]\nbias = 0.5\n");
    assert!(page(&weak).contains("the quality is the encoder&rsquo;s"));
    assert!(!page(&format!("{LINK}{VIDEO}")).contains("the quality is the encoder&rsquo;s"));
}

/// A colour's place in OKLab (Ottosson 2020), where distances are about as they are seen.
fn oklab(hex: &str) -> [f64; 3] {
    let part = |at: usize| f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0;
    let linear = |c: f64| if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) };
    let [r, g, b] = [1, 3, 5].map(part).map(linear);
    let l = (0.412_221_470_8 * r + 0.536_332_536_3 * g + 0.051_445_992_9 * b).cbrt();
    let m = (0.211_903_498_2 * r + 0.680_699_545_1 * g + 0.107_396_956_6 * b).cbrt();
    let s = (0.088_302_461_9 * r + 0.281_718_837_6 * g + 0.629_978_700_5 * b).cbrt();
    [
        0.210_454_255_3 * l + 0.793_617_785_0 * m - 0.004_072_046_8 * s,
        1.977_998_495_1 * l - 2.428_592_205_0 * m + 0.450_593_709_9 * s,
        0.025_904_037_1 * l + 0.782_771_766_2 * m - 0.808_675_766_0 * s,
    ]
}

#[test]
fn sixteen_flows_have_sixteen_colours() {
    // A just noticeable difference is about 0.02.
    const LEAST: f64 = 0.075;
    let sheets = [include_str!("palette.css"), include_str!("colours.css")];
    for scheme in 0..2 {
        let block = |sheet: &str| {
            sheet.split(":root{").nth(scheme + 1).unwrap().split('}').next().unwrap().to_owned()
        };
        let text: String = sheets.map(block).concat();
        let colour = |name: &str| {
            let value =
                text.split(&format!("{name}:")).nth(1).unwrap_or_else(|| panic!("{name} is not there"));
            let hex = &value[..value.find([';', '}']).unwrap_or(value.len())];
            let hex = if hex.len() == 4 {
                hex.chars().flat_map(|c| [c; 2]).skip(1).collect()
            } else {
                hex.to_owned()
            };
            (name.to_owned(), oklab(&hex))
        };
        let flows = (0..16).map(|index| colour(&format!("--c{index}")));
        let all: Vec<_> = flows.chain([colour("--ink"), colour("--soft"), colour("--shade")]).collect();
        for (index, (name, a)) in all.iter().enumerate() {
            for (other, b) in &all[..index] {
                let distance = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
                assert!(distance >= LEAST, "scheme {scheme}: {name} and {other} are {distance:.3} apart");
            }
        }
    }
}

#[test]
fn a_run_whose_rows_left_memory_draws_the_same_charts() {
    let limits = Limits { rows: 30_000, values: usize::MAX, patience: Span::from_secs(2) };
    let bounded = RunOptions { keep: Keep::Bounded, limits, ..RunOptions::default() };
    let link = LINK.replace("4s", "8s");
    let outage = "blackout = [[\"3s\", \"3.8s\"]]\n";
    for text in [format!("{link}{outage}{VIDEO}"), format!("{link}{TCP}")] {
        let scenario = Scenario::parse(&text, Path::new("x.toml")).unwrap();
        let folded = run(&scenario, &bounded).unwrap();
        assert!(folded.record.folded_fairness.is_some(), "{text}: its rows should have left");
        let (whole, folded) = (report("x", &[outcome(&text)]), report("x", &[folded]));
        assert_eq!(count(&whole, "<h3>"), count(&folded, "<h3>"), "{text}");
        assert_eq!(count(&whole, "class=\"stalled\""), count(&folded, "class=\"stalled\""), "{text}");
    }
}
