//! The header that a host includes is the one that the source makes.

use std::path::Path;
use std::{env, fs};

use cbindgen::{Builder, Config};

#[test]
fn the_header_is_that_of_the_source() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = Config::from_file(root.join("cbindgen.toml")).expect("cbindgen.toml reads");
    // Modules are found from there.
    let builder = Builder::new().with_config(config).with_src(root.join("src/lib.rs"));
    let mut made = Vec::new();
    builder.generate().expect("a header can be made").write(&mut made);
    let made = String::from_utf8(made).expect("it is text");

    let path = root.join("include/framewire.h");
    if env::var_os("FRAMEWIRE_WRITE_HEADER").is_some() {
        fs::write(&path, &made).expect("include/framewire.h can be written");
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    let differs = (1..).zip(made.lines().zip(committed.lines())).find(|(_, (made, there))| made != there);
    assert!(
        made == committed,
        "include/framewire.h is not what src/ makes, from line {}: write it anew with\n    \
         FRAMEWIRE_WRITE_HEADER=1 cargo test -p framewire-capi --test header",
        differs.map_or(committed.lines().count() + 1, |(line, _)| line)
    );
}

#[test]
fn every_function_of_the_source_is_in_the_header() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = fs::read_to_string(root.join("include/framewire.h")).expect("include/framewire.h is there");
    let mut seen = 0;
    for file in fs::read_dir(root.join("src")).expect("src/ is there") {
        let text = fs::read_to_string(file.expect("it can be listed").path()).expect("it is text");
        let functions = text.split("extern \"C\" fn ").skip(1).filter_map(|rest| rest.split('(').next());
        for function in functions.filter(|name| name.starts_with("fw_")) {
            assert!(header.contains(&format!("{function}(")), "{function} is not in include/framewire.h");
            seen += 1;
        }
    }
    assert!(seen > 30, "{seen} functions");
}

#[test]
fn an_installed_library_is_named_after_the_abi() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let [header, manifest] =
        ["include/framewire.h", "Cargo.toml"].map(|name| fs::read_to_string(root.join(name)).expect(name));
    let after = |text: &str, what: &str| {
        let (_, rest) = text.split_once(what).unwrap_or_else(|| panic!("no {what}"));
        rest.chars().take_while(char::is_ascii_digit).collect::<String>()
    };
    let library = manifest.split_once("[package.metadata.capi.library]").expect("cargo-c's settings").1;
    assert_eq!(after(library, "\nversion = \""), after(&header, "#define FW_ABI_VERSION "));
}
