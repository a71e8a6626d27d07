//! What shells and `man` want to know of the command: `framewire completions` and `framewire man`.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap_complete::Shell;
use lab::files::{WriteError, write_folder, write_whole};

use crate::args::Args;
use crate::failure::Failure;
use crate::simulate::can_make_folder;

/// Prints the completions of one shell (`framewire completions`).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  framewire completions bash > ~/.local/share/bash-completion/completions/framewire
  framewire completions zsh > ~/.zfunc/_framewire
  framewire completions fish > ~/.config/fish/completions/framewire.fish")]
pub struct Completions {
    /// For which shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Writes a manual page of each command into a folder (`framewire man`).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  framewire man ~/.local/share/man/man1        then `man framewire-send`, where that folder's parent is in MANPATH")]
pub struct Man {
    /// Folder for the pages, one a command; it is made, and may exist
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}

/// Prints what a shell needs to complete the command line.
pub fn completions(args: &Completions) {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "framewire", &mut script);
    print!("{}", String::from_utf8_lossy(&script));
}

/// Writes the manual's pages.
pub fn man(args: &Man) -> Result<(), Failure> {
    can_make_folder(&args.folder)?;
    let mut grammar = Args::command();
    grammar.build();
    write_folder(&args.folder, &[], |folder| page(&grammar, "framewire", folder)).map_err(Failure::work)?;
    println!("{}", args.folder.join("framewire.1").display());
    Ok(())
}

/// The page of a command, called `name` in full, and those of its subcommands.
fn page(command: &clap::Command, name: &str, folder: &Path) -> Result<(), WriteError> {
    let manual = clap_mangen::Man::new(command.clone()).title(name.replace(' ', "-"));
    let path = folder.join(format!("{}.1", name.replace(' ', "-")));
    write_whole(&path, |file| {
        let mut text = Vec::new();
        manual.render(&mut text)?;
        file.write_all(&text)
    })?;
    let below = command.get_subcommands().filter(|below| below.get_name() != "help");
    below.into_iter().try_for_each(|below| page(below, &format!("{name} {}", below.get_name()), folder))
}
