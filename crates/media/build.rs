//! With the feature `vpx`: finds the system's libvpx and compiles the few lines of C before it
//! (`src/vp8/libvpx.c`).

fn main() {
    #[cfg(feature = "vpx")]
    vpx();
}

/// The oldest libvpx whose interface `libvpx.c` is written for.
#[cfg(feature = "vpx")]
const OLDEST: &str = "1.8";

#[cfg(feature = "vpx")]
fn vpx() {
    let found = pkg_config::Config::new().atleast_version(OLDEST).cargo_metadata(false).probe("vpx");
    let library = found.unwrap_or_else(|error| {
        panic!(
            "the feature `vpx` needs libvpx {OLDEST} or later and pkg-config \
             (Debian, Ubuntu: apt-get install libvpx-dev pkg-config): {error}"
        )
    });
    println!("cargo:rerun-if-changed=src/vp8/libvpx.c");
    c_compiler::Build::new()
        .file("src/vp8/libvpx.c")
        .includes(&library.include_paths)
        .warnings(true)
        .extra_warnings(true)
        .compile("framewire_vp8");
    // After what needs it, as linkers want it.
    library.link_paths.iter().for_each(|path| println!("cargo:rustc-link-search=native={}", path.display()));
    library.libs.iter().for_each(|name| println!("cargo:rustc-link-lib={name}"));
}
