//! The package `framewire` as Python has it: the module that cargo built beside these tests, put where an
//! interpreter finds it, under the tests in `python/tests`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The folder that cargo builds into (`target/debug`).
fn built() -> PathBuf {
    let test = std::env::current_exe().expect("this process has a file");
    test.ancestors().nth(2).expect("it is in PROFILE/deps").to_owned()
}

fn python() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python")
}

/// A folder with the package in it, as the wheel installs it.
fn installed() -> PathBuf {
    let site = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("site");
    let package = site.join("framewire");
    let _ = fs::remove_dir_all(&package);
    fs::create_dir_all(&package).expect("cargo's folder can be written");
    let sources = fs::read_dir(python().join("framewire")).expect("the package is there").flatten();
    for source in sources.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e != "so"))
    {
        fs::copy(&source, package.join(source.file_name().expect("it is a file"))).expect("it can be copied");
    }
    let module =
        ["libframewire_python.so", "libframewire_python.dylib"].map(|name| built().join("deps").join(name));
    let module = module.iter().find(|path| path.is_file()).expect("cargo builds the library for this test");
    fs::copy(module, package.join("_framewire.abi3.so")).expect("it can be copied");
    site
}

/// Python with the package, and with what `make python` installed (`target/python`).
fn run(site: &Path, arguments: &[&str]) -> Output {
    let beside = built().parent().expect("profiles are in a folder").join("python");
    let path = std::env::join_paths([site, &beside]).expect("no colon in cargo's folders");
    let mut python_ = Command::new("python3");
    python_.args(arguments).env("PYTHONPATH", path).env("PYTHONDONTWRITEBYTECODE", "1").current_dir(site);
    python_
        .env("FRAMEWIRE_COMMAND", built().join("framewire"))
        .env("FRAMEWIRE_CHECKOUT", python().join(".."));
    python_.output().expect("python3 was there a moment ago")
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Why the tests can't run here, if so.
fn lacking() -> Option<&'static str> {
    let new = "import sys; sys.exit(sys.version_info < (3, 11))";
    let runs = Command::new("python3").args(["-c", new]).status().is_ok_and(|status| status.success());
    (!runs).then_some("python3 of 3.11 or newer")
}

#[test]
fn the_package_passes_its_tests() {
    if let Some(lacking) = lacking() {
        eprintln!("skipped: the tests of the Python package need {lacking}");
        return;
    }
    let site = installed();
    let imported = run(&site, &["-c", "import framewire; print(framewire.__version__)"]);
    assert!(imported.status.success(), "{}", said(&imported));
    assert_eq!(String::from_utf8_lossy(&imported.stdout).trim(), env!("CARGO_PKG_VERSION"));
    if !run(&site, &["-c", "import pytest, numpy"]).status.success() {
        eprintln!("skipped: the tests of the Python package need pytest and numpy (make python)");
        return;
    }
    let tests = python().join("tests/framewire");
    let tests = tests.to_str().expect("the path is text");
    let output = run(&site, &["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", tests]);
    assert!(output.status.success(), "{}", said(&output));
    println!("{}", said(&output));
}
