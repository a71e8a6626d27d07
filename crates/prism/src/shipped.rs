//! The tables that ship with the crate, made by `framewire prism table`; crates/prism/tables/SOURCES.md says
//! from which clips, and how they are made again.

use std::sync::{Arc, OnceLock};

use crate::table::Table;

/// A table and its text.
struct Shipped {
    text: &'static str,
    parsed: OnceLock<Arc<Table>>,
}

impl Shipped {
    const fn new(text: &'static str) -> Shipped {
        Shipped { text, parsed: OnceLock::new() }
    }

    fn table(&self, style: &str) -> Arc<Table> {
        let parse = || Arc::new(Table::parse(self.text, style).expect("shipped tables are tested"));
        self.parsed.get_or_init(parse).clone()
    }
}

/// A style's tables.
struct Style {
    name: &'static str,
    lost: Shipped,
    foretold: Shipped,
}

/// The row of a style that ships.
macro_rules! style {
    ($name:literal) => {
        Style {
            name: $name,
            lost: Shipped::new(include_str!(concat!("../tables/", $name, ".json"))),
            foretold: Shipped::new(include_str!(concat!("../tables/foretold/", $name, ".json"))),
        }
    };
}

static SHIPPED: [Style; 7] = [
    style!("global"),
    style!("racing"),
    style!("arcade"),
    style!("talking-head"),
    style!("close-up"),
    style!("traffic"),
    style!("film"),
];

impl Table {
    /// The table made from all clips: what a sender has that was given none, or a broken one.
    pub fn global() -> Arc<Table> {
        Tables::global().lost
    }

    /// The styles that [`Table::by_style`] knows, `global` first.
    pub fn styles() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|style| style.name)
    }

    /// The table of a style that ships with the crate, for losses: true ones weigh as much as false alarms.
    pub fn by_style(style: &str) -> Option<Arc<Table>> {
        Tables::by_style(style).map(|tables| tables.lost)
    }
}

/// What a recovery is split by: the thesis has w, the weight of true losses, follow how often the alarm is
/// right (section 4.5.2).
#[derive(Clone, Debug)]
pub struct Tables {
    /// For recoveries from what is known to be lost; those that ship have w = 0.5, as all of the thesis'
    /// figures.
    pub lost: Arc<Table>,
    /// For recoveries that only a predictor asks for so far. Those that ship have w = 0.25: of the shipped
    /// predictors' alarms 9 to 36 % come true (`docs/loss-predictor.md`, precision).
    pub foretold: Arc<Table>,
}

impl Tables {
    /// Those made from all clips.
    pub fn global() -> Tables {
        SHIPPED[0].tables()
    }

    /// Those of a style that ships with the crate.
    pub fn by_style(style: &str) -> Option<Tables> {
        SHIPPED.iter().find(|shipped| shipped.name == style).map(Style::tables)
    }
}

impl Style {
    fn tables(&self) -> Tables {
        Tables { lost: self.lost.table(self.name), foretold: self.foretold.table(self.name) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_tables_are_complete_and_say_what_they_are_of() {
        let all = Table::styles().flat_map(|style| {
            let Tables { lost, foretold } = Tables::by_style(style).unwrap();
            [(style, 0.5, lost), (style, 0.25, foretold)]
        });
        for (style, weight, table) in all {
            let about = table.about();
            assert_eq!((about.style.as_str(), table.steps(), table.frames()), (style, 20, 10));
            assert_eq!(about.weight, weight, "{style}");
            assert!(
                !about.origins.is_empty() && about.starts > 0 && table.to_json().len() < 60_000,
                "{style}"
            );
            // Somewhere the rate is split: a table of key frames alone would be traditional recovery.
            assert!(
                table.points().any(|(before, during)| usize::from(table.row(before, during)[0]) < during),
                "{style}"
            );
        }
        assert_eq!(Table::global().about().origins.len(), SHIPPED.len() - 1);
        assert!(Table::by_style("nope").is_none());
    }
}
