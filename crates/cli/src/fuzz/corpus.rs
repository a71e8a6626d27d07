//! A folder of findings that searches on several machines share. A network is added whole or not at all,
//! under its own fingerprint, so that nobody has to ask anybody.

use std::fs;
use std::path::Path;

use ccfuzz::finding::{self, Finding};
use ccfuzz::{Genome, Target};

use crate::failure::Failure;

/// The networks of a corpus that fit `target`, in order of their names: those of other lengths or parts are
/// left out.
pub fn visitors(folder: &Path, target: &Target) -> Result<Vec<Genome>, Failure> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let folders = finding::all(folder).map_err(Failure::input)?;
    let findings = folders.iter().map(|folder| Finding::read(folder).map_err(Failure::input));
    let findings = findings.collect::<Result<Vec<Finding>, Failure>>()?;
    let same = |finding: &Finding| finding.record.mode == target.mode && finding.target.space == target.space;
    Ok(findings.into_iter().filter(same).map(|finding| finding.genome).collect())
}

/// Adds a network to a corpus, unless it is there.
pub fn add(folder: &Path, found: &Finding) -> Result<(), Failure> {
    let print = format!("{:032x}", found.genome.fingerprint());
    let goal = folder.join(&print);
    if goal.exists() {
        return Ok(());
    }
    let partial = folder.join(format!(".{print}-{}", std::process::id()));
    found.write(&partial).map_err(Failure::work)?;
    // Somebody may have been faster; then theirs stays.
    if fs::rename(&partial, &goal).is_err() {
        fs::remove_dir_all(&partial).map_err(Failure::work)?;
    }
    Ok(())
}
