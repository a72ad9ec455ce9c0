//! The open handle of a host file.

use super::super::{Host, HostNode, Key, lease};
use super::{Content, WHOLE};
use abi::request::{NodeAttr, Open, open_flags};
use uapi::{Errno, Result};

/// An open file of the monitor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handle {
    id: u64,
    readable: bool,
    writable: bool,
}

impl Content {
    pub(in super::super) fn handle(&self) -> Option<u64> {
        self.handle.get().map(|h| h.id)
    }

    /// The handle if it may write.
    pub(in super::super) fn writable_handle(&self) -> Option<u64> {
        self.handle.get().filter(|handle| handle.writable).map(|handle| handle.id)
    }

    pub(in super::super) fn close(&self, host: &Host) {
        if let Some(handle) = self.handle.take() {
            host.close(handle.id);
        }
    }
}

impl HostNode {
    /// An open handle. ESTALE if the name leads to another file by now.
    pub(in super::super) fn open_handle(&self, write: bool) -> Result<u64> {
        let content = self.content();
        if let Some(handle) = content.handle.get()
            && (handle.writable || !write)
        {
            return Ok(handle.id);
        }
        for _ in 0..super::super::node::TRIES {
            let _held = self.export.hold_paths()?;
            if self.gone.get() {
                return Err(Errno::ESTALE);
            }
            let flags = open_flags::READ | if write { open_flags::WRITE } else { 0 };
            let mut attr = [NodeAttr::default()];
            let asked = self.host().ask();
            let mut open = |flags| {
                let open = Open { export: self.export.id, flags, mode: 0, uid: 0, gid: 0 };
                self.host().call(open, &self.path()[..], &mut attr[..])
            };
            let (reply, readable) = match open(flags) {
                // Writable but not readable for the monitor: write-only will do.
                Err(Errno::EACCES) if write => (open(open_flags::WRITE), false),
                other => (other, true),
            };
            // Its name, or one above, may be another one meanwhile.
            let is_renamed = self.host().changes.get() > asked.changes;
            let id = match reply {
                Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) if is_renamed => continue,
                Err(Errno::ENOENT) if self.has_others() => {
                    self.is_misplaced();
                    continue;
                }
                reply => reply?.handle,
            };
            if Key::of(&attr[0]) != Key::of(&self.attr_cached()) {
                self.host().close(id);
                if !is_renamed {
                    self.is_misplaced();
                }
                continue;
            }
            self.learn(&attr[0], asked);
            return Ok(self.keep_handle(Handle { id, readable, writable: write }));
        }
        Err(Errno::ESTALE)
    }

    /// Keeps a handle that the host gave, unless another thread brought one that can do as much: the one that is kept.
    pub(in super::super) fn take_handle(&self, id: u64, writable: bool) -> u64 {
        self.keep_handle(Handle { id, readable: true, writable })
    }

    /// EACCES if the host does not let the monitor read the file. Asks only where its permissions leave a doubt.
    pub(crate) fn check_host_readable(&self) -> Result<()> {
        const ALL: u32 = 0o444;
        let (attr, content) = (self.attr_cached(), self.content());
        if let Some(handle) = content.handle.get() {
            return if handle.readable { Ok(()) } else { Err(Errno::EACCES) };
        }
        // Of an empty one nothing will be read: lock files may be used.
        if attr.mode & ALL == ALL || attr.size == 0 || !content.pages.borrow().is_empty() || self.gone.get() {
            return Ok(());
        }
        // A small file comes with its content, which is probably what will be asked for next.
        let asked = match attr.size {
            ..=WHOLE => self.page(0, 1, attr.size).map(drop),
            _ => self.open_handle(false).map(drop),
        };
        // Whatever else is wrong is told when it is used.
        if matches!(asked, Err(Errno::EACCES | Errno::EAGAIN)) { asked } else { Ok(()) }
    }

    fn keep_handle(&self, new: Handle) -> u64 {
        let (id, content) = (new.id, self.content());
        if let Some(other) = content.handle.get() {
            let (kept, closed) = if other.writable { (other.id, id) } else { (id, other.id) };
            self.host().close(closed);
            if kept == other.id {
                return kept;
            }
        }
        content.handle.set(Some(new));
        self.host().cache.has_handle(self.this.clone());
        id
    }

    /// Runs what opens the file where no open(2) can wait until no process of the host has a lease on it. EINTR: the thread is being
    /// killed.
    pub(super) fn when_not_leased<R>(&self, run: impl FnMut() -> Result<R>) -> Result<R> {
        lease::when_not_leased(run, |ns| self.host().io.pause(ns))
    }

    /// Runs a request on the handle; opens it (again) when the cache closed it meanwhile.
    pub(super) fn on_handle<R>(&self, write: bool, mut f: impl FnMut(u64) -> Result<R>) -> Result<R> {
        let id = self.open_handle(write)?;
        match f(id) {
            Err(Errno::EBADF) if self.content().handle() != Some(id) => f(self.open_handle(write)?),
            other => other,
        }
    }
}
