//! Tells the module which commit it was built from, as the command's build does: the same for the same
//! sources.

use std::path::Path;
use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

/// The commit, with a `+` where the sources differ from it; `unknown` outside a checkout.
fn commit() -> String {
    let Some(head) = git(&["rev-parse", "--short=12", "HEAD"]) else { return "unknown".to_owned() };
    // Without optional locks git leaves its index as it is; a build that touched it would be followed by
    // another.
    let status = ["--no-optional-locks", "status", "--porcelain", "--", "..", "../../Cargo.lock"];
    let clean = git(&status).is_some_and(|text| text.is_empty());
    if clean { head } else { format!("{head}+") }
}

fn main() {
    println!("cargo::rustc-env=FRAMEWIRE_COMMIT={}", commit());
    println!("cargo::rerun-if-changed=..");
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name]).filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    // On macOS the interpreter's symbols are found when it loads the module, not when this is linked.
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("macos") {
        println!("cargo::rustc-cdylib-link-arg=-undefined");
        println!("cargo::rustc-cdylib-link-arg=dynamic_lookup");
    }
}
