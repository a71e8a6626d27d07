//! The tables that ship with the crate, made by `framewire prism table`; crates/prism/tables/SOURCES.md says
//! from which clips, and how they are made again.

use std::sync::{Arc, OnceLock};

use crate::table::Table;

/// A table and its text.
struct Shipped {
    style: &'static str,
    text: &'static str,
    parsed: OnceLock<Arc<Table>>,
}

impl Shipped {
    const fn new(style: &'static str, text: &'static str) -> Shipped {
        Shipped { style, text, parsed: OnceLock::new() }
    }

    fn table(&self) -> Arc<Table> {
        let parse = || Arc::new(Table::parse(self.text, self.style).expect("shipped tables are tested"));
        self.parsed.get_or_init(parse).clone()
    }
}

static SHIPPED: [Shipped; 7] = [
    Shipped::new("global", include_str!("../tables/global.json")),
    Shipped::new("racing", include_str!("../tables/racing.json")),
    Shipped::new("arcade", include_str!("../tables/arcade.json")),
    Shipped::new("talking-head", include_str!("../tables/talking-head.json")),
    Shipped::new("close-up", include_str!("../tables/close-up.json")),
    Shipped::new("traffic", include_str!("../tables/traffic.json")),
    Shipped::new("film", include_str!("../tables/film.json")),
];

impl Table {
    /// The table made from all clips: what a sender has that was given none, or a broken one.
    pub fn global() -> Arc<Table> {
        SHIPPED[0].table()
    }

    /// The styles that [`Table::by_style`] knows, `global` first.
    pub fn styles() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|shipped| shipped.style)
    }

    /// The table of a style that ships with the crate.
    pub fn by_style(style: &str) -> Option<Arc<Table>> {
        SHIPPED.iter().find(|shipped| shipped.style == style).map(Shipped::table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_tables_are_complete_and_say_what_they_are_of() {
        for style in Table::styles() {
            let table = Table::by_style(style).unwrap();
            let about = table.about();
            assert_eq!((about.style.as_str(), table.steps(), table.frames()), (style, 20, 10));
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
