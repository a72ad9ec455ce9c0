//! Which lines of keel its tests on the host run, without a virtual machine.
//!
//! The tests of keel's crates are built with `-C instrument-coverage` and run; `llvm-profdata` and `llvm-cov` of rustc's own LLVM tell
//! the lines. They come with rustup's component `llvm-tools` or with Debian's package `llvm-NN`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// The check fails below so many percent.
const LEAST: usize = 40;

/// Crates of keel, and folders that are worth a row of their own.
const PARTS: [&str; 16] = [
    "core",
    "hal",
    "file",
    "kernel/src/fs",
    "kernel/src/ipc",
    "kernel/src/signal",
    "kernel/src/syscall",
    "kernel/src/task",
    "kernel/src/tty",
    "kernel",
    "mm",
    "sched",
    "socket",
    "uapi",
    "vdso",
    "vfs",
];

/// What the simulated machine is made of: it is for tests alone.
const OF_TESTS: &str = "hal/src/hosted/";

/// Lines of code, and those of them that ran.
#[derive(Clone, Copy, Default)]
struct Lines {
    all: usize,
    run: usize,
}

impl Lines {
    fn percent(self) -> f64 {
        100.0 * self.run as f64 / self.all.max(1) as f64
    }
}

/// Runs the tests and prints the table.
///
/// # Errors
/// A test fails, a tool is missing, or too few lines ran.
pub fn run(root: &Path) -> Result<()> {
    let keel = root.join("keel");
    let target = match std::env::var_os("CARGO_TARGET_DIR") {
        Some(target) => PathBuf::from(target).join("coverage"),
        None => root.join("target/coverage"),
    };
    let profiles = target.join("profiles");
    // Those of an earlier run are of other programs.
    std::fs::remove_dir_all(&profiles).ok();
    let programs = test(&keel, &target, &profiles)?;
    let lcov = report(&target, &profiles, &programs)?;
    let covered = covered_lines(&keel, &lcov)?;
    let mut sum = Lines::default();
    let mut parts: BTreeMap<&str, Lines> = BTreeMap::new();
    let mut unbuilt = Lines::default();
    for file in sources(&keel)? {
        let name = file.strip_prefix(&keel)?.to_str().context("names of sources are text")?.to_owned();
        if name.starts_with(OF_TESTS) {
            continue;
        }
        let text = std::fs::read_to_string(&file)?;
        let lines = match covered.get(&name) {
            Some(lines) => *lines,
            None => {
                let lines = Lines { all: lines_of_code(&text), run: 0 };
                unbuilt.all += lines.all;
                lines
            }
        };
        let part = PARTS.iter().find(|part| name.starts_with(&format!("{part}/"))).unwrap_or(&"image");
        for lines_of in [parts.entry(part).or_default(), &mut sum] {
            lines_of.all += lines.all;
            lines_of.run += lines.run;
        }
    }
    println!("lines of keel that tests on the host run, without a virtual machine:");
    for (part, lines) in &parts {
        println!("{:>8} of {:>6} lines {:>5.1} %  keel/{part}", lines.run, lines.all, lines.percent());
    }
    println!("{:>8} of {:>6} lines {:>5.1} %  keel", sum.run, sum.all, sum.percent());
    println!("of these, {} lines are in files that are built for a virtual machine only", unbuilt.all);
    ensure!(sum.run * 100 >= sum.all * LEAST, "fewer than {LEAST} % of keel's lines ran");
    Ok(())
}

/// Builds and runs the tests: their programs.
fn test(keel: &Path, target: &Path, profiles: &Path) -> Result<Vec<PathBuf>> {
    let cargo = |arguments: &[&str]| {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(keel).env("CARGO_TARGET_DIR", target).env("RUSTFLAGS", "-C instrument-coverage");
        command.env("LLVM_PROFILE_FILE", profiles.join("%p-%m.profraw"));
        command.args(["test", "--tests", "--workspace", "--exclude", "keel", "--features", "hal/hosted"]);
        command.args(arguments);
        command
    };
    let built = cargo(&["--no-run", "--message-format=json"]).output().context("cannot start cargo")?;
    ensure!(built.status.success(), "the tests do not build:\n{}", String::from_utf8_lossy(&built.stderr));
    let status = cargo(&["--quiet", "--no-fail-fast"]).status().context("cannot start cargo")?;
    ensure!(status.success(), "a test failed");
    let text = String::from_utf8(built.stdout)?;
    let field = |line: &str| {
        let (_, rest) = line.split_once("\"executable\":\"")?;
        Some(PathBuf::from(rest.split_once('"')?.0))
    };
    Ok(text.lines().filter_map(field).collect())
}

