//! What is above the contract names neither a platform nor a processor.

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
