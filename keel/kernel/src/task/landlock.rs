//! Restrictions of a landlock(7) domain on processes: tracing, signals ([`vfs::landlock`] has those on files).

use super::Task;
use super::cred::Cred;
use crate::file::landlock::SCOPE_SIGNAL;

/// Whether the domain of `own` permits inspecting a thread with the credentials `other`.
pub fn may_look(own: &Cred, other: &Cred) -> bool {
    own.domain.as_ref().is_none_or(|domain| domain.contains(other.domain.as_deref()))
}

/// Whether the domain of `sender` permits signals to `target`.
pub fn may_signal(sender: &Cred, target: &Task) -> bool {
    sender.domain.as_ref().is_none_or(|domain| !domain.confines(target.cred().domain.as_deref(), SCOPE_SIGNAL))
}
