//! Options of the commands for images.

use super::filter::Filter;
use crate::values::amount;
use clap::{Args, ValueEnum};
use image::Platform;
use std::path::PathBuf;

/// Where the images are.
#[derive(Args, Debug)]
pub struct StoreArgs {
    /// Folder of the store [default: $HULL_STORE, or /var/lib/hull/images for root, ~/.local/share/hull/images for others]
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
}

/// What is accepted from archives and registries.
#[derive(Args, Debug)]
pub struct Files {
    /// Choose the image for this platform [default: linux/amd64 if there are several]
    #[arg(long, value_name = "OS/ARCH[/VARIANT]", value_parser = |text: &str| text.parse::<Platform>().map_err(|error| error.to_string()))]
    pub platform: Option<Platform>,

    /// Refuse images that are larger, packed or unpacked; suffixes K, M, G, T
    #[arg(long, value_name = "SIZE", default_value = "64G", value_parser = amount)]
    pub max_size: u64,
}

/// Options of `load`.
#[derive(Args, Debug)]
pub struct LoadArgs {
    #[command(flatten)]
    pub store: StoreArgs,

    #[command(flatten)]
    pub limits: Files,

    /// Archive of `docker save`, OCI archive, or OCI layout folder; gzip, zstd or plain [default: standard input]
    #[arg(short, long, value_name = "FILE")]
    pub input: Option<PathBuf>,

    /// Print no progress
    #[arg(short, long)]
    pub quiet: bool,
}

/// How a listing is printed.
#[derive(Args, Debug)]
pub struct Listing {
    /// `table`, `json` (an object on each line), or a template such as `{{.Repository}}:{{.Tag}}`
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<String>,

    /// Print ids only
    #[arg(short, long)]
    pub quiet: bool,

    /// Print whole ids and texts
    #[arg(long)]
    pub no_trunc: bool,
}

/// Options of `images`.
#[derive(Args, Debug)]
pub struct ImagesArgs {
    #[command(flatten)]
    pub store: StoreArgs,

    #[command(flatten)]
    pub listing: Listing,

    /// Print digests too
    #[arg(long)]
    pub digests: bool,

    /// Ignored: all images are listed
    #[arg(short, long)]
    pub all: bool,

    /// Only images for which this holds: dangling=true|false, reference=PATTERN, label=KEY[=VALUE], before=IMAGE,
    /// since=IMAGE. Repeatable
    #[arg(short, long, value_name = "KEY=VALUE", value_parser = Filter::parse)]
    pub filter: Vec<Filter>,

    /// Only images of this name, in which `*` and `?` may stand for other characters
    #[arg(value_name = "NAME[:TAG]")]
    pub name: Option<String>,
}

/// Options of `history`.
#[derive(Args, Debug)]
pub struct HistoryArgs {
    #[command(flatten)]
    pub store: StoreArgs,

    #[command(flatten)]
    pub listing: Listing,

    /// The image
    pub image: String,
}

/// Options of `inspect`.
#[derive(Args, Debug)]
pub struct InspectArgs {
    #[command(flatten)]
    pub store: StoreArgs,

    /// `json` (on one line), or a template such as `{{.Id}}` or `{{json .Config}}`
    #[arg(short, long, value_name = "FORMAT")]
    pub format: Option<String>,

    /// Kind of the objects: only images are known
    #[arg(long = "type", value_name = "TYPE", value_parser = ["image"])]
    pub kind: Option<String>,

    /// The images
    #[arg(required = true, value_name = "IMAGE")]
    pub images: Vec<String>,
}

/// Options of `tag`.
#[derive(Args, Debug)]
pub struct TagArgs {
    #[command(flatten)]
    pub store: StoreArgs,

    /// A name or id
    pub source: String,

    /// The additional name
    #[arg(value_name = "NAME[:TAG]")]
    pub target: String,
}

/// Options of `rmi`.
#[derive(Args, Debug)]
pub struct RmiArgs {
    #[command(flatten)]
    pub store: StoreArgs,

    /// Remove all names of an id, and images that a pod runs (the pod goes on); ignore images that do not exist
    #[arg(short, long)]
    pub force: bool,

    /// Ignored: images have no parents without a name
    #[arg(long)]
    pub no_prune: bool,

