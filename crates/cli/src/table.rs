//! Compact aligned tables: text to the left, numbers to the right.

use std::fmt;

/// A table being built; [`Display`](fmt::Display) aligns it.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these column heads.
    pub fn new<S: Into<String>>(heads: impl IntoIterator<Item = S>) -> Table {
        Table { rows: vec![heads.into_iter().map(Into::into).collect()] }
    }

    /// Adds a row; columns it lacks stay empty.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    fn column(&self, index: usize) -> impl Iterator<Item = &str> {
        self.rows.iter().filter_map(move |row| row.get(index)).map(String::as_str)
    }

    fn width(&self, index: usize) -> usize {
        self.column(index).map(|cell| cell.chars().count()).max().unwrap_or(0)
    }

    /// A column is numeric if every cell below its head starts like a number or is a dash.
    fn is_numeric(&self, index: usize) -> bool {
        let number = |cell: &str| cell.starts_with(|c: char| c.is_ascii_digit() || "+-–".contains(c));
        self.rows.len() > 1 && self.column(index).skip(1).all(|cell| cell.is_empty() || number(cell))
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let layout: Vec<_> = (0..columns).map(|index| (self.width(index), self.is_numeric(index))).collect();
        for row in &self.rows {
            let cells = row.iter().zip(&layout).map(|(cell, &(width, numeric))| {
                if numeric { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
            });
            writeln!(f, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_to_the_right_and_words_to_the_left() {
        let mut table = Table::new(["flow", "Mbit/s", "note"]);
        table.row(["sqp", "9.5", "fine"]);
        table.row(["newreno", "12.25"]);
        table.row(["fixed", "–", "x"]);
        assert_eq!(
            table.to_string(),
            "flow     Mbit/s  note\nsqp         9.5  fine\nnewreno   12.25\nfixed         –  x\n"
        );
    }
}
