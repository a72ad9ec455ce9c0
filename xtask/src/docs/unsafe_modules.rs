//! The list of modules with unsafe code in `docs/soundness.md`: generated from the attributes that allow it. Each
//! module needs a row.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// The document, from the root.
pub const DOCUMENT: &str = "docs/soundness.md";
/// Markers of the list's beginning and end.
const BEGIN: &str = "<!-- written by `cargo xtask docs` from here -->\n";
const END: &str = "<!-- to here -->\n";
/// The attribute of a file with unsafe code: both workspaces deny it otherwise.
const ATTRIBUTE: &str = "[allow(unsafe_code)]";
/// Folders of the repository without modules of the two workspaces.
const OTHER: &[&str] = &["target", ".git", "fuzz", "docs"];

/// The document with the current list, and a line for each module that no row names (by file or folder).
pub fn current(root: &Path) -> Result<(String, Vec<String>)> {
    let text = fs::read_to_string(root.join(DOCUMENT)).with_context(|| format!("cannot read {DOCUMENT}"))?;
    let modules = modules(root)?;
    let parts = text.split_once(BEGIN).and_then(|(head, rest)| Some((head, rest.split_once(END)?.1)));
    let (head, tail) = parts.with_context(|| format!("{DOCUMENT} has no place for the list of modules"))?;
    let rows = format!("{head}{tail}");
    let unnamed = modules.iter().filter(|module| !is_named(&rows, module));
    let faults = unnamed.map(|module| format!("{DOCUMENT}: no row names {module}, which allows unsafe code")).collect();
    let list: String = modules.iter().map(|module| format!("- `{module}`\n")).collect();
    Ok((format!("{head}{BEGIN}\n{list}\n{END}{tail}"), faults))
}

/// Whether the text names the file or a folder around it in backticks.
fn is_named(text: &str, file: &str) -> bool {
    let folders = file.match_indices('/').map(|(at, _)| &file[..=at]);
    folders.chain([file]).any(|path| text.contains(&format!("`{path}`")))
}

/// The files that allow unsafe code, in order.
fn modules(root: &Path) -> Result<Vec<String>> {
    let (mut folders, mut found) = (vec![root.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let name = path.strip_prefix(root)?.to_string_lossy().into_owned();
            let is_other = path.file_name().is_some_and(|last| OTHER.iter().any(|other| last == *other));
            if path.is_dir() && !path.is_symlink() && !is_other {
                folders.push(path);
            } else if name.ends_with(".rs") && allows(&path)? {
                found.push(name);
            }
        }
    }
    ensure!(!found.is_empty(), "no module allows unsafe code: has the attribute another form?");
    found.sort();
    Ok(found)
}

fn allows(file: &Path) -> Result<bool> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(text.lines().any(|line| line.trim_start().starts_with('#') && line.contains(ATTRIBUTE)))
}

#[cfg(test)]
mod tests {
    use super::is_named;

    #[test]
    fn a_module_is_named_by_itself_or_by_a_folder() {
        assert!(is_named("see `a/b/c.rs`", "a/b/c.rs"));
        assert!(is_named("see `a/b/`", "a/b/c.rs"));
        assert!(!is_named("see `a/b/d.rs` and a/b/c.rs", "a/b/c.rs"));
    }
}
