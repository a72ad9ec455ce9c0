//! Builds keel, the guest kernel, and links it into one file that the monitor embeds.
//!
//! keel's crates are a separate workspace, with another panic strategy and without red zone. Cargo builds them into a
//! static library for the host target; the system's linker places it with `keel.ld`.

use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "x86_64-unknown-linux-gnu";

fn main() {
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("..");
    let keel = root.join("keel");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    let crates = ["core", "file", "hal", "image", "kernel", "mm", "sched", "socket", "uapi", "vdso", "vfs"];
    for path in crates.into_iter().chain(["Cargo.toml", "Cargo.lock", "../abi"]) {
        println!("cargo:rerun-if-changed={}", keel.join(path).display());
    }
    println!("cargo:rerun-if-env-changed=HULL_KEEL_PROFILE");
    println!("cargo:rerun-if-env-changed=HULL_KEEL_FEATURES");
    let image = out.join("keel.elf");
    if profile() == "none" {
        // For checks that start no pod: lints, models, fuzz targets.
        std::fs::write(&image, b"").expect("cargo's directory for output is writable");
        return;
    }
    let library = build_library(&keel, &out.join("keel-target"));
    link(&library, &keel.join("image/keel.ld"), &image);
}

/// A cargo command without the variables that the outer cargo set.
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
    command.args(["build", "--profile", &profile(), "--locked", "--package", "keel", "--target", TARGET]);
    if let Ok(features) = std::env::var("HULL_KEEL_FEATURES") {
        command.args(["--features", &features]);
    }
    if offline {
        command.arg("--offline");
    }
    command
}

/// keel's own profile, independent of the host crates' profile: always a release profile. `HULL_KEEL_PROFILE=quick`
/// builds several times faster, for work on keel itself; with `none` the monitor has no keel and refuses to start a
/// pod.
fn profile() -> String {
    std::env::var("HULL_KEEL_PROFILE").unwrap_or("release".into())
}

fn build_library(keel: &Path, target_dir: &Path) -> PathBuf {
    // Offline first: do not access the network if all crates are cached.
    let offline = cargo(keel, target_dir, true).output().expect("cargo runs");
    if !offline.status.success() {
        let text = String::from_utf8_lossy(&offline.stderr).into_owned();
        assert!(text.contains("--offline") || text.contains("offline mode"), "keel does not build:\n{text}");
        let status = cargo(keel, target_dir, false).status().expect("cargo runs");
        assert!(status.success(), "keel does not build, see above");
    }
    target_dir.join(TARGET).join(profile()).join("libkeel.a")
}

/// Links keel with the gate that calls `keel_quick` first, if `keel_quick` uses no registers that the gate does not
/// save.
fn link(library: &Path, script: &Path, image: &Path) {
    link_with("keel_gate", library, script, image);
    if !quick_is_harmless(image) {
        println!("cargo:warning=keel_quick uses vector registers or calls: system calls will be slower");
        link_with("keel_gate_full", library, script, image);
    }
}

/// Whether `keel_quick` uses general registers only and makes no calls.
fn quick_is_harmless(image: &Path) -> bool {
    let output = Command::new("objdump")
        .args(["-d", "-Mintel", "--no-show-raw-insn", "--disassemble=keel_quick"])
        .arg(image)
        .output();
    let Ok(output) = output else { return false };
    let text = String::from_utf8_lossy(&output.stdout);
    let code: Vec<&str> =
        text.lines().filter_map(|line| line.split_once(":\t")).map(|(_, instruction)| instruction).collect();
    let harmless = |instruction: &&str| {
        let mnemonic = instruction.split_whitespace().next().unwrap_or("");
        let vector = ["xmm", "ymm", "zmm", "st("].iter().any(|register| instruction.contains(register));
        let string = mnemonic.starts_with("rep") || instruction.contains("es:[rdi");
        let leaves = mnemonic == "call" || (mnemonic.starts_with('j') && !instruction.contains("<keel_quick+"));
        !(vector || string || leaves)
    };
    code.iter().any(|instruction| instruction.starts_with("ret")) && code.iter().all(harmless)
}

fn link_with(gate: &str, library: &Path, script: &Path, image: &Path) {
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
    command.arg(format!("--defsym=keel_gate_entry={gate}"));
    command.arg("-T").arg(script).arg("-o").arg(image);
    command.arg("--start-group").arg(library).arg("--end-group");
    let output = command.output().expect("the linker `ld` (Debian package binutils) runs");
    assert!(output.status.success(), "keel does not link:\n{}", String::from_utf8_lossy(&output.stderr));
}
