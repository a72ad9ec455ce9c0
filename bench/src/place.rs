//! The directory with the benchmark programs, and with bundles for other runtimes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::images::{Images, roots};

/// The static program.
pub const STATIC: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/static"));

/// A directory of the host that pods see as [`Place::IN_POD`]; removed with this value.
#[derive(Debug)]
pub struct Place {
    /// On the host.
    pub directory: PathBuf,
    /// This binary.
    pub hull: PathBuf,
    /// Images, made when they are needed.
    images: OnceLock<Images>,
}

impl Place {
    /// Where pods see it.
    pub const IN_POD: &'static str = "/bench";
    /// OCI bundles.
    pub const BUNDLES: u32 = 8;

    /// Makes the directory.
    pub fn new() -> Result<Self> {
        let directory = std::env::temp_dir().join(format!("hull-bench-{}", std::process::id()));
        fs::create_dir(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
        let place = Self { hull: std::env::current_exe()?, directory, images: OnceLock::new() };
        let result = place.fill();
        result.with_context(|| format!("cannot prepare {}", place.directory.display()))?;
        Ok(place)
    }

    fn fill(&self) -> Result<()> {
        fs::copy(&self.hull, self.directory.join("hull"))?;
        write_program(&self.directory.join("static"), STATIC)?;
        for number in 0..Self::BUNDLES {
            let bundle = self.bundle(number);
            fs::create_dir_all(bundle.join("rootfs"))?;
            write_program(&bundle.join("rootfs/static"), STATIC)?;
            fs::write(bundle.join("config.json"), serde_json::to_vec(&oci_config(&["/static"]))?)?;
        }
        fs::create_dir(self.directory.join("work"))?;
        let files = self.directory.join("files");
        fs::create_dir(&files)?;
        for number in 0..crate::workload::FILES {
            fs::write(files.join(number.to_string()), "a file\n")?;
        }
        write_project(&self.directory.join("project"))?;
        write_repository(&self.directory.join("repository"))?;
        self.write_archive()?;
        Ok(())
    }

    /// OCI bundle `number` of the static program; runtimes prepare the root in place, so each that runs needs its own.
    pub fn bundle(&self, number: u32) -> PathBuf {
        self.directory.join(format!("bundle{}", number % Self::BUNDLES))
    }
}

impl Place {
    /// What the rows of images need.
    pub fn images(&self) -> &Images {
        self.images.get_or_init(|| Images::new(&self.directory, &self.hull))
    }

    /// An OCI bundle that runs a workload of this binary.
    pub fn container(&self, workload: &[&str]) -> Result<PathBuf> {
        let bundle = self.directory.join("container");
        if !bundle.exists() {
            roots::shell(&bundle.join("rootfs"), &self.hull)?;
        }
        let words: Vec<&str> = ["/bench/hull", "bench-workload"].iter().chain(workload).copied().collect();
        fs::write(bundle.join("config.json"), serde_json::to_vec(&oci_config(&words))?)?;
        Ok(bundle)
    }

    /// `files.tar`: 5,000 files of up to some KiB.
    fn write_archive(&self) -> Result<()> {
        let scratch = self.directory.join("unpacked");
        for directory in 0..50 {
            let directory = scratch.join(directory.to_string());
            fs::create_dir_all(&directory)?;
            for file in 0..100 {
                fs::write(directory.join(file.to_string()), "a line of text\n".repeat(20 + 4 * file))?;
            }
        }
        run(Command::new("tar").arg("-cf").arg(self.directory.join("files.tar")).arg("-C").arg(&scratch).arg("."))?;
        fs::remove_dir_all(scratch)?;
        Ok(())
    }
}

/// Runs a command that must succeed; if it does not exist, its rows are skipped.
fn run(command: &mut Command) -> Result<()> {
    match command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(status) => ensure!(status.success(), "{command:?} failed"),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// A git repository with everything committed.
fn write_repository(directory: &Path) -> Result<()> {
    for number in 0..20 {
        let directory = directory.join(number.to_string());
        fs::create_dir_all(&directory)?;
        for file in 0..50 {
            fs::write(directory.join(file.to_string()), format!("file {file}\n").repeat(20))?;
        }
    }
    let git = || {
        let mut git = Command::new("git");
        git.arg("-C").arg(directory).args(["-c", "user.name=hull", "-c", "user.email=hull@localhost"]);
        git
    };
    run(git().args(["init", "-q"]))?;
    run(git().args(["add", "--all"]))?;
    run(git().args(["commit", "-q", "-m", "all"]))?;
    // Git reads files again that changed in the same second as its index.
    std::thread::sleep(std::time::Duration::from_secs(1));
    run(git().args(["status", "--short"]))
}

impl Drop for Place {
    fn drop(&mut self) {
        // Daemons end before their files are removed.
        drop(self.images.take());
        // Ignore errors: a few files remain in the temporary directory.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Number of C files besides the one with main().
const SOURCES: u32 = 7;
/// Functions in each.
const FUNCTIONS: u32 = 60;

/// A small C project.
fn write_project(directory: &Path) -> Result<()> {
    fs::create_dir(directory)?;
    let head =
        "#include <ctype.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n";
    let mut main = format!("{head}int main(void) {{ int sum = 0;\n");
    let mut objects = String::from("$(OUT)/main.o");
    for source in 0..SOURCES {
        let mut text = head.to_owned();
        for number in 0..FUNCTIONS {
            text.push_str(&format!(
                "int part_{source}_{number}(const char *s) {{\n    int sum = {number};\n    \
                 for (size_t i = 0; i < strlen(s); i++) {{\n        \
                 if (isdigit((unsigned char)s[i])) sum = sum * 10 + s[i] - '0'; else sum ^= s[i] << (i % 7);\n    \
                 }}\n    return sum;\n}}\n"
            ));
        }
        fs::write(directory.join(format!("part{source}.c")), text)?;
        main.push_str(&format!("extern int part_{source}_0(const char *);\nsum += part_{source}_0(\"abc 123\");\n"));
        objects.push_str(&format!(" $(OUT)/part{source}.o"));
    }
    main.push_str("printf(\"%d\\n\", sum); return 0; }\n");
    fs::write(directory.join("main.c"), main)?;
    let makefile = format!(
        "$(OUT)/program: {objects}\n\t$(CC) -o $@ $^\n$(OUT)/%.o: %.c | $(OUT)\n\t$(CC) -O1 -c -o $@ $<\n\
         $(OUT):\n\tmkdir -p $(OUT)\n"
    );
    fs::write(directory.join("Makefile"), makefile)?;
    Ok(())
}

pub fn write_program(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// The minimal configuration of a container runtime to run a program, with the usual isolation.
pub fn oci_config(words: &[&str]) -> serde_json::Value {
    let namespaces = ["pid", "network", "ipc", "uts", "mount"].map(|kind| json!({ "type": kind }));
    json!({
        "ociVersion": "1.0.2",
        "process": { "terminal": false, "user": { "uid": 0, "gid": 0 }, "args": words, "cwd": "/", "env": [] },
        "root": { "path": "rootfs", "readonly": true },
        "hostname": "bench",
        "mounts": [{ "destination": "/proc", "type": "proc", "source": "proc" }],
        "linux": { "namespaces": namespaces },
    })
}
