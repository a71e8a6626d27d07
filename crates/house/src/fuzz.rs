//! The fuzz targets are a workspace of their own, with a profile of its own. Where it differs from ours cargo
//! checks three hundred dependencies a second time, which takes minutes and says nothing new.

fn development(manifest: &str) -> toml::Table {
    let mut table: toml::Table = manifest.parse().expect("a manifest is TOML");
    let profile = table["profile"]["dev"].as_table_mut().expect("a profile is a table");
    let packages = profile.remove("package").expect("dependencies have a profile of their own");
    let dependencies = packages["*"].clone();
    profile.insert("dependencies".to_owned(), dependencies);
    std::mem::take(profile)
}

#[test]
fn profile() {
    let ours = development(include_str!("../../../Cargo.toml"));
    assert_eq!(development(include_str!("../../../fuzz/Cargo.toml")), ours, "fuzz/Cargo.toml, [profile.dev]");
}
