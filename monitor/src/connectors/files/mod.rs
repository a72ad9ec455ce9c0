//! The files connector: granted directories and files of the host.
//!
//! Every path is opened beneath a descriptor that was opened before the guest ran, with `openat2(RESOLVE_BENEATH |
//! RESOLVE_NO_SYMLINKS)`: the monitor never follows a symbolic link.

mod attr;
mod change;
mod covers;
mod dir;
mod export;
mod handles;
mod kernelfs;
mod locks;
mod open;
mod path;
mod readahead;
mod recent;
mod subject;
#[cfg(test)]
mod tests;
mod walk;
mod workers;
mod xattr;

pub use export::ExportConfig;
pub use kernelfs::OfKernel;
pub use path::RelPath;
pub use workers::Waker;

use super::payload::{Output, copy_in};
use super::{Errno, Result, Window, reply};
use crate::memory::GuestMemory;
use crate::memory::io::{GuestSlice, Wait};
use abi::request::{FileRequest, NodeAttr};
use handles::Handles;
use rustix::fd::BorrowedFd;
use std::sync::Arc;
use workers::{SyncTimes, Workers};

/// Attributes of an open file in the guest's form.
pub fn attr_of_fd(fd: BorrowedFd<'_>) -> Result<NodeAttr> {
    attr::of_fd(fd).map(|stat| attr::node_attr(&stat))
}

/// Longest input of an operation on names: two paths, a name and a value.
const MAX_INPUT: usize = 2 * (path::MAX_PATH + 1) + 256 + xattr::MAX_SIZE;

/// fallocate(2) of at least this many bytes runs on a worker thread.
const LONG_RANGE: u64 = 16 << 20;

/// Serves the file operations of one pod.
#[derive(Debug)]
pub struct FilesConnector {
    exports: Vec<ExportConfig>,
    handles: Handles,
    workers: Workers,
    syncs: Arc<SyncTimes>,
}

impl FilesConnector {
    /// A connector for `exports`, whose numbers must differ. Sets the process's umask to 0: keel has applied the
    /// program's umask to the modes already.
    pub fn new(mut exports: Vec<ExportConfig>) -> Self {
        rustix::process::umask(rustix::fs::Mode::empty());
        let share = (recent::MAX / exports.len().max(1)).max(1);
        exports.iter_mut().for_each(|export| export.recent.max = share);
        exports.sort_by_key(|export| export.id);
        Self { exports, handles: Handles::new(), workers: Workers::default(), syncs: Arc::default() }
    }

    /// Sets the waker that workers call when an operation is done.
    pub fn set_waker(&self, waker: Waker) {
        self.workers.set_waker(waker);
    }

    /// Number of late operations under way.
    pub fn pending(&self) -> usize {
        self.workers.pending()
    }

    /// Completed late operations.
    pub fn ready(&mut self) -> Vec<(u64, Result)> {
        let done = self.workers.take();
        done.into_iter().map(|(id, finish)| (id, finish(&mut self.handles))).collect()
    }

    /// Serves a request: at once, or late if it may block (`None`). The guest controls all arguments and payloads.
    pub fn start(
        &mut self,
        id: u64,
        request: FileRequest,
        (input, output): (&[GuestSlice], &[GuestSlice]),
        memory: &Arc<GuestMemory>,
    ) -> Option<Result> {
        let work = match request {
            FileRequest::Sync(op) if self.syncs.are_slow() => open::late_sync(&self.handles, op, &self.syncs),
            FileRequest::Fallocate(op) if op.len >= LONG_RANGE => open::late_fallocate(&self.handles, op),
            FileRequest::Read(op) => match open::read(&self.handles, op, output, Wait::Never) {
                // Not in the page cache: the read needs I/O.
                Err(Errno::AGAIN) => open::late_read(&self.handles, op, output, memory),
                Err(Errno::OPNOTSUPP) => return Some(self.handle(request, input, output, &**memory)),
                other => return Some(reply(op, other)),
            },
            _ => return Some(self.handle(request, input, output, &**memory)),
        };
        match work {
            Ok(work) => self.workers.start(id, work, &mut self.handles),
            Err(errno) => Some(Err(errno)),
        }
    }

