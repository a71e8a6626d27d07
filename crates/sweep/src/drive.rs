//! Runs a plan on several threads, from where its journal stands.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use lab::files::WriteError;

use crate::error::SweepError;
use crate::groups;
use crate::journal::Journal;
use crate::page;
use crate::plan::Plan;
use crate::run::{Run, run_one};
use crate::table::Table;

/// How to run a plan.
pub struct Options<'a> {
    /// Runs at the same time, at least 1. Results do not depend on it.
    pub jobs: usize,
    /// Commit of the program, for the results.
    pub commit: String,
    /// What names exactly this code: the commit, or more where the sources differ from it. A journal of other
    /// code is not continued.
    pub program: String,
    /// Whether what the folder holds is forgotten.
    pub fresh: bool,
    /// Told how many runs are done, those of earlier times included, and of how many; from several threads.
    pub progress: &'a (dyn Fn(usize, usize) + Sync),
    /// Asked before each run whether to stop.
    pub stop: &'a (dyn Fn() -> bool + Sync),
}

impl Default for Options<'_> {
    /// One run at a time, no progress, no end before the end, commit unknown.
    fn default() -> Self {
        let unknown = || "unknown".to_owned();
        Options {
            jobs: 1,
            commit: unknown(),
            program: unknown(),
            fresh: false,
            progress: &|_, _| {},
            stop: &|| false,
        }
    }
}

/// What threads share.
struct Done {
    journal: Journal,
    runs: Vec<Run>,
    trouble: Option<SweepError>,
}

/// Runs what is missing of `plan` in `folder`, which is made if needed, and returns all of it. A run that has
/// ended survives the end of the process; the same call goes on from there.
///
/// # Errors
/// As [`Journal::open`]; [`SweepError::Run`] if a run fails, [`SweepError::Stopped`] if it was asked to stop.
pub fn run(plan: &Plan, folder: &Path, options: &Options<'_>) -> Result<Table, SweepError> {
    std::fs::create_dir_all(folder).map_err(|source| WriteError { path: folder.to_owned(), source })?;
    let (journal, runs) = Journal::open(folder, plan, &options.program, options.fresh)?;
    if options.fresh {
        // What stands there is of no sweep any more.
        [Table::NAME, groups::NAME, page::NAME]
            .iter()
            .for_each(|name| drop(std::fs::remove_file(folder.join(name))));
    }
    let mut known = vec![false; plan.len()];
    runs.iter().for_each(|run| known[run.run] = true);
    let missing: Vec<usize> = (0..plan.len()).filter(|&index| !known[index]).collect();
    (options.progress)(runs.len(), plan.len());
    let done = Mutex::new(Done { journal, runs, trouble: None });
    let (next, halt) = (AtomicUsize::new(0), AtomicBool::new(false));
    let work = || {
        while !halt.load(Ordering::Relaxed) && !(options.stop)() {
            // Each run goes to one thread alone.
            let Some(&index) = missing.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
            let run = run_one(plan, index, &options.commit);
            let mut done = done.lock().expect("no thread panics while it holds this");
            let kept = run.and_then(|run| {
                done.journal.append(&run)?;
                done.runs.push(run);
                Ok(())
            });
            if let Err(error) = kept {
                halt.store(true, Ordering::Relaxed);
                done.trouble.get_or_insert(error);
                break;
            }
            (options.progress)(done.runs.len(), plan.len());
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..options.jobs.min(missing.len()) {
            scope.spawn(work);
        }
        work();
    });
    let Done { runs, trouble, .. } = done.into_inner().expect("no thread panicked");
    match trouble {
        Some(trouble) => Err(trouble),
        None if runs.len() < plan.len() => Err(SweepError::Stopped { done: runs.len(), of: plan.len() }),
        None => Table::of(plan, &options.commit, runs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::Axis;
    use lab::scenario::Scenario;

    #[test]
    fn threads_and_interruptions_leave_no_trace_in_the_table() {
        let text = "duration = \"1s\"\n[link]\nrate = \"2mbit\"\ndelay = \"20ms\"\nloss = \"1%\"\n[[flow]]\ncc = \"sqp\"\n";
        let base = Scenario::parse(text, Path::new("base.toml")).unwrap();
        let plan = Plan::new(&base, vec![Axis::new("flow[1].cc", ["sqp", "gcc"])], vec![1, 2, 3]).unwrap();
        let top = std::env::temp_dir().join(format!("framewire-drive-{}", std::process::id()));
        let whole = run(&plan, &top.join("whole"), &Options::default()).unwrap();
        let parts = top.join("parts");
        let asked = AtomicUsize::new(0);
        let stop = || asked.fetch_add(1, Ordering::Relaxed) >= 2;
        let stopped = run(&plan, &parts, &Options { stop: &stop, ..Options::default() });
        assert!(matches!(stopped, Err(SweepError::Stopped { done: 2, of: 6 })));
        let counts = Mutex::new(Vec::new());
        let progress = |done, of| counts.lock().unwrap().push((done, of));
        let resumed =
            run(&plan, &parts, &Options { jobs: 3, progress: &progress, ..Options::default() }).unwrap();
        assert_eq!(resumed, whole);
        assert_eq!(counts.into_inner().unwrap(), [(2, 6), (3, 6), (4, 6), (5, 6), (6, 6)]);
        std::fs::remove_dir_all(&top).unwrap();
    }
}
