//! What is done of a sweep, on disk: a line a run, each with a checksum, appended as runs end.
//!
//! ```text
//! CRC32 {"framewire_sweep":1,"program":...,"axes":[...],"seeds":[...],"scenarios":...,"files":...}
//! CRC32 {"run":17,"seed":8,"hash":...,"flows":[...]}
//! ```
//!
//! A line that is torn or damaged is dropped, and its run is run again. The first line names the plan: a
//! journal of another one is not touched.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use lab::files::WriteError;
use serde_json::{Value, json};

use crate::error::SweepError;
use crate::plan::Plan;
use crate::run::Run;

/// A sweep's journal, held by this process alone.
pub struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Its name in a sweep's folder.
    pub const NAME: &str = "journal.jsonl";

    /// Opens the journal of `plan` in `folder`, which must exist, and reads the runs that are done; begins it
    /// where there is none, or if `fresh`. `program` names exactly the code that runs: its commit.
    ///
    /// # Errors
    /// [`SweepError::Other`] if the folder holds another plan's, [`SweepError::Journal`] if another process
    /// writes to it, or it can't be read or written.
    pub fn open(
        folder: &Path,
        plan: &Plan,
        program: &str,
        fresh: bool,
    ) -> Result<(Journal, Vec<Run>), SweepError> {
        let path = folder.join(Journal::NAME);
        let problem = |error: io::Error| trouble(&path, error.to_string());
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(problem)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                return Err(trouble(&path, "another sweep writes to it; choose another folder".to_owned()));
            }
            Err(TryLockError::Error(error)) => return Err(problem(error)),
            Ok(()) => {}
        }
        let mut bytes = Vec::new();
        if fresh {
            file.set_len(0).map_err(problem)?;
        } else {
            file.read_to_end(&mut bytes).map_err(problem)?;
        }
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        let text = String::from_utf8_lossy(&bytes[..whole]);
        let header = header(plan, program);
        let mut lines = text.lines();
        let begun = lines.next();
        if let Some(line) = begun {
            let found: Option<Value> = checked(line).and_then(|json| serde_json::from_str(json).ok());
            let found = found.ok_or_else(|| {
                trouble(
                    &path,
                    "is no journal of a sweep; choose another folder, or begin anew with --fresh".into(),
                )
            })?;
            differs(&found, &header)
                .map_or(Ok(()), |differs| Err(SweepError::Other { folder: folder.to_owned(), differs }))?;
        }
        let mut runs: Vec<Run> = lines.filter_map(checked).filter_map(Run::from_line).collect();
        runs.sort_by_key(|run| run.run);
        runs.dedup_by_key(|run| run.run);
        runs.retain(|run| run.run < plan.len());
        // What was torn off is written anew.
        file.set_len(whole as u64).and_then(|()| file.seek(SeekFrom::End(0))).map_err(problem)?;
        let mut journal = Journal { path, file };
        if begun.is_none() {
            journal.write(&header.to_string())?;
        }
        Ok((journal, runs))
    }

    /// Adds a run that is done. It survives the end of this process from now on.
    ///
    /// # Errors
    /// [`SweepError::Write`] naming the journal.
    pub fn append(&mut self, run: &Run) -> Result<(), SweepError> {
        self.write(&run.to_line())
    }

    fn write(&mut self, json: &str) -> Result<(), SweepError> {
        let line = format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()));
        let written = self.file.write_all(line.as_bytes());
        written.map_err(|source| WriteError { path: self.path.clone(), source }.into())
    }
}

fn trouble(path: &Path, what: String) -> SweepError {
    SweepError::Journal { path: path.to_owned(), what }
}

/// What a line holds, if it is whole.
fn checked(line: &str) -> Option<&str> {
    let (sum, json) = line.split_once(' ')?;
    (sum == format!("{:08x}", crc32fast::hash(json.as_bytes()))).then_some(json)
}

/// What decides the runs: two plans with the same header have the same runs.
fn header(plan: &Plan, program: &str) -> Value {
    let [scenarios, files] = plan.prints();
    json!({
        "framewire_sweep": 1, "program": program, "scenario": plan.base().name, "axes": plan.axes(),
        "seeds": plan.seeds(), "scenarios": scenarios, "files": files,
    })
}

