//! What went wrong, in one line.

use std::fmt::Display;
use std::process::ExitCode;

/// Why the command ends without having done its work.
#[derive(Debug)]
pub enum Failure {
    /// Something given is not acceptable: exit code 2. The text names it and what would be accepted.
    Input(String),
    /// The work itself failed: exit code 1.
    Work(String),
    /// Nothing of ours: a command that was run for somebody ended with this exit code.
    Command(u8),
    /// Not a failure: help or version text that was asked for.
    Help(clap::Error),
}

impl Failure {
    /// Something given is not acceptable.
    pub fn input(error: impl Display) -> Failure {
        Failure::Input(error.to_string())
    }

    /// The work failed.
    pub fn work(error: impl Display) -> Failure {
        Failure::Work(error.to_string())
    }

    /// What it says, for a log.
    pub fn text(&self) -> String {
        match self {
            Failure::Input(text) | Failure::Work(text) => one_line(text),
            Failure::Command(code) => format!("the command ended with {code}"),
            Failure::Help(error) => one_line(&error.to_string()),
        }
    }

    /// Prints it and says how the process should end.
    pub fn report(self) -> ExitCode {
        match self {
            Failure::Help(error) => {
                // A reader that is gone has no use for an error either.
                let _ = error.print();
                ExitCode::SUCCESS
            }
            Failure::Command(code) => ExitCode::from(code),
            Failure::Input(text) => {
                eprintln!("error: {}", one_line(&text));
                ExitCode::from(2)
            }
            Failure::Work(text) => {
                eprintln!("error: {}", one_line(&text));
                ExitCode::from(1)
            }
        }
    }
}

impl From<instruments::Failure> for Failure {
    fn from(failure: instruments::Failure) -> Failure {
        match failure {
            instruments::Failure::Input(text) => Failure::Input(text),
            instruments::Failure::Work(text) => Failure::Work(text),
        }
    }
}

fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Clap's report of bad arguments without its usage paragraphs, which `--help` gives in full.
pub fn of_arguments(error: clap::Error) -> Failure {
    use clap::error::ErrorKind;
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return Failure::Help(error);
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Failure::Input("a command is needed; `framewire --help` lists them".to_owned());
    }
    let text = error.to_string();
    let paragraphs =
        text.lines().take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let mut text = one_line(&paragraphs.collect::<Vec<_>>().join("\n"));
    for (rust, plain) in OF_NUMBERS {
        text = text.replace(rust, plain);
    }
    Failure::Input(format!("{} (see --help)", text.trim_start_matches("error: ")))
}

/// What the standard library says of texts that are no numbers, and the same for those who don't know its
/// types.
const OF_NUMBERS: [(&str, &str); 4] = [
    ("invalid digit found in string", "it must be a whole number, 0 or more"),
    ("number too large to fit in target type", "it is too large"),
    ("number too small to fit in target type", "it is too small"),
    ("invalid float literal", "it must be a number"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_take_one_line() {
        assert_eq!(one_line("a\n\n   b\n c  \n"), "a b c");
    }
}
