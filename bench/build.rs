//! Builds the static workload, which the library embeds: a program without a C library or loader.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=static/main.rs");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it")).join("static");
    let status = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()))
        .args(["--edition=2024", "--crate-name=workload", "--crate-type=bin", "-Copt-level=3", "-Cpanic=abort"])
        .args(["-Crelocation-model=static", "-Cstrip=symbols", "-Clink-arg=-nostartfiles", "-Clink-arg=-nostdlib"])
        .args(["-Clink-arg=-static", "-Clink-arg=-Wl,--build-id=none"])
        // The precompiled core library references it; it is never called with panic=abort.
        .args(["-Clink-arg=-Wl,--defsym=rust_eh_personality=0", "-o"])
        .arg(&out)
        .arg("static/main.rs")
        .env_remove("RUSTFLAGS")
        .status()
        .expect("rustc can be started");
    assert!(status.success(), "the static workload does not build");
}
