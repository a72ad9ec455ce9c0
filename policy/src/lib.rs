//! What a pod may reach: rules as users write them, decisions, and the rule that decided.
//!
//! This crate opens nothing and asks nobody: it parses ([`file`], [`rule`]), remembers which addresses the pod was told
//! for which names ([`answers`]), and decides ([`network`]). Its inputs may be hostile: a policy file, names and addresses that a
//! guest sends.

pub mod address;
pub mod answers;
pub mod file;
pub mod name;
pub mod network;
pub mod query;
pub mod rule;

pub use address::Class;
pub use answers::Answers;
pub use file::Policy;
pub use name::Name;
pub use network::{Decision, Network, Reason};
pub use rule::{Peer, Ports, Protocol, Rule, Verdict};
