//! `hull pull` and `hull push`.

use super::args::{PullArgs, PushArgs, RegistryArgs};
use super::print;
use super::progress::{Bars, Lines, Quiet};
use crate::failure::Result;
use image::{Access, Options, Platform, Progress, Reference, Store};
use std::io::IsTerminal;

impl RegistryArgs {
    fn access(&self, options: Options) -> Access {
        Access { insecure: self.insecure, authorities: self.tls_ca.clone(), options }
    }

    fn progress(&self) -> Box<dyn Progress> {
        progress(self.quiet)
    }
}

/// Bars on a terminal, lines elsewhere.
fn progress(quiet: bool) -> Box<dyn Progress> {
    if quiet {
        Box::new(Quiet)
    } else if std::io::stderr().is_terminal() {
        Box::new(Bars::new())
    } else {
        Box::new(Lines::default())
    }
}

/// `hull pull`.
pub fn pull(args: &PullArgs) -> Result<u8> {
    let name = Reference::parse(&args.image)?;
    let registry = &args.registry;
    let access = registry.access(args.limits.options());
    let pulled = args.store.open()?.pull(&name, &access, registry.progress().as_ref())?;
    if registry.quiet {
        print(&format!("{name}\n"));
        return Ok(0);
    }
    let status = if pulled.is_up_to_date { "Image is up to date for" } else { "Downloaded newer image for" };
    print(&format!("Digest: {}\nStatus: {status} {}\n{name}\n", pulled.digest, name.familiar()));
    Ok(0)
}

/// Fetches an image before it runs: progress goes to standard error.
pub fn fetch(store: &Store, name: &Reference, platform: Option<&Platform>, quiet: bool) -> image::Result<()> {
    let options = Options { platform: platform.cloned(), ..Options::default() };
    let access = Access { insecure: false, authorities: Vec::new(), options };
    store.pull(name, &access, progress(quiet).as_ref()).map(drop)
}

/// `hull push`.
pub fn push(args: &PushArgs) -> Result<u8> {
    let name = Reference::parse(&args.image)?;
    let registry = &args.registry;
    let access = registry.access(Options::default());
    let pushed = args.store.open()?.push(&name, &access, registry.progress().as_ref())?;
    if registry.quiet {
        print(&format!("{name}\n"));
        return Ok(0);
    }
    print(&format!("{}: digest: {} size: {}\n", name.tag().unwrap_or_default(), pushed.digest, pushed.size));
    Ok(0)
}
