//! Runs cells under schemes, as many at a time as asked, and remembers what was found.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Cell, Finding, Invariant, Outcome, Scheme, Terms, excluded, find};
use crate::{Crew, Fingerprint};
use lab::files::{WriteError, write_whole};
use lab::run::{LabError, Overlay, watch};
use lab::scenario::Scenario;

/// What is found of one cell under one scheme: of each invariant a number, or why it is not asked.
///
/// # Errors
/// [`LabError`] if the cell can't be built.
pub fn hold(cell: &Cell, scheme: &Scheme) -> Result<(Vec<Finding>, Spared), LabError> {
    let (scenario, terms) = prepare(cell, scheme)?;
    let spared = spared(scheme, &terms);
    if spared.len() == Invariant::ALL.len() {
        return Ok((Vec::new(), spared));
    }
    Ok((findings(&scenario, &terms, &spared)?, spared))
}

/// Invariants that are not asked, and why.
pub type Spared = Vec<(Invariant, &'static str)>;

fn prepare(cell: &Cell, scheme: &Scheme) -> Result<(Scenario, Terms), LabError> {
    let scenario = cell.scenario(scheme)?;
    let terms = Terms::of(&scenario)?;
    Ok((scenario, terms))
}

fn spared(scheme: &Scheme, terms: &Terms) -> Spared {
    let why = |invariant| scheme.exempt().or_else(|| Some(excluded(invariant, terms)?.name));
    Invariant::ALL.into_iter().filter_map(|invariant| Some((invariant, why(invariant)?))).collect()
}

fn findings(
    scenario: &Scenario,
    terms: &Terms,
    spared: &[(Invariant, &'static str)],
) -> Result<Vec<Finding>, LabError> {
    let watched = watch(scenario, &Overlay::default())?;
    let asked = Invariant::ALL.into_iter().filter(|asked| !spared.iter().any(|(is, _)| is == asked));
    Ok(asked.map(|invariant| find(invariant, terms, &watched)).collect())
}

/// How to run the grid.
pub struct Drive<'a> {
    /// Most runs at the same time.
    pub threads: usize,
    /// Told how many cells are done.
    pub progress: &'a (dyn Fn(usize) + Sync),
    /// Where findings are kept, if anywhere.
    pub memory: Option<Memory>,
}

/// A folder of findings, found again by program, scheme and scenario: one file for each scheme.
#[derive(Clone, Debug)]
pub struct Memory {
    folder: PathBuf,
    program: String,
}

/// Findings by the fingerprint of their scenario.
type Known = BTreeMap<String, Vec<Finding>>;

impl Memory {
    /// The findings in `folder` of `program`: its commit, or whatever else names exactly this code.
    pub fn new(folder: &Path, program: &str) -> Memory {
        Memory { folder: folder.to_owned(), program: program.to_owned() }
    }

    fn place(&self, scheme: &Scheme) -> PathBuf {
        let mut print = Fingerprint::default();
        print.add(&self.program);
        print.add(&scheme.to_string());
        self.folder.join(format!("{print}.json"))
    }

    /// What cannot be read is not known.
    fn read(&self, scheme: &Scheme) -> Known {
        let text = std::fs::read(self.place(scheme)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    fn write(&self, scheme: &Scheme, known: &Known) -> Result<(), WriteError> {
        let text = serde_json::to_vec(known).expect("numbers and names");
        std::fs::create_dir_all(&self.folder)
            .map_err(|source| WriteError { path: self.folder.clone(), source })?;
        write_whole(&self.place(scheme), |file| file.write_all(&text))
    }
}

fn key(scenario: &Scenario) -> String {
    let mut print = Fingerprint::default();
    print.add(&scenario.text);
    for file in scenario.files() {
        // One that can't be read is the run's matter.
        print.add_bytes(&std::fs::read(file).unwrap_or_default());
    }
    print.to_string()
}

/// One scheme on its way through the cells.
struct Column {
    known: Mutex<Known>,
    left: AtomicUsize,
}

/// Runs every cell under every scheme; outcomes by scheme, then by cell. They do not depend on the number of
/// threads.
///
/// # Errors
/// The first [`LabError`] in that order.
pub fn drive(schemes: &[Scheme], cells: &[Cell], how: &Drive<'_>) -> Result<Vec<Outcome>, LabError> {
    let count = schemes.len() * cells.len();
    let done = AtomicUsize::new(0);
    let read = |scheme: &Scheme| how.memory.as_ref().map_or_else(Known::new, |memory| memory.read(scheme));
    let column =
        |scheme: &Scheme| Column { known: Mutex::new(read(scheme)), left: AtomicUsize::new(cells.len()) };
    let columns: Vec<Column> = schemes.iter().map(column).collect();
    let slots: Vec<Mutex<Option<Result<Outcome, LabError>>>> = (0..count).map(|_| Mutex::new(None)).collect();
    Crew::of(how.threads).share(count, &|index| {
        let (scheme, cell) = (index / cells.len(), index % cells.len());
        let found = one(&cells[cell], &schemes[scheme], &columns[scheme], how.memory.as_ref());
        let outcome = found.map(|(findings, spared)| Outcome { scheme, cell, findings, spared });
        *slots[index].lock().expect("nothing panics here") = Some(outcome);
        (how.progress)(done.fetch_add(1, Ordering::Relaxed) + 1);
    });
    let taken = slots.into_iter().map(|slot| slot.into_inner().expect("nothing panics here"));
    taken.map(|outcome| outcome.expect("every cell was taken by a thread")).collect()
}

fn one(
    cell: &Cell,
    scheme: &Scheme,
    column: &Column,
    memory: Option<&Memory>,
) -> Result<(Vec<Finding>, Spared), LabError> {
    let (scenario, terms) = prepare(cell, scheme)?;
    let spared = spared(scheme, &terms);
    let key = key(&scenario);
    let known = || column.known.lock().expect("nothing panics here");
    let before = known().get(&key).cloned();
    let findings = match before {
        _ if spared.len() == Invariant::ALL.len() => Vec::new(),
        Some(findings) => findings,
        None => {
            let findings = findings(&scenario, &terms, &spared)?;
            known().insert(key, findings.clone());
            findings
        }
    };
    if column.left.fetch_sub(1, Ordering::Relaxed) == 1
        && let Some(memory) = memory
    {
        memory.write(scheme, &known())?;
    }
    Ok((findings, spared))
}
