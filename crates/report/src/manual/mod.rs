//! The manual's pages on congestion controllers, from the registry and from runs.
//!
//! ```text
//! registry rows of one page -> Family -> NAME.md               the page, its rows, their options, two pictures
//!                                     -> NAME-steady.svg, NAME-drop.svg
//! all families              -> README.md                       every row with its figures on a steady link
//! ```
//!
//! The same commit writes the same bytes.

mod page;
mod trial;

use std::path::Path;

use cc::{Entry, REGISTRY};

use lab::files::{WriteError, write_folder, write_whole};
use lab::run::{LabError, RunOptions};
use trial::{Link, Trial};

/// A page of the manual and the rows of the registry that it is about.
pub struct Family {
    /// Its rows, in the registry's order. Never empty.
    pub rows: Vec<&'static Entry>,
}

impl Family {
    /// What its files are called: its first row.
    pub fn name(&self) -> &'static str {
        self.rows[0].name
    }

    /// Its page's heading.
    pub fn title(&self) -> &'static str {
        let first = self.text().lines().next().unwrap_or_default();
        first.trim_start_matches('#').trim()
    }

    /// Its page as its author wrote it, Markdown.
    pub fn text(&self) -> &'static str {
        self.rows[0].page
    }

    /// Every option with its help and the rows that take it, in the order they come.
    pub fn options(&self) -> Vec<(&'static str, &'static str, Vec<&'static str>)> {
        let mut options: Vec<(&str, &str, Vec<&str>)> = Vec::new();
        for row in &self.rows {
            for &(key, help) in row.options {
                match options.iter_mut().find(|option| (option.0, option.1) == (key, help)) {
                    Some(option) => option.2.push(row.name),
                    None => options.push((key, help, vec![row.name])),
                }
            }
        }
        options
    }
}

/// Every family, in the order of its first row.
pub fn families() -> Vec<Family> {
    let mut families: Vec<Family> = Vec::new();
    for row in REGISTRY {
        match families.iter_mut().find(|family| family.text() == row.page) {
            Some(family) => family.rows.push(row),
            None => families.push(Family { rows: vec![row] }),
        }
    }
    families
}

/// The family that has a row called `name`.
pub fn family(name: &str) -> Option<Family> {
    families().into_iter().find(|family| family.rows.iter().any(|row| row.name == name))
}

/// Writes every page, picture and the index into `folder`, which is made if needed. Of `options`, threads and
/// progress count.
///
/// # Errors
/// [`LabError`] if a file can't be written.
///
/// # Panics
/// If a row of the registry does not build.
pub fn write(folder: &Path, options: &RunOptions<'_>) -> Result<(), LabError> {
    let families = families();
    let trials = trial::all(&families, options)?;
    write_folder(folder, &[], |folder| write_pages(folder, &families, &trials)).map_err(LabError::Write)
}

fn write_pages(folder: &Path, families: &[Family], trials: &[Trial]) -> Result<(), WriteError> {
    for family in families {
        let name = family.name();
        text(&folder.join(format!("{name}.md")), &page::of(family))?;
        for link in [Link::Steady, Link::Drop] {
            let own =
                |trial: &&Trial| trial.link == link && family.rows.iter().any(|row| row.name == trial.cc);
            let own: Vec<&Trial> = trials.iter().filter(own).collect();
            text(&folder.join(format!("{name}-{}.svg", link.name())), &trial::draw(link, &own))?;
        }
    }
    let steady: Vec<&Trial> = trials.iter().filter(|trial| trial.link == Link::Steady).collect();
    text(&folder.join("README.md"), &page::index(families, &steady))
}

fn text(path: &Path, text: &str) -> Result<(), WriteError> {
    use std::io::Write;
    write_whole(path, |file| file.write_all(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_in_one_family_and_every_page_has_a_heading() {
        let families = families();
        assert_eq!(families.iter().map(|family| family.rows.len()).sum::<usize>(), REGISTRY.len());
        for family in &families {
            assert!(family.text().starts_with("# ") && !family.title().is_empty(), "{}", family.name());
        }
        assert_eq!(family("copa-0.1").expect("it is in the registry").name(), "copa");
        assert!(family("bbr9").is_none());
    }

    #[test]
    fn the_committed_pages_are_those_of_the_registry() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/controllers");
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        let index = read("README.md");
        for family in families() {
            let name = format!("{}.md", family.name());
            let again = "`framewire controllers --write docs/controllers` writes it again";
            assert!(read(&name) == page::of(&family), "docs/controllers/{name} is out of date; {again}");
            for row in family.rows {
                assert!(index.contains(&format!("[`{}`]({name})", row.name)), "no {} in the index", row.name);
            }
        }
        let stems = std::fs::read_dir(&folder).expect("it is in the repository").flatten().map(|file| {
            let name = file.file_name().to_string_lossy().into_owned();
            name.rsplit_once('.').map_or(name.clone(), |(stem, _)| stem.to_owned())
        });
        let known: Vec<String> = families().iter().map(|f| f.name().to_owned()).collect();
        let stray = stems.filter(|stem| {
            let of = stem.trim_end_matches("-steady").trim_end_matches("-drop");
            stem != "README" && !known.iter().any(|name| name == of)
        });
        assert_eq!(stray.collect::<Vec<_>>(), [""; 0], "docs/controllers has files of no controller");
    }
}
