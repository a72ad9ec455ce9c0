//! The monitor: the host process of one pod.
//!
//! It owns the virtual machine, serves its connectors and enforces the policy. Everything in guest memory is hostile
//! input: it is copied in, bounded, validated, and answered with a typed error.

mod clocks;
pub mod config;
pub mod connectors;
mod costs;
mod cpuid;
mod cpus;
mod error;
mod event;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod image;
pub mod jail;
pub mod kvm;
mod machine;
pub mod memory;
mod pace;
mod ring;
mod run;
mod server;
mod vcpu;

pub use config::{Doorbell, KeelFailure, RunConfig, Syscalls};
pub use costs::{exit_cost, switch_cost};
pub use cpus::processors;
pub use error::Error;
pub use machine::MIN_MEMORY;
pub use pace::{Rate, Rates};
pub use run::{EXIT_TIMEOUT, run};