    /// Serves a request at once. The guest controls the request, `input` and `output`.
    pub fn handle(
        &mut self,
        request: FileRequest,
        input: &[GuestSlice],
        output: &[GuestSlice],
        window: &dyn Window,
    ) -> Result {
        use FileRequest as F;
        let handles = &mut self.handles;
        let find = |export| ExportConfig::find(&self.exports, export);
        let bytes = || copy_in(input, MAX_INPUT);
        let out = &mut Output::new(output);
        match request {
            F::Close(op) => reply(op, handles.remove(op.handle).map(drop)),
            F::Read(op) => reply(op, open::read(handles, op, output, Wait::Default)),
            F::Write(op) => reply(op, open::write(handles, op, input, out)),
            F::HandleAttr(op) => reply(op, open::handle_attr(handles, op, out)),
            F::Truncate(op) => reply(op, open::truncate(handles, op)),
            F::Fallocate(op) => reply(op, open::fallocate(handles, op)),
            F::Sync(op) => reply(op, open::sync(handles, op, &self.syncs)),
            F::Seek(op) => reply(op, open::seek(handles, op)),
            F::HoldLocks(op) => reply(op, locks::hold(&self.exports, handles, op)),
            F::Lock(op) => reply(op, locks::lock(handles, op)),
            F::TestLock(op) => reply(op, locks::test(handles, op)),
            F::LockWhole(op) => reply(op, locks::lock_whole(handles, op)),
            F::Map(op) => reply(op, open::map(&self.exports, handles, op, window)),
            F::Unmap(op) => reply(op, open::unmap(op, window)),
            F::Populate(op) => reply(op, open::populate(op, window)),
            F::Walk(op) => reply(op, walk::walk(find(op.export)?, op, RelPath::new(&bytes()?)?, out)),
            F::ReadDir(op) => reply(op, dir::read(find(op.export)?, handles, op, &bytes()?, out)),
            F::Open(op) => reply(op, open::open(find(op.export)?, handles, op, RelPath::new(&bytes()?)?, out)),
            F::Fetch(op) => reply(op, open::fetch(find(op.export)?, handles, RelPath::new(&bytes()?)?, out)),
            F::ReadLink(op) => reply(op, walk::read_link(find(op.export)?, RelPath::new(&bytes()?)?, out)),
            F::Mkdir(op) => reply(op, change::mkdir(find(op.export)?, op, RelPath::new(&bytes()?)?, out)),
            F::Mknod(op) => reply(op, change::mknod(find(op.export)?, op, RelPath::new(&bytes()?)?, out)),
            F::Symlink(op) => reply(op, change::symlink(find(op.export)?, op, &bytes()?, out)),
            F::Link(op) => reply(op, change::link(find(op.export)?, handles, op, &bytes()?, out)),
            F::Unlink(op) => reply(op, change::unlink(find(op.export)?, op, RelPath::new(&bytes()?)?)),
            F::Rename(op) => reply(op, change::rename(find(op.export)?, op, &bytes()?, out)),
            F::SetAttr(op) => reply(op, attr::set(find(op.export)?, handles, op, &bytes()?, out)),
            F::StatFs(op) => reply(op, attr::stat_fs(find(op.export)?, RelPath::new(&bytes()?)?, out)),
            F::GetXattr(op) => reply(op, xattr::get(find(op.export)?, handles, op, &bytes()?, out)),
            F::ListXattr(op) => reply(op, xattr::list(find(op.export)?, handles, op, RelPath::new(&bytes()?)?, out)),
            F::SetXattr(op) => reply(op, xattr::set(find(op.export)?, handles, op, &bytes()?)),
            F::RemoveXattr(op) => reply(op, xattr::remove(find(op.export)?, handles, op, &bytes()?)),
        }
    }
}