/// In what a journal's header differs from ours, if it does.
fn differs(found: &Value, ours: &Value) -> Option<String> {
    let names = [
        ("framewire_sweep", "its format is another version's"),
        ("program", "it was made by another build of this program"),
        ("scenario", "its scenario has another name"),
        ("axes", "it varies something else"),
        ("seeds", "its seeds are others"),
        ("scenarios", "its scenario has other text"),
        ("files", "a file that the scenario names has changed"),
    ];
    let different: Vec<&str> =
        names.iter().filter(|(key, _)| found[key] != ours[key]).map(|(_, what)| *what).collect();
    (!different.is_empty()).then(|| different.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::{Axis, Cell};
    use lab::scenario::Scenario;

    fn plan(seeds: &[u64]) -> Plan {
        let text = "duration = \"1s\"\n[link]\ndelay = \"20ms\"\n[[flow]]\ncc = \"sqp\"\n";
        let base = Scenario::parse(text, Path::new("base.toml")).unwrap();
        Plan::new(&base, vec![Axis::new("link.rate", ["1mbit", "2mbit"])], seeds.to_vec()).unwrap()
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("framewire-journal-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn done(run: usize) -> Run {
        let flows = vec![("sqp".to_owned(), vec![Cell::Real(0.1 * run as f64), Cell::None])];
        Run { run, seed: 1, hash: format!("{run:016x}"), flows }
    }

    #[test]
    fn a_torn_end_and_a_damaged_line_are_run_again_and_nothing_else() {
        let (folder, plan) = (folder("torn"), plan(&[1, 2]));
        let path = folder.join(Journal::NAME);
        let (mut journal, runs) = Journal::open(&folder, &plan, "p", false).unwrap();
        assert!(runs.is_empty());
        [2, 0, 3].into_iter().for_each(|run| journal.append(&done(run)).unwrap());
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        // Wherever the end is torn off, what stands before it stays, and more can be written.
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let (mut journal, runs) = Journal::open(&folder, &plan, "p", false).unwrap();
            let lines = whole[..cut].iter().filter(|&&byte| byte == b'\n').count();
            assert_eq!(runs.len(), lines.saturating_sub(1), "{cut}");
            journal.append(&done(1)).unwrap();
            drop(journal);
            let (_, again) = Journal::open(&folder, &plan, "p", false).unwrap();
            assert_eq!((again.len(), again.contains(&done(1))), (runs.len() + 1, true), "{cut}");
        }
        let mut damaged = whole.clone();
        let second = whole.windows(9).position(|w| w == b"{\"run\":0,").unwrap() + 7;
        damaged[second] = b'1';
        std::fs::write(&path, damaged).unwrap();
        let (_, runs) = Journal::open(&folder, &plan, "p", false).unwrap();
        assert_eq!(runs, [done(2), done(3)]);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn another_plan_is_refused_and_says_why_and_fresh_begins_anew() {
        let (folder, first) = (folder("other"), plan(&[1, 2]));
        let (mut journal, _) = Journal::open(&folder, &first, "p", false).unwrap();
        journal.append(&done(1)).unwrap();
        let refused =
            |plan: &Plan, program| Journal::open(&folder, plan, program, false).err().unwrap().to_string();
        assert!(refused(&first, "p").ends_with("another sweep writes to it; choose another folder"));
        drop(journal);
        let error = refused(&plan(&[1, 3]), "q");
        assert!(error.contains("made by another build of this program, its seeds are others;"), "{error}");
        assert!(error.contains("--fresh"), "{error}");
        assert_eq!(Journal::open(&folder, &first, "p", false).unwrap().1, [done(1)]);
        assert_eq!(Journal::open(&folder, &plan(&[1, 3]), "q", true).unwrap().1, []);
        std::fs::write(folder.join(Journal::NAME), "mine\n").unwrap();
        assert!(refused(&first, "p").contains("is no journal of a sweep"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
