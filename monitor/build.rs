//! Builds keel, the guest kernel, and links it into one file that the monitor embeds.
//!
//! Keel's crates are a workspace of their own: another panic strategy, no red zone. Cargo builds them
//! into a static library for the host's own target; the system's linker places it with `keel.ld`.

use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "x86_64-unknown-linux-gnu";

fn main() {
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("..");
    let keel = root.join("keel");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    for path in ["Cargo.toml", "Cargo.lock", "core", "hal", "image", "kernel", "uapi", "vfs", "vdso", "../abi"] {
        println!("cargo:rerun-if-changed={}", keel.join(path).display());
    }
    let library = build_library(&keel, &out.join("keel-target"));
    link(&library, &keel.join("image/keel.ld"), &out.join("keel.elf"));
}

/// A cargo command without what the outer cargo put into the environment.
fn cargo(keel: &Path, target_dir: &Path, offline: bool) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if (text.starts_with("CARGO") && text != "CARGO_HOME" && text != "CARGO_NET_OFFLINE")
            || text.starts_with("RUSTC")
            || text == "RUSTFLAGS"
            || text == "RUSTDOCFLAGS"
        {
            command.env_remove(&name);
        }
    }
    command.current_dir(keel).env("CARGO_TARGET_DIR", target_dir);
    // No red zone: ring 0 and keel's own fault path push onto the interrupted stack. Frame pointers
    // are for backtraces of crash reports.
    command
        .env("RUSTFLAGS", "-C no-redzone=yes -C force-frame-pointers=yes -C relocation-model=pic -C target-cpu=x86-64");
    command.args(["build", "--release", "--locked", "--package", "keel", "--target", TARGET]);
    if offline {
        command.arg("--offline");
    }
    command
}

fn build_library(keel: &Path, target_dir: &Path) -> PathBuf {
    // Offline first: a build must not reach for the network when all crates are there.
    let offline = cargo(keel, target_dir, true).output().expect("cargo runs");
    if !offline.status.success() {
        let text = String::from_utf8_lossy(&offline.stderr).into_owned();
        assert!(text.contains("--offline") || text.contains("offline mode"), "keel does not build:\n{text}");
        let status = cargo(keel, target_dir, false).status().expect("cargo runs");
        assert!(status.success(), "keel does not build, see above");
    }
    target_dir.join(TARGET).join("release/libkeel.a")
}

fn link(library: &Path, script: &Path, image: &Path) {
    let mut command = Command::new("ld");
    command.args([
        "-nostdlib",
        "-static",
        "--gc-sections",
        "--no-dynamic-linker",
        "-z",
        "noexecstack",
        "--no-warn-rwx-segments",
    ]);
    command.args(["-u", "keel_start", "-u", "KEEL_HOOKS", "--strip-debug"]);
    command.arg("-T").arg(script).arg("-o").arg(image);
    command.arg("--start-group").arg(library).arg("--end-group");
    let output = command.output().expect("the linker `ld` (Debian package binutils) runs");
    assert!(output.status.success(), "keel does not link:\n{}", String::from_utf8_lossy(&output.stderr));
}
