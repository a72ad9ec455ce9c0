//! Links `hull` statically, so that a start loads one file and binds no symbols.
//!
//! `-C target-feature=+crt-static` would do the same, but applies to procedural macros too, which can't be static, unless
//! `cargo build` names a target, which changes where the program is put. So the standard library's requests for shared
//! libraries (`-lc`, `-lgcc_s` …) find linker scripts here that name the archives. Without the archives (a C library without its
//! static form) the program is linked as usual.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// The libraries that the standard library asks for, and the archives that take their places.
const LIBRARIES: [(&str, &[&str]); 7] = [
    ("gcc_s", &["libgcc_eh.a"]),
    ("util", &["libutil.a"]),
    ("rt", &["librt.a"]),
    ("pthread", &["libpthread.a"]),
    ("m", &["libm.a"]),
    ("dl", &["libdl.a"]),
    // The C library and the unwinder need each other.
    ("c", &["libc.a", "libgcc_eh.a", "libgcc.a"]),
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let features = env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    let is_static = features.split(',').any(|feature| feature == "crt-static");
    if !is("CARGO_CFG_TARGET_OS", "linux") || !is("CARGO_CFG_TARGET_ENV", "gnu") || is_static {
        return;
    }
    let place = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("static");
    match LIBRARIES.iter().try_for_each(|(name, archives)| script(&place, name, archives)) {
        Ok(()) => {
            // For the program alone: tests are linked as usual.
            println!("cargo:rustc-link-arg-bins=-L{}", place.display());
            println!("cargo:rustc-link-arg-bins=-static-pie");
        }
        Err(error) => println!("cargo:warning=hull is linked dynamically and starts slower: {error}"),
    }
}

/// Writes the linker script that stands for the shared library `name`.
fn script(place: &Path, name: &str, archives: &[&str]) -> io::Result<()> {
    let paths = archives.iter().map(|archive| find(archive)).collect::<io::Result<Vec<_>>>()?;
    fs::create_dir_all(place)?;
    fs::write(place.join(format!("lib{name}.so")), format!("GROUP({})\n", paths.join(" ")))
}

/// Where the C compiler finds an archive.
fn find(archive: &str) -> io::Result<String> {
    let output = Command::new("cc").arg(format!("-print-file-name={archive}")).output()?;
    let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    // It repeats the name of what it does not find.
    if Path::new(&path).is_absolute() { Ok(path) } else { Err(io::Error::other(format!("there is no {archive}"))) }
}
