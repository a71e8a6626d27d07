//! Where results go: standard output for results, standard error for progress, folders for files.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

/// Prints one JSON object on one line's worth of standard output, for programs.
pub fn json(value: &Value) {
    println!("{value:#}");
}

/// A stranger's words fit to be printed: one line, without characters that move a terminal's cursor.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A progress bar over `length` steps, drawn on standard error if that is a terminal; otherwise nothing at all.
pub fn progress(length: u64, what: &str) -> ProgressBar {
    // indicatif's own target is standard error, hidden where that is no terminal.
    let bar = ProgressBar::new(length);
    let style = ProgressStyle::with_template("{msg:24} {bar:32} {percent:>3} %  {eta}");
    bar.set_style(style.expect("the template is fixed"));
    bar.set_message(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
