//! Where the pictures of the last seconds are kept, for this process or, in a file, for one after it.

use std::path::{Path, PathBuf};

use media::Archive;
use real::Clock;
use tracing::warn;
use units::Span;
use upload::Upload;
use upload::journal::{Frame, Journal, Owner};

use super::Args;
use super::film::Film;
use crate::failure::Failure;
use crate::output;

/// The upload, which goes on with the frames of one that was killed if it left any.
pub fn upload(args: &Args, settings: vantage::Settings, film: &Film) -> Result<Upload, Failure> {
    let most = usize::try_from(args.archive.get()).unwrap_or(usize::MAX);
    let Some(file) = &args.archive_file else {
        return Ok(Upload::new(settings, Archive::in_memory(most)));
    };
    let Some(boot) = Clock::boot() else {
        warn!("the system has no name for its start, so that a killed upload can't be gone on with");
        return Ok(Upload::new(settings, Archive::in_file(file, most).map_err(Failure::input)?));
    };
    let owner = Owner { boot, name: args.name.clone(), size: film.size() };
    let longest = Span::from_secs_f64(settings.delays.longest());
    let frames = left(file, &owner, longest);
    let archive = match frames.first() {
        None => Archive::in_file(file, most),
        Some(first) => {
            let stored = frames.iter().map(|frame| frame.stored);
            Archive::of_file(file, most, owner.size, first.number, stored)
        }
    };
    let archive = archive.map_err(Failure::input)?;
    let journal = Journal::create(&journal_of(file), &owner, longest, film.interval());
    let upload = Upload::new(settings, archive).with_journal(journal.map_err(Failure::input)?, &frames);
    if !frames.is_empty() {
        let (all, missing) = (frames.len(), upload.status().missing);
        output::above_status(|| {
            eprintln!(
                "{}: goes on with {all} frames of an upload that was killed, {missing} of which the endpoint lacks",
                file.display()
            );
        });
    }
    Ok(upload)
}

/// The frames that an upload before this one left with this archive.
fn left(file: &Path, owner: &Owner, longest: Span) -> Vec<Frame> {
    let journal = journal_of(file);
    if !file.exists() {
        return Vec::new();
    }
    Journal::read(&journal, owner, Clock::shared().now(), longest).unwrap_or_else(|error| {
        warn!("{}: {error}; nothing of it is sent again", journal.display());
        Vec::new()
    })
}

fn journal_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".journal");
    name.into()
}

/// Removes the files of an upload that has ended.
pub fn remove(file: &Path) {
    for file in [file, &journal_of(file)] {
        // Whoever removed it before us has done our work.
        let _ = std::fs::remove_file(file);
    }
}
