//! Checks that paths in backticks and links of documents exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Folder of the documents; Markdown files in the repository's root are checked too.
const DOCS: &str = "docs";
/// First components of paths that a build creates.
const BUILT: &[&str] = &["target"];
/// File endings by which a name without a folder counts as a path.
const FILE_ENDINGS: &[&str] = &[".rs", ".md", ".toml", ".ld", ".sh", ".c", ".h"];

/// One line per missing path.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let mut documents = markdown(root)?;
    let mut folders = vec![root.join(DOCS)];
    while let Some(folder) = folders.pop() {
        documents.extend(markdown(&folder)?);
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    documents.sort();
    let mut faults = Vec::new();
    for document in documents {
        let text = fs::read_to_string(&document).with_context(|| format!("cannot read {}", document.display()))?;
        let name = document.strip_prefix(root).unwrap_or(&document).display().to_string();
        let folder = document.parent().unwrap_or(root);
        let prose = without_blocks(&text);
        let named = named(&prose).filter(|path| !exists(root, path)).map(str::to_owned);
        let linked = links(&prose).filter(|path| !folder.join(path).exists()).map(str::to_owned);
        let missing: BTreeSet<String> = named.chain(linked).collect();
        faults.extend(missing.into_iter().map(|path| format!("{name}: {path} does not exist")));
    }
    Ok(faults)
}

fn markdown(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    Ok(found)
}

/// The text without fenced blocks, whose content is examples.
fn without_blocks(text: &str) -> String {
    text.split("```").step_by(2).collect()
}

/// Texts in backticks that look like paths from the repository's root.
fn named(prose: &str) -> impl Iterator<Item = &str> {
    prose.split('`').skip(1).step_by(2).filter(|text| is_path(text))
}

fn is_path(text: &str) -> bool {
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-*".contains(c));
    // What begins with a digit is a network.
    let inside = text.starts_with(|c: char| c.is_ascii_alphabetic());
    let first = text.split('/').next().unwrap_or_default();
    let shaped = text.contains('/') || FILE_ENDINGS.iter().any(|ending| text.ends_with(ending));
    plain && inside && shaped && !BUILT.contains(&first)
}

/// Whether a path exists; of a pattern, the folder before the wildcard.
fn exists(root: &Path, path: &str) -> bool {
    let fixed = match path.split_once('*') {
        Some((before, _)) => before.rsplit_once('/').map_or("", |(folder, _)| folder),
        None => path,
    };
    root.join(fixed).exists()
}

/// Targets of links to files, without fragments.
fn links(prose: &str) -> impl Iterator<Item = &str> {
    prose.split("](").skip(1).filter_map(|rest| {
        let (target, _) = rest.split_once(')')?;
        let path = target.split('#').next().unwrap_or_default();
        (!path.is_empty() && !path.contains(':')).then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_looks_like_a_path() {
        let text = "`abi/src` and `hull run`, `/usr` `README.md` `--rw` `a/*.c` `target/x` `10.0.0.0/8`\n```\n`no/path`\n```\n[x](b.md#c) [y](https://z)";
        let prose = without_blocks(text);
        assert_eq!(named(&prose).collect::<Vec<_>>(), ["abi/src", "README.md", "a/*.c"]);
        assert_eq!(links(&prose).collect::<Vec<_>>(), ["b.md"]);
    }

    #[test]
    fn wildcards_need_their_folder_only() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert!(exists(root, "src/docs/*.rs"));
        assert!(!exists(root, "nowhere/*.rs"));
    }
}
