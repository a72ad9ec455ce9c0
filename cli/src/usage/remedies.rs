//! Remedies that options of several tools share.

pub(super) const GRANT_RO: &str = "grant with --ro PATH[:AT] (--rw: writable)";
pub(super) const GRANT_RW: &str = "grant with --rw PATH[:AT]";
pub(super) const OWN: &str = "leave it out: every pod has its own";
pub(super) const RIGHTS: &str = "leave it out: privileges in a pod apply to that pod only";
pub(super) const NETWORK: &str = "allow peers with --allow PEER[:PORT], publish ports with --publish HOST:POD";
pub(super) const NO_COUNTERPART: &str = "leave it out: Hull has no counterpart";