    /// Names or ids
    #[arg(required = true, value_name = "IMAGE")]
    pub images: Vec<String>,
}

/// Kinds of archives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Archive {
    /// An OCI layout that docker reads too, with the digests that the images came with
    OciArchive,
    /// An archive of older dockers, with unpacked layers
    DockerArchive,
}

/// Options of `save`.
#[derive(Args, Debug)]
pub struct SaveArgs {
    #[command(flatten)]
    pub store: StoreArgs,

    /// The file to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Kind of the archive
    #[arg(long, value_enum, default_value_t = Archive::OciArchive)]
    pub format: Archive,

    /// Names or ids
    #[arg(required = true, value_name = "IMAGE")]
    pub images: Vec<String>,
}

/// Options of `cp`.
#[derive(Args, Debug)]
pub struct CopyArgs {
    #[command(flatten)]
    pub store: StoreArgs,

    /// Keep owners, set-user-id bits and extended attributes [default: the files belong to the caller, in an image to root]
    #[arg(short, long)]
    pub archive: bool,

    /// Copy the target of a symbolic link in place of the link that the source names
    #[arg(short = 'L', long)]
    pub follow_link: bool,

    /// Print no summary
    #[arg(short, long)]
    pub quiet: bool,

    /// An image of the store and a path in it, or a file or directory of the host; `PATH/.`: what the directory has; `-`: a
    /// tar archive from standard input
    #[arg(value_name = "IMAGE:PATH|FILE|-")]
    pub source: PathBuf,

    /// A file or directory of the host, `-`: a tar archive to standard output; or an image and a path in it: its name goes to a
    /// new image that has the files, too
    #[arg(value_name = "DEST|-|IMAGE:PATH")]
    pub destination: PathBuf,
}

/// Options of `prune`.
#[derive(Args, Debug)]
pub struct PruneArgs {
    #[command(flatten)]
    pub store: StoreArgs,

    /// Remove images with names too, if no pod runs them
    #[arg(short, long)]
    pub all: bool,

    /// Do not ask
    #[arg(short, long)]
    pub force: bool,
}

/// How a registry is reached.
#[derive(Args, Debug)]
pub struct RegistryArgs {
    /// Use plain HTTP; only for registries on this machine
    #[arg(long)]
    pub insecure: bool,

    /// Trust the certificate authorities of this file (PEM) besides those of the host and of
    /// /etc/docker/certs.d/HOST/*.crt. Repeatable
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Vec<PathBuf>,

    /// Print the name only
    #[arg(short, long)]
    pub quiet: bool,
}

/// Options of `pull`.
#[derive(Args, Debug)]
pub struct PullArgs {
    #[command(flatten)]
    pub store: StoreArgs,

    #[command(flatten)]
    pub limits: Files,

    #[command(flatten)]
    pub registry: RegistryArgs,

    /// The image
    #[arg(value_name = "NAME[:TAG][@DIGEST]")]
    pub image: String,
}

/// Options of `push`.
#[derive(Args, Debug)]
pub struct PushArgs {
    #[command(flatten)]
    pub store: StoreArgs,

    #[command(flatten)]
    pub registry: RegistryArgs,

    /// The image; its name leads to the registry
    #[arg(value_name = "NAME[:TAG]")]
    pub image: String,
}

/// Options of `import`.
#[derive(Args, Debug)]
pub struct ImportArgs {
    #[command(flatten)]
    pub store: StoreArgs,

    #[command(flatten)]
    pub limits: Files,

    /// Apply an instruction of a Dockerfile, such as `CMD ["/bin/sh"]`: CMD, ENTRYPOINT, ENV, EXPOSE, LABEL, STOPSIGNAL,
    /// USER, VOLUME, WORKDIR. Repeatable
    #[arg(short, long, value_name = "INSTRUCTION")]
    pub change: Vec<String>,

    /// The comment in the image's history
    #[arg(short, long)]
    pub message: Option<String>,

    /// A tar archive (gzip, zstd or plain; `-`: standard input), or a folder
    #[arg(value_name = "FILE|DIR")]
    pub source: PathBuf,

    /// The image's name
    #[arg(value_name = "NAME[:TAG]")]
    pub name: Option<String>,
}
