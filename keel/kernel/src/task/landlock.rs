//! What a domain of landlock(7) restricts of processes ([`vfs::landlock`] has files): tracing, signals.

use super::Task;
use super::cred::Cred;
use crate::file::landlock::SCOPE_SIGNAL;

/// Whether the domain of `own` lets it look into what has the credentials `other`.
pub fn may_look(own: &Cred, other: &Cred) -> bool {
    own.domain.as_ref().is_none_or(|domain| domain.contains(other.domain.as_deref()))
}

/// Whether the domain of `sender` lets signals out to `target`.
pub fn may_signal(sender: &Cred, target: &Task) -> bool {
    sender.domain.as_ref().is_none_or(|domain| !domain.confines(target.cred().domain.as_deref(), SCOPE_SIGNAL))
}
