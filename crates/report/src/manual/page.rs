//! The pages' text.

use std::fmt::Write;

use super::Family;
use super::trial::{Link, Trial};
use crate::short;

/// A family's page.
pub fn of(family: &Family) -> String {
    let name = family.name();
    let mut out = format!("{}\n\n## Names and options\n\n", family.text().trim_end());
    out.push_str("| write | what it is |\n|---|---|\n");
    for row in &family.rows {
        let _ = writeln!(out, "| `{}` | {} |", row.name, cell(row.summary));
    }
    let options = family.options();
    if !options.is_empty() {
        out.push_str("\n| option | what it sets |\n|---|---|\n");
    }
    for (key, help, rows) in options {
        let only = if rows.len() == family.rows.len() { String::new() } else { of_rows(&rows) };
        let _ = writeln!(out, "| `{key}=` | {}{only} |", cell(help));
    }
    let source = if family.rows[0].needs_frames { "sends video" } else { "always has something to send" };
    let _ = writeln!(
        out,
        "\n## On two links\n\n\
         One flow that {source}, alone on {}.\n\
         Above is what left the bottleneck, below the one-way delay of its packets, {} ms of which are the empty path's.\n\
         Points are means over {} ms.\n",
        Link::Steady.words(),
        short(Link::EMPTY_MS),
        short(Link::BIN.as_millis_f64())
    );
    let _ =
        writeln!(out, "![Rate and delay of {name} on a steady link]({name}-{}.svg)\n", Link::Steady.name());
    let _ = writeln!(out, "The same while {}.\n", Link::Drop.words());
    let _ =
        writeln!(out, "![Rate and delay of {name} as the link drops]({name}-{}.svg)\n", Link::Drop.name());
    out.push_str(
        "The [table of all controllers](README.md) has the figures; `framewire controllers --write` makes this page.\n",
    );
    out
}

/// The table of all controllers.
pub fn index(families: &[Family], steady: &[&Trial]) -> String {
    let mut out = format!(
        "# Congestion controllers\n\n\
         Write a name, or a name with options (`copa:delta=0.25`), wherever a scenario or a command takes a controller;\n\
         `framewire controllers NAME` shows its page in a terminal. [Add a controller](../add-a-controller.md) says how to add one.\n\n\
         The figures are those of one flow alone on {}, from second {} to second {}.\n\
         Utilisation is the share of the link's bits that were used, queuing delay the time packets waited at the bottleneck, loss the\n\
         share of packets dropped there. The flow always has something to send; where the controller learns from frames (marked *) it\n\
         sends video of 60 frames/s. This is one link and ranks nothing: a controller for video shares its link and meets links that\n\
         change, which is what [the experiments](../experiments.md) are about.\n\n\
         | controller | what it is | utilisation, % | mean queue, ms | P90 queue, ms | loss, % |\n\
         |---|---|--:|--:|--:|--:|\n",
        Link::Steady.words(),
        short(Link::FROM.as_secs_f64()),
        short(Link::Steady.length().as_secs_f64())
    );
    for family in families {
        for row in &family.rows {
            let Some(trial) = steady.iter().find(|trial| trial.cc == row.name) else { continue };
            let (figures, video) = (&trial.figures, if row.needs_frames { "\\*" } else { "" });
            let _ = writeln!(
                out,
                "| [`{}`]({}.md){video} | {} | {:.1} | {:.1} | {:.1} | {} |",
                row.name,
                family.name(),
                cell(row.summary),
                figures.utilisation * 100.0,
                figures.queue_mean,
                figures.queue_p90,
                loss(figures.loss)
            );
        }
    }
    out.push_str(
        "\n`framewire controllers --write DIR` makes these pages; the same commit makes the same bytes.\n",
    );
    out
}

fn of_rows(rows: &[&str]) -> String {
    let names: Vec<String> = rows.iter().map(|name| format!("`{name}`")).collect();
    format!(" (of {})", names.join(", "))
}

/// Text that does not end a table's cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// A share as a percentage with two significant digits, for shares go over four powers of ten.
fn loss(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0".to_owned(),
        p if p < 0.001 => "under 0.001".to_owned(),
        p if p < 0.0995 => format!("{p:.3}"),
        p => format!("{p:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_keep_what_can_be_told_apart() {
        assert_eq!([0.0, 1e-7, 0.000_37, 0.0123].map(loss), ["0", "under 0.001", "0.037", "1.23"]);
    }

    #[test]
    fn an_option_of_some_rows_says_of_which() {
        let page = of(&super::super::family("newreno").expect("it is in the registry"));
        assert!(page.starts_with("# NewReno\n") && page.contains("| `hystart=` | leave the first"), "{page}");
        assert!(!page.contains("(of `newreno`)") && page.contains("(newreno-drop.svg)"), "{page}");
    }
}
