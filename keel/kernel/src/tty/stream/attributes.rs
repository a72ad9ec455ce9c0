//! Owner, permissions and times of streams that programs changed: they hold in the pod, the host's object keeps its own.

use super::{HOST_FILES, Stream};
use crate::file::{FileOps, anon};
use core::cell::Cell;
use uapi::{Errno, Result};
use vfs::{Attr, Change};

/// Attributes that replace those of a host file in the pod.
#[derive(Debug, Default)]
struct Replaced {
    /// In the pod, and on the host when they were changed.
    attrs: Cell<Option<(Attr, Attr)>>,
}

impl Replaced {
    /// What the pod sees of a file that has these attributes on the host.
    fn over(&self, host: Attr) -> Attr {
        let Some((own, then)) = self.attrs.get() else { return host };
        // A time that has changed on the host since is the later one.
        let pick = |own: (i64, u32), then: (i64, u32), now: (i64, u32)| if now == then { own } else { now };
        let (atime, atime_ns) =
            pick((own.atime, own.atime_ns), (then.atime, then.atime_ns), (host.atime, host.atime_ns));
        let (mtime, mtime_ns) =
            pick((own.mtime, own.mtime_ns), (then.mtime, then.mtime_ns), (host.mtime, host.mtime_ns));
        let (ctime, ctime_ns) =
            pick((own.ctime, own.ctime_ns), (then.ctime, then.ctime_ns), (host.ctime, host.ctime_ns));
        let Attr { mode, uid, gid, .. } = own;
        Attr { mode, uid, gid, atime, atime_ns, mtime, mtime_ns, ctime, ctime_ns, ..host }
    }
}

impl Stream {
    /// What the pod sees of the file, which has these attributes on the host.
    pub(super) fn with_replaced(&self, host: Attr) -> Attr {
        let key = (host.dev, host.ino);
        let files = HOST_FILES.borrow();
        match files.iter().find(|(other, _)| *other == key).and_then(|(_, at)| at.get::<Replaced>()) {
            Some(replaced) => replaced.over(host),
            None => host,
        }
    }

    /// Changes attributes in the pod. ENOMEM.
    pub(super) fn replace(&self, make: &dyn Fn(&Attr) -> Result<Change>) -> Result<()> {
        let host = self.host_attr()?;
        let change = make(&self.with_replaced(host))?;
        let replaced = self.host_attachments().ok_or(Errno::ENOMEM)?.get_or_insert(Replaced::default);
        replaced.attrs.set(Some((anon::changed(replaced.over(host), &change), host)));
        Ok(())
    }
}
