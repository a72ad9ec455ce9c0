//! Errors of a pod that could not run.

use std::path::PathBuf;

/// A failure of Hull itself (exit code 125). Each message names the object and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `/dev/kvm` does not exist.
    #[error("/dev/kvm: no such device; load the kvm module (modprobe kvm_intel or kvm_amd) or enable virtualisation")]
    NoKvm,
    /// `/dev/kvm` may not be opened.
    #[error("/dev/kvm: permission denied; join the group that owns it (usually kvm) or run as root")]
    KvmPermission,
    /// `/dev/kvm` is something else, or too old.
    #[error("/dev/kvm: {0}")]
    KvmUnusable(String),
    /// A KVM call failed.
    #[error("kvm: {call}: {}; run hull doctor", reason(.source))]
    Kvm {
        /// The ioctl.
        call: &'static str,
        /// The errno.
        source: std::io::Error,
    },
    /// No memory for the guest.
    #[error(
        "memory of the virtual machine ({bytes} bytes): {}; use a smaller --memory, or raise the limit on memory (ulimit -v)",
        reason(.source)
    )]
    Memory {
        /// Bytes requested.
        bytes: u64,
        /// The errno.
        source: std::io::Error,
    },
    /// What the guest needs at boot does not fit.
    #[error(
        "--memory {}M: too little for the pod's arguments, environment and settings; give at least {}M",
        bytes >> 20,
        least >> 20
    )]
    TooSmall {
        /// The pod's memory in bytes.
        bytes: u64,
        /// Bytes that would do.
        least: u64,
    },
    /// A host path that was granted can't be opened.
    #[error("{path}: {}; check the path", reason(.source))]
    Export {
        /// The path.
        path: PathBuf,
        /// The errno.
        source: std::io::Error,
    },
    /// The monitor can't confine itself.
    #[error("jail: {0}")]
    Jail(#[from] crate::jail::Failure),
    /// A host resource is missing.
    #[error("{what}: {}; run hull doctor", reason(.source))]
    Host {
        /// The operation.
        what: &'static str,
        /// The errno.
        source: std::io::Error,
    },
    /// A thread can't be started.
    #[error("{what}: {}; raise the limit on processes (ulimit -u, pids.max of the control group) or on memory (ulimit -d, ulimit -v)", reason(.source))]
    Thread {
        /// Purpose of the thread.
        what: &'static str,
        /// The errno.
        source: std::io::Error,
    },
    /// The kernel inside the machine failed.
    #[error("keel failed: {0}")]
    Keel(String),
    /// A bug in Hull.
    #[error("internal error: {0}")]
    Internal(&'static str),
}

/// Text of an error of the host without Rust's "(os error 2)".
pub(crate) fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((text, _)) => text.to_lowercase(),
        None => text,
    }
}

impl Error {
    /// A failed KVM call.
    pub(crate) fn kvm(call: &'static str, error: kvm_ioctls::Error) -> Self {
        Self::Kvm { call, source: std::io::Error::from_raw_os_error(error.errno()) }
    }

    /// A failed call to the host.
    pub(crate) fn host(what: &'static str, source: impl Into<std::io::Error>) -> Self {
        Self::Host { what, source: source.into() }
    }
}
