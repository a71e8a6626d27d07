//! The tables that ship with the crate; `tables/SOURCES.md` says what they are of and how they are made
//! again.

use std::sync::{Arc, OnceLock};

use crate::Table;

/// A clip by one encoder.
struct Shipped {
    name: &'static str,
    /// JSON of the clip's own size and, where they were recorded, of sizes with fewer rows, largest first.
    sizes: &'static [&'static str],
    parsed: OnceLock<Vec<Arc<Table>>>,
}

impl Shipped {
    const fn new(name: &'static str, sizes: &'static [&'static str]) -> Shipped {
        Shipped { name, sizes, parsed: OnceLock::new() }
    }

    fn tables(&self) -> &[Arc<Table>] {
        let parse = |json: &&str| Arc::new(Table::parse(json, self.name).expect("shipped tables are tested"));
        self.parsed.get_or_init(|| self.sizes.iter().map(parse).collect())
    }
}

static SHIPPED: [Shipped; 6] = [
    Shipped::new(
        "big_buck_bunny",
        &[
            include_str!("../tables/big_buck_bunny.json"),
            include_str!("../tables/big_buck_bunny_540.json"),
            include_str!("../tables/big_buck_bunny_360.json"),
            include_str!("../tables/big_buck_bunny_270.json"),
            include_str!("../tables/big_buck_bunny_180.json"),
        ],
    ),
    Shipped::new("synthetic_game", &[include_str!("../tables/synthetic_game.json")]),
    Shipped::new("signer", &[include_str!("../tables/signer.json")]),
    Shipped::new("still", &[include_str!("../tables/still.json")]),
    Shipped::new(
        "talking_head",
        &[
            include_str!("../tables/talking_head.json"),
            include_str!("../tables/talking_head_540.json"),
            include_str!("../tables/talking_head_360.json"),
            include_str!("../tables/talking_head_270.json"),
            include_str!("../tables/talking_head_180.json"),
        ],
    ),
    Shipped::new(
        "film",
        &[
            include_str!("../tables/film.json"),
            include_str!("../tables/film_720.json"),
            include_str!("../tables/film_540.json"),
            include_str!("../tables/film_360.json"),
            include_str!("../tables/film_270.json"),
            include_str!("../tables/film_180.json"),
        ],
    ),
];

fn tables(name: &str) -> &'static [Arc<Table>] {
    SHIPPED.iter().find(|shipped| shipped.name == name).map_or(&[], Shipped::tables)
}

impl Table {
    /// The names that [`Table::by_name`] knows.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|shipped| shipped.name)
    }

    /// A table that ships with the crate, by name.
    pub fn by_name(name: &str) -> Option<Arc<Table>> {
        tables(name).first().cloned()
    }

    /// The same clip as [`Table::by_name`] gives, by the same encoder with fewer rows, largest first; none
    /// where that was not recorded. Qualities are those of the pictures scaled up again.
    pub fn smaller(name: &str) -> Vec<Arc<Table>> {
        tables(name).iter().skip(1).cloned().collect()
    }

    /// Big Buck Bunny, 720p at 25 Hz, 132 frames, by OpenH264: what a model plays by default.
    pub fn big_buck_bunny() -> Arc<Table> {
        tables("big_buck_bunny")[0].clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_tables_are_small_and_sensible() {
        for name in Table::names() {
            for table in tables(name) {
                let (rows, frames) = (table.height, table.frames());
                assert!(table.to_json().len() < 300_000, "{name} {rows}");
                assert!(table.curves.len() >= 4 && frames >= 100, "{name} {rows}");
                let mean = |bps: f64| (0..frames as u32).map(|f| table.quality(f, bps).psnr_y).sum::<f64>();
                let at: Vec<f64> = table.curves.iter().map(|c| mean(c.bps as f64) / frames as f64).collect();
                // Few rows can't show more at some rate; the most that is lost there is rounding.
                let rises = at.windows(2).all(|pair| pair[1] > pair[0] - 0.01);
                assert!(rises, "{name} {rows}: PSNR rises with bitrate: {at:?}");
            }
            let rows: Vec<usize> = tables(name).iter().map(|table| table.height).collect();
            assert!(rows.windows(2).all(|pair| pair[0] > pair[1]), "{name}: {rows:?}");
        }
        assert!(Table::by_name("nope").is_none() && Table::smaller("nope").is_empty());
    }
}
