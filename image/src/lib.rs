//! Container images on the host: names, archives, registries, and the [`Store`] that keeps an EROFS file of each image
//! for pods. See docs/images.md.

#![forbid(unsafe_code)]

mod add;
mod bundle;
mod compress;
mod copy;
mod digest;
mod error;
mod import;
mod install;
mod limits;
mod load;
mod manifest;
mod reference;
mod registry;
mod save;
mod store;
mod stream;
pub mod time;

pub use add::{Added, Addition};
pub use copy::{Copied, Source};
pub use digest::Digest;
pub use error::{Error, Result};
pub use import::Import;
pub use install::Options;
pub use limits::{DEFAULT_SIZE, Limits};
pub use load::Loaded;
pub use manifest::Platform;
pub use oci_spec;
pub use reference::Reference;
pub use registry::{Access, Progress, Pulled, Pushed};
pub use save::ArchiveFormat;
pub use store::{Details, Entry, Image, Layer, Listed, Store, Swept, Writer};
