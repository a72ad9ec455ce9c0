//! Registries: the OCI distribution protocol over HTTP, for [`Store::pull`] and [`Store::push`].
//!
//! [`Store::pull`]: crate::Store::pull
//! [`Store::push`]: crate::Store::push

mod auth;
mod client;
mod credentials;
mod mirrors;
mod pull;
mod push;
mod roots;
mod transfer;

use std::path::PathBuf;

pub use pull::Pulled;
pub use push::Pushed;

use crate::install::Options;

/// How a registry is reached.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Plain HTTP; only for registries on this machine.
    pub insecure: bool,
    /// Certificates (PEM) of authorities that are trusted besides those of the host.
    pub authorities: Vec<PathBuf>,
    /// Limits and platform of what is pulled.
    pub options: Options,
}

/// Receives the progress of transfers, from several threads.
pub trait Progress: Sync {
    /// A transfer of some bytes begins; returns its number.
    fn begin(&self, name: &str, bytes: u64) -> usize;
    /// Bytes were transferred; a negative number if a part is transferred again.
    fn advance(&self, transfer: usize, bytes: i64);
    /// A transfer ended: `Pull complete`.
    fn end(&self, transfer: usize, how: &str);
}
