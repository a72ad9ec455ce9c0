//! `hull pull` and `hull push`.

use super::args::{PullArgs, PushArgs, RegistryArgs};
use super::print;
use super::progress::{Bars, Lines, Quiet};
use crate::failure::Result;
use image::{Access, Options, Progress, Reference};
use std::io::IsTerminal;

impl RegistryArgs {
    fn access(&self, options: Options) -> Access {
        Access { insecure: self.insecure, authorities: self.tls_ca.clone(), options }
    }

    /// Bars on a terminal, lines elsewhere.
    fn progress(&self) -> Box<dyn Progress> {
        if self.quiet {
            Box::new(Quiet)
        } else if std::io::stderr().is_terminal() {
            Box::new(Bars::new())
        } else {
            Box::new(Lines::default())
        }
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
