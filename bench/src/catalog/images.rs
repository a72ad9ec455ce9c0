//! Pods of images, `hull bench image-`: their start against container runtimes, programs and files against the host, the
//! memory that pods of one image share, and loading archives.

use super::{Benchmark, Kind};

/// The other tool of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// `crun` with its management of control groups switched off.
    Crun,
    /// `podman` with a storage of its own.
    Podman,
    /// `docker`, with a daemon of its own if none answers.
    Docker,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Start to exit of a program that does nothing, from an image of one file.
    Start(Peer),
    /// The same from an image of many files; the other side is the image of one file.
    StartLarge,
    /// A shell command that one process runs twice, with `program` of the host in the image. The host runs it in the
    /// directory that the image was made of.
    Program {
        /// Absolute path.
        program: &'static str,
        /// The command.
        line: &'static str,
    },
    /// A workload over the tree of files that prints two numbers. The host has the same image mounted.
    Tree(&'static [&'static str]),
    /// A workload over the large file that prints one number, likewise.
    Data(&'static [&'static str]),
    /// Memory that a second pod takes which maps 32 MiB of the image: one file, or files of 1 MiB each.
    Shared {
        /// Whether it is many files.
        small: bool,
    },
    /// Loading an archive into an empty store.
    Load(Peer),
}

impl Work {
    /// Endings of the names of its rows.
    pub fn rows(self) -> &'static [&'static str] {
        match self {
            Self::Program { .. } | Self::Tree(_) => &["-first", "-again"],
            _ => &[""],
        }
    }
}

const fn image(name: &'static str, what: &'static str, work: Work) -> Benchmark {
    Benchmark { name, what, kind: Kind::Image(work), options: &[] }
}

const fn program(name: &'static str, what: &'static str, program: &'static str, line: &'static str) -> Benchmark {
    image(name, what, Work::Program { program, line })
}

/// All of them.
pub const ALL: &[Benchmark] = &[
    image(
        "image-start-crun",
        "start to exit of a program that does nothing, median: crun run of the same root without cgroups, a pod of the image",
        Work::Start(Peer::Crun),
    ),
    image(
        "image-start-podman",
        "the same: podman run --rm --network none --cgroups=disabled, a pod",
        Work::Start(Peer::Podman),
    ),
    image("image-start-docker", "the same: docker run --rm --network none, a pod", Work::Start(Peer::Docker)),
    image(
        "image-start-large",
        "the same: a pod of this image of one file, of an image of 50,000 files and 0.4 GB (stand-in for 200,000 files and 5 GB)",
        Work::StartLarge,
    ),
    program(
        "image-python",
        "python3 that imports json and subprocess: chroot of the host into the image's directory, a pod of the image",
        "/usr/bin/python3",
        "/usr/bin/python3 -c 'import json, subprocess; print(json)'",
    ),
    program("image-node", "node that prints a line, likewise", "/usr/bin/node", "/usr/bin/node -e 'console.log(1)'"),
    program("image-java", "java -version, likewise", "/usr/bin/java", "/usr/bin/java -version 2>&1"),
    program(
        "image-git",
        "git log -p of a repository of 1,000 files, likewise",
        "/usr/bin/git",
        "/usr/bin/git -c safe.directory=* -C /bench/repository log -p",
    ),
    image(
        "image-files-read",
        "reading a file of 64 MiB, 128 KiB at a time, per KiB: the host's mount of the image, a pod of it",
        Work::Data(&["read-sequential", "/data/big"]),
    ),
    image(
        "image-files-random",
        "reading 4 KiB at random places of that file, likewise",
        Work::Data(&["read-random", "/data/big"]),
    ),
    image(
        "image-files-stat",
        "stat of 50,000 files, per file, in a new mount or pod and later",
        Work::Tree(&["tree-stat", "/data"]),
    ),
    image(
        "image-files-open",
        "open, a read of 4 KiB and close of 50,000 files, likewise",
        Work::Tree(&["tree-open", "/data"]),
    ),
    image(
        "image-files-find",
        "find of 50,000 files, likewise",
        Work::Tree(&["command", "/usr/bin/find /data -size +1k"]),
    ),
    image(
        "image-files-tar",
        "tar of 50,000 files into a pipe, likewise",
        Work::Tree(&["command", "/usr/bin/tar -cf - /data"]),
    ),
    image(
        "image-memory-shared",
        "memory that a second pod of an image takes when it maps 32 MiB of a file of 64 MiB",
        Work::Shared { small: false },
    ),
    image("image-memory-shared-small", "the same with 32 files of 1 MiB", Work::Shared { small: true }),
    image(
        "image-load-podman",
        "loading an archive of docker's format, 1 GB in one layer, into an empty store: podman load, hull load",
        Work::Load(Peer::Podman),
    ),
    image("image-load-docker", "the same: docker load, hull load", Work::Load(Peer::Docker)),
];
