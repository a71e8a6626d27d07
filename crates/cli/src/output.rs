//! Where results go: standard output for results, standard error for progress and logs, folders for files.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use instruments::{Bar, Progress};
use serde_json::Value;

/// Prints one JSON object on one line's worth of standard output, for programs.
pub fn json(value: &Value) {
    println!("{value:#}");
}

/// Says on standard error what a person should know before they believe what follows, each sentence once.
pub fn warn(sentences: impl IntoIterator<Item = String>) {
    let mut told: Vec<String> = Vec::new();
    for sentence in sentences {
        if !told.contains(&sentence) {
            above_status(|| eprintln!("warning: {sentence}"));
            told.push(sentence);
        }
    }
}

/// The same of a controller and a rate policy that do not go together.
pub fn warn_of_pair(controller: &str, rate: &str) {
    warn(pair(controller, rate));
}

/// What is to be known of a controller and a rate policy, as written with their options, if anything.
pub fn pair(controller: &str, rate: &str) -> Option<String> {
    session::rate::advice(&controller.parse().ok()?, &rate.parse().ok()?)
}

/// A stranger's words fit to be printed: one line, without characters that move a terminal's cursor.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// All that is drawn on the terminal and changes. indicatif draws on standard error, and nothing at all where
/// that is no terminal.
fn status() -> &'static MultiProgress {
    static STATUS: OnceLock<MultiProgress> = OnceLock::new();
    STATUS.get_or_init(MultiProgress::new)
}

/// A line that changes while a run goes on, on standard error if that is a terminal.
pub fn ticker() -> ProgressBar {
    status().add(ProgressBar::new_spinner())
}

/// Does `print` with the changing lines out of the way, and draws them again below what it printed.
pub fn above_status<T>(print: impl FnOnce() -> T) -> T {
    status().suspend(print)
}

/// Tells people that a clip's sound goes nowhere.
pub fn mention_sound(clip: &Path) {
    if media::has_sound(clip) {
        eprintln!("note: the sound of {} is left out; only pictures are sent", clip.display());
    }
}

/// How long work is silent off a terminal before the first line about it, and between two.
const SILENT_FOR: [Duration; 2] = [Duration::from_secs(20), Duration::from_secs(30)];

/// Off a terminal nothing is drawn; a line now and then says that the work goes on.
fn speak(bar: &ProgressBar) {
    if std::io::stderr().is_terminal() {
        return;
    }
    let (weak, begun) = (bar.downgrade(), Instant::now());
    // A thread that can't be had costs these lines, not the work.
    let _ = std::thread::Builder::new().name("progress".to_owned()).spawn(move || {
        let [mut silence, every] = SILENT_FOR;
        let mut last = begun;
        while let Some(bar) = weak.upgrade().filter(|bar| !bar.is_finished()) {
            if last.elapsed() >= silence {
                eprintln!("{}", line(&bar.message(), bar.position(), bar.length(), begun.elapsed()));
                (last, silence) = (Instant::now(), every);
            }
            drop(bar);
            std::thread::sleep(Duration::from_millis(200));
        }
    });
}

fn line(what: &str, done: u64, of: Option<u64>, took: Duration) -> String {
    let share =
        of.filter(|of| *of > 0).map_or(String::new(), |of| format!(" {} %,", 100 * done.min(of) / of));
    format!("{}:{share} {} s so far", if what.is_empty() { "working" } else { what }, took.as_secs())
}

/// The same for work that has more to say, before the bar, and says how long it will still take.
pub fn long_progress(length: u64) -> ProgressBar {
    let bar = progress(length, "");
    let style = ProgressStyle::with_template("{msg}  {bar:24} {percent:>3} %  {eta} left");
    bar.set_style(style.expect("the template is fixed"));
    bar
}

/// A progress bar over `length` steps, drawn on standard error if that is a terminal; otherwise nothing at
/// all.
pub fn progress(length: u64, what: &str) -> ProgressBar {
    let bar = status().add(ProgressBar::new(length));
    let style = ProgressStyle::with_template("{msg:24} {bar:32} {percent:>3} %  {eta}");
    bar.set_style(style.expect("the template is fixed"));
    bar.set_message(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    speak(&bar);
    bar
}

/// Instruments tell the terminal how far they are.
pub struct Terminal;

impl Progress for Terminal {
    fn begin(&self, steps: u64, what: &str) -> Box<dyn Bar> {
        Box::new(Drawn(progress(steps, what)))
    }
}

/// A bar that is gone with the work it is for.
struct Drawn(ProgressBar);

impl Bar for Drawn {
    fn advance(&self) {
        self.0.inc(1);
    }
    fn reach(&self, done: u64) {
        self.0.set_position(done);
    }
    fn say(&self, what: String) {
        self.0.set_message(what);
    }
}

impl Drop for Drawn {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_how_far_the_work_is() {
        let took = Duration::from_secs(50);
        assert_eq!(line("generation 2 of 9", 30, Some(90), took), "generation 2 of 9: 33 %, 50 s so far");
        assert_eq!(line("", 3, None, took), "working: 50 s so far");
        assert_eq!(line("lab", 5, Some(0), took), "lab: 50 s so far");
    }

    #[test]
    fn a_bar_that_has_ended_is_let_go() {
        let bar = progress(10, "x");
        let weak = bar.downgrade();
        bar.finish_and_clear();
        drop(bar);
        // The thread may hold it for a moment yet, and not for ever.
        while weak.upgrade().is_some_and(|bar| !bar.is_finished()) {
            std::thread::yield_now();
        }
    }
}
