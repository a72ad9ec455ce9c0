//! Builds the virtual shared object: `src/image.rs` by rustc, linked with the C compiler's linker.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    for input in ["src/image.rs", "src/vvar.rs", "vdso.lds"] {
        println!("cargo:rerun-if-changed={input}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let object = out.join("vdso.o");
    let image = out.join("vdso.so");
    run(Command::new(env::var_os("RUSTC").expect("cargo sets RUSTC"))
        .args(["--edition=2024", "--crate-type=lib", "--crate-name=vdso", "--emit=obj"])
        .args(["--target=x86_64-unknown-linux-gnu", "-Copt-level=3", "-Cpanic=abort", "-Crelocation-model=pic"])
        .args(["-Ccodegen-units=1", "-Cforce-unwind-tables=yes", "-Cdebug-assertions=no", "-Coverflow-checks=no"])
        .arg("-o")
        .arg(&object)
        .arg(Path::new("src").join("image.rs")));
    run(Command::new("cc")
        .args(["-shared", "-nostdlib", "-Wl,-soname,linux-vdso.so.1", "-Wl,-Bsymbolic", "-Wl,--hash-style=both"])
        .args(["-Wl,--eh-frame-hdr", "-Wl,-z,max-page-size=4096", "-Wl,-z,defs", "-Wl,-z,noexecstack"])
        .args(["-Wl,--build-id=none", "-Wl,-s", "-Wl,-T,vdso.lds", "-o"])
        .arg(&image)
        .arg(&object));
    let size = std::fs::metadata(&image).expect("the linker wrote it").len();
    assert!(size <= 2 * 4096, "the virtual shared object has {size} bytes, more than two pages");
}

fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(status.success(), "{command:?}: {status}");
}
