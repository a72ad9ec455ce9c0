//! The commands for images: `hull load`, `import`, `pull`, `push`, `images`, `tag`, `rmi`, `inspect`, `history`, `save`, `cp`,
//! `prune`.

pub mod args;
mod copy;
mod details;
pub mod filter;
pub mod human;
mod list;
mod output;
mod progress;
mod registry;
pub mod table;
mod template;

use crate::failure::{Failure, Result};
use args::{Files, ImportArgs, LoadArgs, PruneArgs, RmiArgs, SaveArgs, StoreArgs, TagArgs};
pub use copy::copy;
pub use details::{history, inspect};
use image::{ArchiveFormat, Import, Options, Reference, Store};
pub use list::images;
pub use registry::{fetch, pull, push};
use std::io::{IsTerminal, Write};
use std::path::Path;

/// Exit code of a command for images that failed, as docker's.
pub const EXIT_IMAGES: u8 = 1;

impl StoreArgs {
    fn open(&self) -> Result<Store> {
        Ok(Store::open(self.store.as_deref())?)
    }
}

/// Writes to standard output.
pub fn print(text: &str) {
    // Ignore EPIPE and the like: the exit code tells the outcome.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Writes a line to standard error.
fn complain(text: &str) {
    // Ignore write errors on standard error.
    let _ = writeln!(std::io::stderr(), "hull: {text}");
}

/// `hull load`.
pub fn load(args: &LoadArgs) -> Result<u8> {
    let input = args.input.as_deref().unwrap_or(Path::new("-"));
    if input == Path::new("-") && std::io::stdin().is_terminal() {
        let remedy = "name a file with -i FILE, or redirect one";
        return Err(Failure::request("load", "standard input is a terminal", remedy));
    }
    for loaded in args.store.open()?.load(input, &args.limits.options())? {
        for name in &loaded.names {
            print(&format!("Loaded image: {}\n", name.familiar()));
        }
        if loaded.names.is_empty() {
            print(&format!("Loaded image ID: {}\n", loaded.id));
        }
    }
    Ok(0)
}

impl Files {
    fn options(&self) -> Options {
        Options { limits: image::Limits { size: self.max_size }, platform: self.platform.clone() }
    }
}

/// `hull import`.
pub fn import(args: &ImportArgs) -> Result<u8> {
    let import = Import {
        changes: args.change.clone(),
        message: args.message.clone(),
        options: args.limits.options(),
        same: false,
    };
    let name = args.name.as_deref().map(Reference::parse).transpose()?;
    let id = args.store.open()?.import(&args.source, name.as_ref(), &import)?;
    print(&format!("{id}\n"));
    Ok(0)
}

/// `hull tag`.
pub fn tag(args: &TagArgs) -> Result<u8> {
    args.store.open()?.tag(&args.source, &Reference::parse(&args.target)?)?;
    Ok(0)
}

/// `hull rmi`.
pub fn rmi(args: &RmiArgs) -> Result<u8> {
    let store = args.store.open()?;
    let mut code = 0;
    for name in &args.images {
        match store.remove(name, args.force) {
            Ok(swept) => {
                swept.untagged.iter().for_each(|name| print(&format!("Untagged: {name}\n")));
                swept.deleted.iter().for_each(|id| print(&format!("Deleted: {id}\n")));
            }
            Err(error) if args.force && error.is_not_found() => {}
            Err(error) => {
                complain(&error.to_string());
                code = EXIT_IMAGES;
            }
        }
    }
    Ok(code)
}

/// `hull save`.
pub fn save(args: &SaveArgs) -> Result<u8> {
    let store = args.store.open()?;
    let names: Vec<&str> = args.images.iter().map(String::as_str).collect();
    let format = match args.format {
        args::Archive::OciArchive => ArchiveFormat::Oci,
        args::Archive::DockerArchive => ArchiveFormat::Docker,
    };
    match args.output.as_deref() {
        Some(path) if path != Path::new("-") => output::replace(path, |file| store.save(&names, format, file))?,
        _ if std::io::stdout().is_terminal() => {
            return Err(Failure::request("save", "standard output is a terminal", "name a file with -o FILE"));
        }
        _ => store.save(&names, format, std::io::stdout().lock())?,
    }
    Ok(0)
}

/// `hull prune`.
pub fn prune(args: &PruneArgs) -> Result<u8> {
    let what = if args.all { "all images that no pod runs" } else { "all images without a name" };
    if !args.force
        && !confirmed(&format!("WARNING! This will remove {what}.\nAre you sure you want to continue? [y/N] "))
    {
        return Ok(0);
    }
    let swept = args.store.open()?.prune(args.all)?;
    if !swept.deleted.is_empty() || !swept.untagged.is_empty() {
        print("Deleted Images:\n");
        swept.untagged.iter().for_each(|name| print(&format!("untagged: {name}\n")));
        swept.deleted.iter().for_each(|id| print(&format!("deleted: {id}\n")));
        print("\n");
    }
    print(&format!("Total reclaimed space: {}\n", human::size(swept.bytes)));
    Ok(0)
}

fn confirmed(question: &str) -> bool {
    print(question);
    let _ = std::io::stdout().flush();
    let mut answer = String::new();
    // No answer is a no.
    let _ = std::io::stdin().read_line(&mut answer);
    matches!(answer.trim(), "y" | "Y" | "yes")
}