/// A tool of the LLVM that rustc has.
fn tool(name: &str) -> Result<PathBuf> {
    let ask = |arguments: &[&str]| -> Result<String> {
        let output = Command::new("rustc").args(arguments).output().context("cannot start rustc")?;
        Ok(String::from_utf8(output.stdout)?)
    };
    let about = ask(&["-vV"])?;
    let line = |key: &str| about.lines().find_map(|line| line.strip_prefix(key)).context("rustc says what it is");
    let (host, version) = (line("host: ")?, line("LLVM version: ")?);
    let major = version.split('.').next().unwrap_or(version);
    let own = Path::new(ask(&["--print", "sysroot"])?.trim()).join(format!("lib/rustlib/{host}/bin/{name}"));
    for tool in [own, PathBuf::from(format!("{name}-{major}"))] {
        if Command::new(&tool).arg("--version").output().is_ok_and(|output| output.status.success()) {
            return Ok(tool);
        }
    }
    bail!("{name} of LLVM {major} is missing: install Debian's llvm-{major}, or `rustup component add llvm-tools`")
}

/// What ran, in the format of lcov.
fn report(target: &Path, profiles: &Path, programs: &[PathBuf]) -> Result<String> {
    let merged = target.join("keel.profdata");
    let mut merge = Command::new(tool("llvm-profdata")?);
    merge.args(["merge", "-sparse", "-o"]).arg(&merged);
    for entry in std::fs::read_dir(profiles).context("the tests left no profiles")? {
        merge.arg(entry?.path());
    }
    ensure!(merge.status().context("cannot start llvm-profdata")?.success(), "llvm-profdata failed");
    let mut export = Command::new(tool("llvm-cov")?);
    export.args(["export", "-format=lcov"]).arg(format!("-instr-profile={}", merged.display()));
    export.args(["-ignore-filename-regex", "/(\\.cargo|rustc|registry)/"]);
    for (i, program) in programs.iter().enumerate() {
        if i > 0 {
            export.arg("-object");
        }
        export.arg(program);
    }
    let output = export.output().context("cannot start llvm-cov")?;
    ensure!(output.status.success(), "llvm-cov failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Lines by file, but for those of tests in it.
fn covered_lines(keel: &Path, lcov: &str) -> Result<BTreeMap<String, Lines>> {
    let mut files = BTreeMap::new();
    let mut current: Option<(String, Vec<std::ops::Range<usize>>)> = None;
    for line in lcov.lines() {
        if let Some(path) = line.strip_prefix("SF:") {
            let name = Path::new(path).strip_prefix(keel).ok().and_then(Path::to_str);
            current = match name {
                Some(name) => Some((name.to_owned(), tests_in(&std::fs::read_to_string(path)?))),
                None => None,
            };
        } else if let Some((number, count)) = line.strip_prefix("DA:").and_then(|line| line.split_once(','))
            && let Some((name, tests)) = &current
        {
            let number: usize = number.parse()?;
            if tests.iter().any(|range| range.contains(&number)) {
                continue;
            }
            let lines: &mut Lines = files.entry(name.clone()).or_default();
            lines.all += 1;
            lines.run += usize::from(count != "0");
        }
    }
    Ok(files)
}

/// Numbers of the lines that modules of tests take in a file.
fn tests_in(text: &str) -> Vec<std::ops::Range<usize>> {
    let mut ranges = Vec::new();
    let mut begin = None;
    for (number, line) in (1..).zip(text.lines()) {
        match begin {
            None if line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test") => begin = Some(number),
            // A module in a file of its own, or the end of one.
            Some(first) if line == "}" || !line.starts_with(' ') && line.ends_with(';') => {
                ranges.push(first..number + 1);
                begin = None;
            }
            _ => {}
        }
    }
    ranges
}

/// Lines that are neither empty nor comments, without the tests: what a compiler counts is somewhat less.
fn lines_of_code(text: &str) -> usize {
    let tests = tests_in(text);
    let is_code = |(number, line): &(usize, &str)| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with("//") && !tests.iter().any(|range| range.contains(number))
    };
    (1..).zip(text.lines()).filter(is_code).count()
}

/// The sources of keel, without tests in files of their own.
fn sources(keel: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(keel)? {
        let source = entry?.path().join("src");
        if source.is_dir() {
            folders.push(source);
        }
    }
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            match () {
                () if matches!(name, "tests" | "fuzzing") => {}
                () if path.is_dir() => folders.push(path),
                () if path.extension().is_some_and(|extension| extension == "rs") => found.push(path),
                () => {}
            }
        }
    }
    Ok(found)
}
