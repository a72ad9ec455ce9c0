//! `cargo xtask layers`: the modules of the kernel's crate are in layers; a module must not import from a layer above its own.
//! The layers below are crates, whose order is that of their dependencies.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

/// Folder of the kernel's modules.
const SOURCE: &str = "keel/kernel/src";

/// The layers from the lowest, above the crates; each with its top-level modules. ARCHITECTURE.md describes each.
const LAYERS: [(&str, &[&str]); 3] = [
    ("processes", &["ipc", "signal", "task", "time", "tty"]),
    ("file systems and /proc", &["fs"]),
    ("system calls", &["boot", "syscall"]),
];

/// The number of a module's layer.
fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|(_, modules)| modules.contains(&module))
}

/// Reports each import from a higher layer, and each module without a layer.
pub fn run(root: &Path) -> Result<ExitCode> {
    let source = root.join(SOURCE);
    let mut faults = Vec::new();
    for file in files(&source)? {
        let inside = file.strip_prefix(&source).context("a file beside the source")?;
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        if inside == Path::new("lib.rs") {
            continue;
        }
        faults
            .extend(check(&path_of(inside)?, &text).into_iter().map(|fault| format!("{}: {fault}", inside.display())));
    }
    for fault in &faults {
        println!("{fault}");
    }
    Ok(if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).with_context(|| format!("cannot list {}", directory.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The module path of a file.
fn path_of(file: &Path) -> Result<Vec<String>> {
    let mut path = Vec::new();
    for part in file.with_extension("").iter() {
        path.push(part.to_str().context("a name that is no text")?.to_owned());
    }
    path.pop_if(|last| last == "mod");
    if path.is_empty() {
        bail!("{} is no module", file.display());
    }
    Ok(path)
}

/// The faulty imports of a module.
fn check(module: &[String], text: &str) -> Vec<String> {
    let Some(own) = layer(&module[0]) else {
        return vec![format!("module {} lies in no layer (xtask/src/layers.rs)", module[0])];
    };
    let mut faults = Vec::new();
    for name in imported(&code(text), module.len()) {
        match layer(&name) {
            Some(other) if other > own => faults.push(format!(
                "{} imports {name}: {} lies below {}",
                module.join("::"),
                LAYERS[own].0,
                LAYERS[other].0
            )),
            _ => {}
        }
    }
    faults
}

/// The text without comments.
fn code(text: &str) -> String {
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The top-level names that paths through `crate` mention, or through as many `super` as a module is deep.
fn imported(code: &str, depth: usize) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let up = "super::".repeat(depth);
    for prefix in ["crate::", &up] {
        for (at, _) in code.match_indices(prefix) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || "_$:".contains(c)) {
                continue;
            }
            let rest = &code[at + prefix.len()..];
            match rest.strip_prefix('{') {
                Some(group) => names.extend(group_heads(group)),
                None => names.extend(head(rest)),
            }
        }
    }
    names
}

/// The identifier that a text begins with.
fn head(text: &str) -> Option<String> {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    (end > 0).then(|| text[..end].to_owned())
}

/// The first identifiers of the items of a group, whose opening brace is gone.
fn group_heads(text: &str) -> Vec<String> {
    let mut heads = Vec::new();
    let mut depth = 0;
    let mut expects = true;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => expects = true,
            c if expects && depth == 0 && !c.is_whitespace() => {
                heads.extend(head(&text[at..]));
                expects = false;
            }
            _ => {}
        }
    }
    heads
}

#[cfg(test)]
mod tests {
    use super::check;

    fn faults(module: &str, text: &str) -> usize {
        check(&module.split("::").map(str::to_owned).collect::<Vec<_>>(), text).len()
    }

    #[test]
    fn imports_that_point_up_are_found() {
        assert_eq!(faults("ipc::shm", "use crate::fs;"), 1);
        assert_eq!(faults("ipc::shm", "use crate::{hal, fs::{self, task}, mm};"), 1);
        assert_eq!(faults("ipc::shm", "fn f() { crate::syscall::file::read() }"), 1);
        assert_eq!(faults("ipc::shm", "use super::super::fs::open;"), 1);
        assert_eq!(faults("elsewhere", ""), 1);
    }

    #[test]
    fn imports_that_point_down_are_none() {
        assert_eq!(faults("task", "use crate::mm::{user, fs}; use crate::ipc; // crate::syscall"), 0);
        assert_eq!(faults("task::cred::exec", "use super::super::fs_context; use super::ids;"), 0);
        assert_eq!(faults("syscall::fs::names", "use crate::fs; use vfs::walk;"), 0);
    }
}
