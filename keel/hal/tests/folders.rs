//! What is above the contract names neither a platform nor a processor, and the kernel names registers only where Linux's
//! structures have them.

use std::fs;
use std::path::{Path, PathBuf};

/// The files in `src` and `src/sync`, but for the one that chooses.
fn neutral_files() -> Vec<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let folders = [source.clone(), source.join("sync")];
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("the folder is there"));
    let paths = entries.map(|entry| entry.expect("it can be listed").path());
    paths.filter(|path| path.extension().is_some_and(|e| e == "rs") && !path.ends_with("contract.rs")).collect()
}

#[test]
fn neutral_files_name_no_platform_and_no_processor() {
    let files = neutral_files();
    assert!(files.len() > 10, "{files:?}");
    for path in files {
        let text = fs::read_to_string(&path).expect("it can be read");
        for word in ["kvm::", "hosted::", "x86_64::", "asm!", "core::arch", "DIRECT_BASE", "rax", "cr3"] {
            let line = text.lines().find(|line| line.contains(word) && !line.trim_start().starts_with("//"));
            assert!(line.is_none(), "{}: {word} in {line:?}", path.display());
        }
    }
}

/// Files of the kernel that lay out registers as programs see them.
const NAMES_REGISTERS: [&str; 2] = ["syscall/signal/frame.rs", "task/ptrace/registers.rs"];

/// Names of the trap frame's fields.
const REGISTERS: [&str; 19] = [
    "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "rip", "rflags", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15", "xmm",
];

fn all_files(folder: &Path) -> Vec<PathBuf> {
    let (mut folders, mut files) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the folder is there") {
            let path = entry.expect("it can be listed").path();
            if path.is_dir() { &mut folders } else { &mut files }.push(path);
        }
    }
    files
}

#[test]
fn the_kernel_uses_accessors_of_registers() {
    let kernel = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernel/src");
    let files = all_files(&kernel);
    for name in NAMES_REGISTERS {
        assert!(files.contains(&kernel.join(name)), "{name} has another name now");
    }
    for path in files.iter().filter(|path| !NAMES_REGISTERS.iter().any(|name| path.ends_with(name))) {
        let text = fs::read_to_string(path).expect("it can be read");
        let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let register = words.find(|word| REGISTERS.contains(word));
        assert!(register.is_none(), "{}: {register:?}", path.display());
    }
}
