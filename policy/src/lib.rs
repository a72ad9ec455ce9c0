//! Network policy of a pod: rules as users write them, decisions, and the rule that decided.
//!
//! This crate opens no files and makes no requests: it parses ([`file`], [`rule`]), records the DNS answers of the pod
//! ([`answers`]), and decides ([`network`]). Its inputs may be hostile: a policy file, names and addresses from a
//! guest.

pub mod address;
pub mod answers;
pub mod file;
pub mod listen;
pub mod name;
pub mod network;
pub mod query;
pub mod rule;

pub use address::Class;
pub use answers::Answers;
pub use file::Policy;
pub use listen::Listen;
pub use name::Name;
pub use network::{Decision, Network, Reason};
pub use rule::{Peer, Ports, Protocol, Rule, Verdict};
