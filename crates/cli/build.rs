//! Tells the command which commit it was built from, so that every result can say so, and packs what comes
//! along with it: experiments, findings, scenarios, traces and the page of `framewire serve`, so that an
//! installed command needs no checkout.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

/// The commit that `cargo package` wrote beside the sources it packed.
fn packaged_commit() -> Option<String> {
    let text = std::fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, after) = text.split_once("\"sha1\"")?;
    Some(after.split('"').nth(1)?.chars().take(12).collect())
}

/// The commit, with a `+` where the sources differ from it; `unknown` outside a checkout and a package.
fn commit() -> String {
    if let Some(commit) = packaged_commit() {
        return commit;
    }
    let Some(head) = git(&["rev-parse", "--short=12", "HEAD"]) else { return "unknown".to_owned() };
    // Without optional locks git leaves its index as it is; a build that touched it would be followed by
    // another.
    let status = ["--no-optional-locks", "status", "--porcelain", "--", "..", "../../Cargo.lock"];
    let clean = git(&status).is_some_and(|text| text.is_empty());
    if clean { head } else { format!("{head}+") }
}

/// The folder of this package with what the command brings along: experiments, findings, scenarios, traces.
/// In a checkout it holds links to the repository's folders, which `cargo package` follows.
const SHIPPED: &str = "shipped";

/// All files below `folder`, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut all: Vec<PathBuf> = Vec::new();
    for entry in entries {
        let path = entry.path();
        if path.is_dir() { all.extend(files(&path)) } else { all.push(path) }
    }
    all.sort();
    all
}

/// A table of files by their paths below `base`, with their bytes.
fn table(name: &str, base: &Path, files: &[PathBuf]) -> String {
    let mut text = format!("pub static {name}: &[(&str, &[u8])] = &[\n");
    for file in files {
        let below = file.strip_prefix(base).expect("it was found below it");
        let parts: Vec<_> = below.iter().map(|part| part.to_string_lossy()).collect();
        writeln!(text, "    ({:?}, include_bytes!({:?})),", parts.join("/"), file).expect("a text grows");
    }
    text + "];\n"
}

/// Where `make web` puts the page: `web` in the folder that cargo builds into, which holds ours
/// (`PROFILE/build/PACKAGE/out`).
fn page_folder(out: &Path) -> PathBuf {
    let target = out.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
    target.or(out.ancestors().nth(4)).unwrap_or(out).join("web")
}

fn pack() {
    let shipped = std::fs::canonicalize(SHIPPED).expect("the package holds it");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    let data = files(&shipped);
    for folder in ["experiments", "findings", "scenarios", "traces"] {
        let lies_there = data.iter().any(|file| file.starts_with(shipped.join(folder)));
        assert!(
            lies_there,
            "crates/cli/{SHIPPED}/{folder} holds nothing; does this checkout have symbolic links?"
        );
    }
    let page = page_folder(&out);
    // Without an index it is not built, or not whole.
    let of_page = if page.join("index.html").is_file() { files(&page) } else { Vec::new() };
    let text = table("DATA", &shipped, &data) + &table("PAGE", &page, &of_page);
    std::fs::write(out.join("shipped.rs"), text).expect("cargo's folder can be written");
    for folder in std::fs::read_dir(&shipped).into_iter().flatten().flatten() {
        let folder = std::fs::canonicalize(folder.path()).expect("it was listed");
        println!("cargo::rerun-if-changed={}", folder.display());
    }
    // Cargo takes a path that is not there for one that has changed.
    if std::fs::create_dir_all(&page).is_ok() {
        println!("cargo::rerun-if-changed={}", page.display());
    }
}

fn main() {
    pack();
    println!("cargo::rustc-env=FRAMEWIRE_COMMIT={}", commit());
    // In a package the folder above is not ours.
    println!("cargo::rerun-if-changed={}", if packaged_commit().is_some() { "." } else { ".." });
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name]).filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}
