//! Builds the C programs of `tests/abi` once per run, with the flags in their comments.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, ensure};

/// One program: `files/open.c` is the case `files/open`.
#[derive(Debug, Clone)]
pub struct Program {
    /// Folder and file name without `.c`.
    pub name: String,
    /// Its source.
    pub source: PathBuf,
    /// Where the executable goes.
    pub executable: PathBuf,
    /// Further arguments for the compiler, from a line `// cflags: …`.
    pub flags: Vec<String>,
}

/// All programs below `sources`, sorted by name; executables are to lie below `output`.
pub fn discover(sources: &Path, output: &Path) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    for family in fs::read_dir(sources)? {
        let family = family?.path();
        if !family.is_dir() {
            continue;
        }
        for file in fs::read_dir(&family)? {
            let source = file?.path();
            if source.extension().is_none_or(|extension| extension != "c") {
                continue;
            }
            let relative = source.strip_prefix(sources)?.with_extension("");
            programs.push(Program {
                name: relative.to_string_lossy().into_owned(),
                executable: output.join(&relative),
                flags: flags(&source)?,
                source,
            });
        }
    }
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(programs)
}

/// Compiles one source that shares no header; its executable, below `output`.
pub fn one(source: &Path, output: &Path) -> Result<PathBuf> {
    let executable = output.join(source.file_stem().context("a source has a name")?);
    let program = Program {
        name: source.display().to_string(),
        source: source.to_owned(),
        executable: executable.clone(),
        flags: flags(source)?,
    };
    build(&program, source)?;
    Ok(executable)
}

/// Compiles `program` unless its executable is newer than its source and the shared header.
pub fn build(program: &Program, header: &Path) -> Result<()> {
    if is_fresh(program, header).unwrap_or(false) {
        return Ok(());
    }
    let directory = program.executable.parent().context("an executable has a directory")?;
    fs::create_dir_all(directory)?;
    // Test threads and binaries may build the same program at once: write to a temporary name, then rename.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let new = program.executable.with_extension(format!("{}.{number}", std::process::id()));
    let output = Command::new("gcc")
        .args(["-std=gnu17", "-O1", "-g", "-Wall", "-Wno-nonnull", "-Wno-unused-result", "-I"])
        .arg(header.parent().context("the header has a directory")?)
        .arg(&program.source)
        .arg("-o")
        .arg(&new)
        .args(&program.flags)
        .output()
        .context("cannot start gcc")?;
    ensure!(output.status.success(), "gcc failed:\n{}", String::from_utf8_lossy(&output.stderr));
    fs::rename(&new, &program.executable)?;
    Ok(())
}

fn is_fresh(program: &Program, header: &Path) -> Result<bool> {
    let built = fs::metadata(&program.executable)?.modified()?;
    Ok(built > fs::metadata(&program.source)?.modified()? && built > fs::metadata(header)?.modified()?)
}

fn flags(source: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(source).with_context(|| format!("cannot read {}", source.display()))?;
    let line = text.lines().find_map(|line| line.strip_prefix("// cflags:")).unwrap_or_default();
    Ok(line.split_whitespace().map(str::to_owned).collect())
}
