//! The examples in C, compiled against the header and the library of this build: under AddressSanitizer and
//! UndefinedBehaviorSanitizer, as they are, and under valgrind where that is installed. A C++ compiler
//! reads the header, too.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const STRICT: [&str; 7] = ["-std=c11", "-pthread", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g"];
const SANITISED: [&str; 3] =
    ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where this build left its library: beside this test.
fn library() -> PathBuf {
    env::current_exe().expect("a test is a file").parent().expect("in a folder").to_owned()
}

fn works(program: &OsStr, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

/// The first of these programs that there is; says so where there is none.
fn found(what: &str, variable: &str, names: &[&str]) -> Option<PathBuf> {
    let set = env::var_os(variable).filter(|set| !set.is_empty());
    let names = set.into_iter().chain(names.iter().map(Into::into));
    let program = names.into_iter().find(|name| works(name, &["--version"]));
    if program.is_none() {
        println!("skipped: there is no {what}");
    }
    program.map(PathBuf::from)
}

fn compiler() -> Option<PathBuf> {
    found("C compiler", "CC", &["cc", "gcc", "clang"])
}

/// Compiles example `name` with `flags`, to a program of its own for each `kind`.
fn compiled(compiler: &Path, name: &str, kind: &str, flags: &[&str]) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("capi-{name}-{kind}"));
    let library = library();
    let output = Command::new(compiler)
        .args(STRICT)
        .args(flags)
        .arg("-I")
        .arg(root().join("include"))
        .arg(root().join("examples").join(name).with_extension("c"))
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(&library)
        .arg("-lframewire_c")
        .arg(format!("-Wl,-rpath,{}", library.display()))
        .output()
        .expect("the compiler runs");
    succeeded(&format!("compiling {name}.c"), &output);
    program
}

fn succeeded(what: &str, output: &Output) {
    let [said, complained] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{what}: {}\n{said}{complained}", output.status);
}

/// Runs a program and returns what it prints.
fn run(what: &str, command: &mut Command) -> String {
    let output = command.output().expect("it runs");
    succeeded(what, &output);
    String::from_utf8(output.stdout).expect("it prints text")
}

/// What the sanitisers' runtime needs may be missing where the compiler is not.
fn sanitises(compiler: &Path) -> bool {
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("capi-empty.c");
    std::fs::write(&source, "int main(void) { return 0; }\n").expect("the build folder can be written");
    let program = source.with_extension("out");
    let built = Command::new(compiler).args(SANITISED).arg(&source).arg("-o").arg(&program).output();
    let fine = built.is_ok_and(|output| output.status.success()) && works(program.as_os_str(), &[]);
    if !fine {
        println!("skipped: {} has no sanitisers that run here", compiler.display());
    }
    fine
}

/// Every example, each with what it is run with: all kinds of controllers, by window, by rate, by frames, and
/// with a half at the receiver.
const RUNS: [(&str, &[&str]); 7] = [
    ("udp", &[]),
    ("loopback", &[]),
    ("loopback", &["gcc-rmcat-02"]),
    ("loopback", &["sprout"]),
    ("core", &[]),
    ("core", &["cubic"]),
    ("core", &["sprout"]),
];

#[test]
fn examples_run_clean_under_the_sanitisers() {
    let Some(compiler) = compiler().filter(|compiler| sanitises(compiler)) else { return };
    for (name, arguments) in RUNS {
        let program = compiled(&compiler, name, "sanitised", &SANITISED);
        let mut command = Command::new(program);
        command.args(arguments).env("ASAN_OPTIONS", "detect_leaks=1:detect_stack_use_after_return=1");
        print!("{}", run(&format!("{name} {arguments:?} under the sanitisers"), &mut command));
    }
}

/// `program` under valgrind, which makes of a leak or of bytes that were never written a failure.
fn watched(valgrind: &Path, program: &Path) -> Command {
    let mut command = Command::new(valgrind);
    command.args(["-q", "--leak-check=full", "--show-leak-kinds=definite,indirect", "--error-exitcode=99"]);
    command.arg(program);
    command
}

fn valgrind() -> Option<PathBuf> {
    found("valgrind", "VALGRIND", &["valgrind"])
}

#[test]
fn examples_print_the_same_each_time_and_leak_nothing() {
    let Some(compiler) = compiler() else { return };
    let valgrind = valgrind();
    for name in ["loopback", "core"] {
        let program = compiled(&compiler, name, "plain", &[]);
        let printed = run(name, &mut Command::new(&program));
        assert!(printed.lines().count() >= 2, "{printed}");
        assert_eq!(run(name, &mut Command::new(&program)), printed);
        if let Some(valgrind) = &valgrind {
            let mut command = watched(valgrind, &program);
            assert_eq!(run(&format!("{name} under valgrind"), &mut command), printed);
        }
    }
}

/// The example itself holds what arrived, and how late, to what two threads on one machine manage.
#[test]
fn two_ends_meet_over_udp_on_the_real_clock() {
    let Some(compiler) = compiler() else { return };
    let program = compiled(&compiler, "udp", "plain", &[]);
    print!("{}", run("udp", &mut Command::new(&program)));
    if let Some(valgrind) = valgrind() {
        print!("{}", run("udp under valgrind", &mut watched(&valgrind, &program)));
    }
}

#[test]
fn a_name_that_is_unknown_is_told_the_likely_ones() {
    let Some(compiler) = compiler() else { return };
    let program = compiled(&compiler, "core", "named", &[]);
    let output = Command::new(program).arg("bbr9").output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("did you mean `bbr`"), "{said}");
}

#[test]
fn the_header_is_also_one_of_cpp() {
    let Some(compiler) = found("C++ compiler", "CXX", &["c++", "g++", "clang++"]) else { return };
    let output = Command::new(compiler)
        .args(["-x", "c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"])
        .arg(root().join("include/framewire.h"))
        .output();
    succeeded("the header as C++", &output.expect("the compiler runs"));
}
