//! Where results go: standard output for results, standard error for progress and logs, folders for files.

use std::sync::OnceLock;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
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

/// All that is drawn on the terminal and changes. indicatif draws on standard error, and nothing at all where that is no terminal.
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

/// The same for work that has more to say, before the bar, and says how long it will still take.
pub fn long_progress(length: u64) -> ProgressBar {
    let bar = progress(length, "");
    let style = ProgressStyle::with_template("{msg}  {bar:24} {percent:>3} %  {eta} left");
    bar.set_style(style.expect("the template is fixed"));
    bar
}

/// A progress bar over `length` steps, drawn on standard error if that is a terminal; otherwise nothing at all.
pub fn progress(length: u64, what: &str) -> ProgressBar {
    let bar = status().add(ProgressBar::new(length));
    let style = ProgressStyle::with_template("{msg:24} {bar:32} {percent:>3} %  {eta}");
    bar.set_style(style.expect("the template is fixed"));
    bar.set_message(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
