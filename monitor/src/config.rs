//! Configuration of a pod.

use crate::connectors::files::ExportConfig;
use abi::boot::PodConfig;
use std::fs::File;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// How system calls enter keel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Syscalls {
    /// Patch call sites into calls after they trapped.
    #[default]
    Call,
    /// Every system call traps.
    Trap,
}

/// How the connector ring is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Doorbell {
    /// Chosen by load.
    #[default]
    Adaptive,
    /// The virtual CPU exits for each batch.
    Exit,
    /// An ioeventfd wakes the helper thread.
    Event,
    /// The helper thread polls.
    Poll,
}

/// How keel fails on purpose, when the first program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeelFailure {
    /// It panics.
    Panic,
    /// It raises an exception.
    Fault,
    /// It uses up a kernel stack.
    Stack,
}

/// One pod.
#[derive(Debug)]
pub struct RunConfig {
    /// Limit of RAM in bytes.
    pub memory_limit: u64,
    /// Virtual CPUs.
    pub cpus: u32,
    /// Limit of the processor time of the pod and its monitor, in billionths of a processor; `None`: as much as there is.
    pub cpu_share: Option<NonZeroU64>,
    /// Maximum number of busy virtual CPUs, unless programs pin threads to others: the host's processors.
    pub busy_cpus: u32,
    /// How system calls enter keel.
    pub syscalls: Syscalls,
    /// How the ring is served.
    pub doorbell: Doorbell,
    /// Whether pages of granted files are mapped from the host's page cache; otherwise the pod has copies.
    pub shared_pages: bool,
    /// How much of its connectors the pod may use per second.
    pub rates: crate::pace::Rates,
    /// The pod ends with exit code 124 after this time.
    pub timeout: Option<Duration>,
    /// Whether keel fails, so that its report can be tested.
    pub fail_keel: Option<KeelFailure>,
    /// Host directories and files, by the ids that `pod.exports` uses.
    pub exports: Vec<ExportConfig>,
    /// Descriptors of the host for those of `pod.passed`, in the same order.
    pub passed: Vec<OwnedFd>,
    /// The monitor's end of the socket pair to the broker, which opens sockets for the pod; `None`: the pod reaches only
    /// itself.
    pub broker: Option<OwnedFd>,
    /// The broker's table of prepared peers, without the right to write, if it has one.
    pub prepared: Option<OwnedFd>,
    /// Settings of the monitor's jail.
    pub jail: crate::jail::Settings,
    /// Where exits are counted at the end.
    pub counters: Option<File>,
    /// Where traced calls are written; `None`: standard error.
    pub trace_output: Option<File>,
    /// Configuration that is passed to keel.
    pub pod: PodConfig,
}
